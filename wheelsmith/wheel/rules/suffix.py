"""An extension's file name is one that the tag's Python looks for."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator

from packaging.tags import Tag

from wheelsmith.wheel.inspection import Inspection
from wheelsmith.wheel.report import Finding, finding
from wheelsmith.wheel.rules.rule import Rule

_CPYTHON = re.compile(r"\.cpython-(?P<version>\d+)(?P<flags>[a-z]*)(?:-(?P<machine>[\w-]+))?\.so$")
_PYPY = re.compile(r"\.pypy(?P<version>\d+)-(?P<abi>pp\d+)(?:-(?P<machine>[\w-]+))?\.so$")
# https://www.graalvm.org/python/docs/: its release, Python's and the machine.
_GRAALPY = re.compile(r"\.graalpy(?P<release>\d*)-(?P<version>\d+)-native-(?P<machine>\w+-\w+)\.so$")
_STABLE = re.compile(r"\.(?P<abi>abi3t?)\.so$")


def _examine(wheel: Inspection) -> Iterator[Finding]:
    wrong = []
    for name, extension in wheel.extensions.items():
        tags = list(wheel.name.tags)
        wrong += [f"{name} {why}" for why in mistakes(posixpath.basename(name), extension.arch, tags)]
    if wheel.extensions:
        yield finding("suffix", wrong, "every extension has a name that the tag's Python imports")


def mistakes(name: str, arch: str, tags: list[Tag]) -> Iterator[str]:
    """Return what is wrong with one file's name.

    :param arch: for which its machine code is.
    """
    if why := _another_python(name, tags):
        yield why
    match = _CPYTHON.search(name) or _PYPY.search(name) or _GRAALPY.search(name)
    if match is None or match["machine"] is None:
        return
    libc = "musl" if all("musllinux" in tag.platform for tag in tags) else "gnu"
    expected = f"{arch}-linux" if match.re is _GRAALPY else f"{arch}-linux-{libc}"
    if match["machine"] != expected:
        yield f"is named for {match['machine']}, and is for {expected}"


def _another_python(name: str, tags: list[Tag]) -> str | None:
    """Return why a Python of the tags does not look for a file of that name; None where all do."""
    abis = {tag.abi for tag in tags}
    claimed = ", ".join(sorted({f"{tag.interpreter}-{tag.abi}" for tag in tags}))
    if name.endswith(".pyd"):
        return "is named as Pythons on Windows look for it"
    if found := _STABLE.search(name):
        # With both stable ABIs in the tag there may be a file for each.
        free = sorted(abi for abi in abis if abi.endswith("t") and (abi != "abi3t" or "abi3" not in abis))
        if found["abi"] == "abi3" and free:
            return f"is not looked for by a free-threaded Python, and the tag says {', '.join(free)}"
        early = abis == {"abi3"} and found["abi"] == "abi3t"
        return f"is not looked for before Python 3.15, and the tag says {claimed}" if early else None
    if found := _CPYTHON.search(name):
        abi, python = f"cp{found['version']}{found['flags']}", f"cp{found['version']}{found['flags']}"
    elif found := _PYPY.search(name):
        abi, python = f"pypy{found['version']}_{found['abi']}", f"PyPy {found['version']}"
    elif found := _GRAALPY.search(name):
        abi, python = f"graalpy{found['release']}_{found['version']}_native", f"GraalPy {found['version']}"
    else:
        return None
    return f"is for {python} alone, and the tag says {claimed}" if abis - {abi} else None


RULE = Rule(
    name="suffix",
    proves="every Python that the tag names looks for the extension's file name: no `.cpython-310-…` in an abi3 "
    "wheel, no `.cpython-312-…` in a cp311 wheel, no other machine's",
    leaves_open="whether the file initialises the module that its name says",
    in_the_wild="torchao 0.18.0: `_C_mxfp8.cpython-310-x86_64-linux-gnu.so` in a cp310-abi3 wheel",
    examine=_examine,
)
