"""What somebody wants to install a wheel for, the tags that it takes, and the answers there are."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.tags import Tag, compatible_tags, cpython_tags
from packaging.utils import BuildTag, canonicalize_name, parse_wheel_filename
from packaging.version import Version

from wheelsmith.frameworks import framework, read_local_version
from wheelsmith.index.entries.entry import IndexEntry
from wheelsmith.model import TORCH, ReleaseRecord

_MANYLINUX = re.compile(r"manylinux_(?P<major>\d+)_(?P<minor>\d+)_(?P<arch>\w+)")
# PEP 600 gives the old names their glibc.
_OLD_NAMES = {"manylinux1": (2, 5), "manylinux2010": (2, 12), "manylinux2014": (2, 17)}


def glibc_of(platform: str) -> tuple[int, int] | None:
    """Return the oldest glibc that a platform tag allows; None where it names none, as ``linux_x86_64`` does."""
    if match := _MANYLINUX.fullmatch(platform):
        return int(match["major"]), int(match["minor"])
    return _OLD_NAMES.get(platform.split("_", maxsplit=1)[0])


@cache
def platforms_for(platforms: tuple[str, ...], arch: str, glibc: tuple[int, int] | None) -> tuple[str, ...]:
    """Return those platform tags that an architecture runs, in the order in which pip prefers them.

    :param glibc: None for one that is not known, which is taken to be new enough.
    """
    ours = [name for name in platforms if name == f"linux_{arch}" or (glibc_of(name) and name.endswith(f"_{arch}"))]
    fitting = [name for name in ours if glibc is None or (glibc_of(name) or (0, 0)) <= glibc]
    return tuple(sorted(fitting, key=lambda name: (glibc_of(name) or (0, 0), name), reverse=True))


@cache
def tag_ranks(python: str, *, free_threaded: bool, platforms: tuple[str, ...]) -> dict[Tag, int]:
    """Return every tag that a CPython takes, with its place in pip's order, the best first.

    :param python: ``3.12`` or ``3.12.1``.
    :param platforms: the best first; ``any`` comes by itself.
    """
    major, minor = (int(part) for part in python.split(".")[:2])
    # packaging takes no platforms at all to mean those of the machine that it runs on.
    platforms = platforms or ("none",)
    abi = f"cp{major}{minor}{'t' if free_threaded else ''}"
    tags = [
        *cpython_tags((major, minor), [abi], platforms),
        *compatible_tags((major, minor), f"cp{major}{minor}", platforms),
    ]
    return {tag: place for place, tag in reversed(list(enumerate(tags)))}


def wanted(requires: Iterable[str], project: str) -> str | None:
    """Return which versions of a project are required, by all lines together; None where none names it."""
    lines = [line for line in map(Requirement, requires) if canonicalize_name(line.name) == project]
    return str(SpecifierSet(",".join(str(line.specifier) for line in lines if line.specifier))) if lines else None


@cache
def accepts(specifier: str | None, version: str) -> bool:
    """Say whether a requirement takes a version; of a release such as ``2.11``, whether it takes any patch of it."""
    if not specifier:
        return True
    try:
        wanted = SpecifierSet(specifier)
        patches = (version, f"{version}.0", f"{version}.99") if version.count(".") == 1 else (version,)
        return any(wanted.contains(Version(patch), prereleases=True) for patch in patches)
    # Invalid ones, and numbers of more digits than Python reads.
    except ValueError:
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Target(ReleaseRecord):
    """A combination, and what is known of the machine.

    :param release: of the framework, e.g. ``2.11``.
    :param compute: ``cpu``, or the CUDA that torch was built with, e.g. ``cu130``.
    :param python: ``3.12``, or ``3.12.1`` where it is known.
    :param free_threaded: a Python without the GIL takes other wheels.
    :param torch_version: the whole version where torch is installed, e.g. ``2.11.0+cu130``.
    :param glibc: ``2.36``; None where it is not known, ``0.0`` where there is none.
    :param capabilities: of the GPUs, e.g. ``9.0``; empty where they are not known.
    :param driver: the newest CUDA that the NVIDIA driver supports, e.g. ``13.0``.
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
        """Return ``3.12`` of ``3.12.1``."""
        return ".".join(self.python.split(".")[:2])


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The wheel to install.

    :param root: the root that pip and uv find it in.
    :param exact: it is what its pin names; False where a version of the same public part would win over it.
    :param notes: what is worth knowing of it.
    """

    wheel: IndexEntry
    root: str
    exact: bool = True
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Nearest:
    """A target that has a wheel, and what is other in it.

    :param change: ``torch 2.11``.
    :param fits: its wheel also runs on what was asked for.
    """

    target: Target
    change: str
    fits: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why there is no wheel.

    :param code: one word for programs.
    :param reason: a sentence without its full stop.
    :param tail: the last lines of the log, where a build failed.
    """

    code: str
    reason: str
    tail: tuple[str, ...] = ()
    nearest: tuple[Nearest, ...] = ()


class KnownWheel:
    """A wheel with its file name taken apart."""

    __slots__ = ("build", "platforms", "tags", "toolkit", "version", "wheel")

    def __init__(self, wheel: IndexEntry) -> None:
        self.wheel = wheel
        _, version, build, tags = parse_wheel_filename(wheel.filename)
        self.version: Version = version
        self.build: BuildTag = build
        self.tags: frozenset[Tag] = tags
        self.platforms = frozenset(tag.platform for tag in tags)
        # The compute platform that its own version names, e.g. ``cu130``.
        self.toolkit = read_local_version(version.local).compute

    def wants(self, name: str) -> str | None:
        """Return which versions of a framework it requires, as a specifier; None where it requires none or any."""
        if name == TORCH:
            return self.wheel.requires_torch
        return wanted(self.wheel.requires, framework(name).project)

    def beside(self, name: str) -> tuple[str, ...]:
        """Return what it requires beside a framework."""
        own = framework(name).project
        return tuple(text for text in self.wheel.requires if canonicalize_name(Requirement(text).name) != own)

    @property
    def pure(self) -> bool:
        """Say whether nothing is compiled in it."""
        return "any" in self.platforms
