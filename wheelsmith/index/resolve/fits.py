"""What a wheel runs on: Pythons and platforms by its tags, GPUs by the code in it, drivers by its CUDA."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.tags import Tag, compatible_tags, cpython_tags
from packaging.utils import canonicalize_name
from packaging.version import Version

from wheelsmith.platforms import parse_capability

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


def gpu_code_for(gpu_archs: Sequence[str], capability: str) -> str | None:
    """Say which of a wheel's code a GPU runs: the best of ``8.0``, ``9.0a``, ``9.0+PTX``; None when none of it.

    Machine code runs on its own major from its own minor on; with ``a`` only on its own capability; with ``f`` on its
    family. What the driver compiles from PTX runs on anything newer, and is taken last.
    """
    major, minor, *_ = parse_capability(capability)
    machine, compiled = [], []
    for text in gpu_archs:
        code = parse_capability(text)
        exact, same_major = code[:2] == (major, minor), code[0] == major and code[1] <= minor
        if exact if code[2] == "a" else same_major:
            machine.append((code[:2], text))
        elif code[3] and not code[2] and code[:2] <= (major, minor):
            compiled.append((code[:2], text))
    best = max(machine or compiled, default=None)
    return best[1] if best else None


def needs_compiling(code: str, capability: str) -> bool:
    """Say whether a GPU takes the PTX of this code, and not its machine code."""
    return parse_capability(code)[0] != parse_capability(capability)[0]
