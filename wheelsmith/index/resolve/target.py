"""Targets of an installation, the tags that they accept, and the results of choosing a wheel."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache
from typing import Self

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.tags import Tag, compatible_tags, cpython_tags
from packaging.utils import BuildTag, canonicalize_name, parse_wheel_filename
from packaging.version import Version

from wheelsmith.base.units import numbers
from wheelsmith.frameworks import framework, patch_releases, read_local_version
from wheelsmith.index.entries.entry import IndexEntry
from wheelsmith.model import TORCH, ReleaseRecord

_MANYLINUX = re.compile(r"manylinux_(?P<major>\d+)_(?P<minor>\d+)_(?P<arch>\w+)")
# The glibc versions of the legacy names are defined in PEP 600.
_LEGACY_GLIBC = {"manylinux1": (2, 5), "manylinux2010": (2, 12), "manylinux2014": (2, 17)}


def glibc_of(platform: str) -> tuple[int, int] | None:
    """Return the minimum glibc of a platform tag, or None if the tag has none, e.g. ``linux_x86_64``."""
    if match := _MANYLINUX.fullmatch(platform):
        return int(match["major"]), int(match["minor"])
    return _LEGACY_GLIBC.get(platform.split("_", maxsplit=1)[0])


@cache
def compatible_platforms(platforms: tuple[str, ...], arch: str, glibc: tuple[int, int] | None) -> tuple[str, ...]:
    """Return the platform tags that a machine accepts, in pip's order of preference.

    :param platforms: the candidate tags.
    :param glibc: version of glibc; None if unknown, which accepts every version.
    """
    candidates = [
        name for name in platforms if name == f"linux_{arch}" or (glibc_of(name) and name.endswith(f"_{arch}"))
    ]
    fitting = [name for name in candidates if glibc is None or (glibc_of(name) or (0, 0)) <= glibc]
    return tuple(sorted(fitting, key=lambda name: (glibc_of(name) or (0, 0), name), reverse=True))


@cache
def tag_ranks(python: str, *, free_threaded: bool, platforms: tuple[str, ...]) -> dict[Tag, int]:
    """Return every tag that a CPython accepts, with its rank in pip's order. The best tag has rank 0.

    :param python: ``3.12`` or ``3.12.1``.
    :param platforms: platform tags, best first. ``any`` is added.
    """
    major, minor = (int(part) for part in python.split(".")[:2])
    # Without platforms, packaging would use those of the current machine.
    platforms = platforms or ("none",)
    abi = f"cp{major}{minor}{'t' if free_threaded else ''}"
    tags = [
        *cpython_tags((major, minor), [abi], platforms),
        *compatible_tags((major, minor), f"cp{major}{minor}", platforms),
    ]
    return {tag: place for place, tag in reversed(list(enumerate(tags)))}


def combined_specifier(requires: Iterable[str], project: str) -> str | None:
    """Return the combined specifier of all requirements for a project, or None if there is none."""
    lines = [line for line in map(Requirement, requires) if canonicalize_name(line.name) == project]
    return str(SpecifierSet(",".join(str(line.specifier) for line in lines if line.specifier))) if lines else None


@cache
def accepts(specifier: str | None, version: str) -> bool:
    """Return True if a specifier accepts a version, or any patch or build of a release such as ``2.11``."""
    if not specifier:
        return True
    try:
        versions = SpecifierSet(specifier)
        patches = (*patch_releases(version), f"{version}.99") if version.count(".") == 1 else ()
        pins = (Version(each.version) for each in versions if each.operator[:2] == "==" and "*" not in each.version)
        builds = (pin for pin in pins if f"{pin.major}.{pin.minor}" == version and not pin.is_prerelease)
        return any(versions.contains(each, prereleases=True) for each in (*map(Version, (version, *patches)), *builds))
    # The specifier is invalid, or a number has more digits than Python reads.
    except ValueError:
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Target(ReleaseRecord):
    """A combination and the known properties of the machine.

    :param release: release of the framework, e.g. ``2.11``.
    :param compute: ``cpu``, or the CUDA that torch was built with, e.g. ``cu130``.
    :param python: ``3.12``, or ``3.12.1`` if the patch release is known.
    :param free_threaded: True for a Python without the GIL, which needs other wheels.
    :param torch_version: complete version of the installed or requested torch, e.g. ``2.11.0+cu130``; None for any.
    :param glibc: ``2.36``; None if unknown, ``0.0`` if the machine has no glibc.
    :param capabilities: compute capabilities of the GPUs, e.g. ``9.0``; empty if unknown.
    :param driver: the newest CUDA that the NVIDIA driver supports, e.g. ``13.0``; None if unknown.
    """

    framework: str = TORCH
    release: str
    compute: str
    arch: str
    python: str
    free_threaded: bool = False
    torch_version: str | None = None
    glibc: str | None = None
    capabilities: tuple[str, ...] = ()
    driver: str | None = None

    @property
    def python_minor(self) -> str:
        """Return the minor release as in a matrix, e.g. ``3.12`` for ``3.12.1``; ``3.14t`` if it is free-threaded."""
        return ".".join(self.python.split(".")[:2]) + ("t" if self.free_threaded else "")

    def accepted_tags(self, platforms: tuple[str, ...]) -> dict[Tag, int]:
        """Return every tag that the machine accepts, with its rank. The best tag has rank 0.

        :param platforms: the candidate platform tags.
        """
        known = numbers(self.glibc) if self.glibc else None
        glibc = (known[0], known[1]) if known else None
        fitting = compatible_platforms(platforms, self.arch, glibc)
        return tag_ranks(self.python, free_threaded=self.free_threaded, platforms=fitting)

    def with_python(self, python: str) -> Self:
        """Return the target with another Python, e.g. ``3.14t``."""
        return replace(self, python=python.removesuffix("t"), free_threaded=python.endswith("t"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The wheel to install.

    :param root: the root in which pip and uv find the wheel.
    :param exact: True if ``==`` selects only this version. False if a local version of it exists, which pip prefers.
    :param notes: additional information for the user.
    """

    wheel: IndexEntry
    root: str
    exact: bool = True
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Nearest:
    """A similar target that has a wheel.

    :param change: the changed values, e.g. ``torch 2.11``.
    :param fits: True if the wheel also runs on the requested target.
    """

    target: Target
    change: str
    fits: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """The reason that a target has no wheel.

    :param code: one word, for programs.
    :param reason: a sentence without a full stop.
    :param tail: last lines of the log if the build failed.
    :param nearest: similar targets that have a wheel.
    """

    code: str
    reason: str
    tail: tuple[str, ...] = ()
    nearest: tuple[Nearest, ...] = ()


class ParsedWheel:
    """A wheel with its parsed file name."""

    __slots__ = ("build", "platforms", "tags", "toolkit", "version", "wheel")

    def __init__(self, wheel: IndexEntry) -> None:
        self.wheel = wheel
        _, version, build, tags = parse_wheel_filename(wheel.filename)
        self.version: Version = version
        self.build: BuildTag = build
        self.tags: frozenset[Tag] = tags
        self.platforms = frozenset(tag.platform for tag in tags)
        # The compute platform in the local version, e.g. ``cu130``.
        self.toolkit = read_local_version(version.local).compute

    def required_versions(self, name: str) -> str | None:
        """Return the specifier for a framework that the wheel requires, or None if there is none."""
        if name == TORCH:
            return self.wheel.requires_torch
        return combined_specifier(self.wheel.requires, framework(name).project)

    def other_requirements(self, name: str) -> tuple[str, ...]:
        """Return the requirements other than the framework."""
        own = framework(name).project
        return tuple(text for text in self.wheel.requires if canonicalize_name(Requirement(text).name) != own)

    @property
    def is_pure(self) -> bool:
        """Return True if the wheel contains no compiled code."""
        return "any" in self.platforms
