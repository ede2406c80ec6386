"""What somebody wants to install a wheel for, and the answers there are."""

from __future__ import annotations

from dataclasses import dataclass

from packaging.requirements import Requirement
from packaging.tags import Tag
from packaging.utils import BuildTag, canonicalize_name, parse_wheel_filename
from packaging.version import Version

from wheelsmith.frameworks import framework, read_local_version
from wheelsmith.index.entries.entry import IndexEntry
from wheelsmith.index.resolve.tag_match import wanted
from wheelsmith.model import TORCH, ReleaseRecord


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
