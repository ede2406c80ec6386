"""A platform where something is compiled, and only there."""

from __future__ import annotations

import re
from collections.abc import Iterator

from wheelsmith.base.units import counted
from wheelsmith.wheel.inspection import Inspection
from wheelsmith.wheel.report import Finding, finding
from wheelsmith.wheel.rules.rule import Rule

_ELSEWHERE = re.compile(r"[^/]+\.data/(?!purelib/)")


def _examine(wheel: Inspection) -> Iterator[Finding]:
    platforms = {tag.platform for tag in wheel.name.tags}
    compiled = wheel.elf_files
    wrong = []
    if "any" in platforms and compiled:
        wrong.append(f"a wheel for any platform holds {compiled[0]}")
    if any("linux" in platform for platform in platforms) and not wheel.binaries:
        wrong.append(f"a wheel for {', '.join(sorted(platforms))} holds nothing that is compiled")
    pure = (wheel.wheel_headers.get("Root-Is-Purelib") or "").strip().lower()
    # https://packaging.python.org/en/latest/specifications/binary-distribution-format/
    # What `.data` says where it goes, Root-Is-Purelib does not move: Intel's wheels have their libraries in `data/lib`.
    moved = [name for name in compiled if not _ELSEWHERE.match(name)]
    if pure == "true" and moved:
        wrong.append(
            f"WHEEL says Root-Is-Purelib: true, and {moved[0]} is compiled: where platlib is a folder of its own "
            "(lib64), it comes into the wrong one"
        )
    if pure == "false" and platforms == {"any"}:
        wrong.append("WHEEL says Root-Is-Purelib: false, and the tag says that it is for any platform")
    files = counted(len(compiled), "compiled file")
    yield finding("purity", wrong, f"{files} for platform {', '.join(sorted(platforms))}")


RULE = Rule(
    name="purity",
    proves="a wheel for any platform holds no ELF file for a CPU; one for Linux holds something compiled, and WHEEL's "
    "Root-Is-Purelib agrees",
    leaves_open="programs and libraries for Windows and macOS; archives and compressed files are not opened",
    in_the_wild="nvidia-cublas 13.10.0.20: `Root-Is-Purelib: true` beside three shared libraries",
    examine=_examine,
)
