"""Check that the tag's Python looks for an extension's file name."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator

from packaging.tags import Tag

from wheelsmith.wheel.inspection import Inspection
from wheelsmith.wheel.report import Finding, finding
from wheelsmith.wheel.rules.rule import Rule

# https://docs.python.org/3/library/sysconfig.html, EXT_SUFFIX; PyPy names its release and its ABI.
_ONE_PYTHON = re.compile(r"\.(?P<abi>cpython-\d+[a-z]*|pypy\d+-pp\d+)(?:-(?P<machine>[\w-]+))?\.so$")
_STABLE = re.compile(r"\.(?P<abi>abi3t?)\.so$")


def _examine(wheel: Inspection) -> Iterator[Finding]:
    tags = list(wheel.name.tags)
    wrong = [
        f"{name} {why}"
        for name, extension in wheel.extensions.items()
        for why in mistakes(posixpath.basename(name), extension.arch, tags)
    ]
    if wheel.extensions:
        yield finding("suffix", wrong, "every extension has a name that the tag's Python imports")


def mistakes(name: str, arch: str, tags: list[Tag]) -> Iterator[str]:
    """Yield what is wrong with a file's name.

    :param arch: of its machine code.
    """
    abis = {tag.abi for tag in tags}
    claimed = ", ".join(sorted({f"{tag.interpreter}-{tag.abi}" for tag in tags}))
    if name.endswith(".pyd"):
        yield "is named as Pythons on Windows look for it"
    elif found := _STABLE.search(name):
        # With both stable ABIs in the tag there may be a file for each.
        free = sorted(abi for abi in abis if abi.endswith("t") and (abi != "abi3t" or "abi3" not in abis))
        if found["abi"] == "abi3" and free:
            yield f"is not looked for by a free-threaded Python, and the tag says {', '.join(free)}"
        elif abis == {"abi3"} and found["abi"] == "abi3t":
            yield f"is not looked for before Python 3.15, and the tag says {claimed}"
    elif found := _ONE_PYTHON.search(name):
        abi = found["abi"].replace("cpython-", "cp").replace("-", "_")
        if abis - {abi}:
            yield f"is for {abi} alone, and the tag says {claimed}"
        libc = "musl" if all("musllinux" in tag.platform for tag in tags) else "gnu"
        if found["machine"] not in {None, f"{arch}-linux-{libc}"}:
            yield f"is named for {found['machine']}, and is for {arch}-linux-{libc}"


RULE = Rule(
    name="suffix",
    proves="every Python that the tag names looks for the extension's file name: no `.cpython-310-…` in an abi3 "
    "wheel, no `.cpython-312-…` in a cp311 wheel, no other machine's",
    leaves_open="whether the file initialises the module that its name says; names of GraalPy",
    in_the_wild="torchao 0.18.0: `_C_mxfp8.cpython-310-x86_64-linux-gnu.so` in a cp310-abi3 wheel",
    examine=_examine,
)
