"""What a wheel runs on by its tags: Pythons, architectures, C libraries; and what it requires."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.tags import Tag, compatible_tags, cpython_tags
from packaging.utils import canonicalize_name
from packaging.version import Version

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
