"""Each compiled file for itself: architecture, search path, stable ABI."""

from __future__ import annotations

from collections.abc import Iterator

from wheelsmith.wheel.abi3 import outside_abi3
from wheelsmith.wheel.inspection import Inspection
from wheelsmith.wheel.report import Finding, finding
from wheelsmith.wheel.rules.rule import Rule


def _architecture(wheel: Inspection) -> Iterator[Finding]:
    for name, extension in wheel.extensions.items():
        fits = all(tag.platform.endswith(extension.arch) for tag in wheel.name.tags)
        said = f"{name} is for {extension.arch}"
        yield finding("architecture", [] if fits else [said], said)


def _search_path(wheel: Inspection) -> Iterator[Finding]:
    for name, extension in wheel.extensions.items():
        wrong = [f"{name} looks for libraries in {path}" for path in extension.search_paths]
        yield finding("search-path", wrong, "no RPATH and no RUNPATH")


def _abi3(wheel: Inspection) -> Iterator[Finding]:
    if not any(tag.abi == "abi3" for tag in wheel.name.tags):
        return
    since = next(iter(wheel.name.tags)).interpreter
    for extension in wheel.extensions.values():
        outside = outside_abi3(extension, since)
        wrong = [f"{symbol} is not in the stable ABI of {since}" for symbol in outside]
        yield finding("abi3", wrong, f"stable ABI of {since}")


ARCHITECTURE = Rule(
    name="architecture",
    proves="each ELF file is for the tag's architecture",
    examine=_architecture,
)
SEARCH_PATH = Rule(
    name="search-path",
    proves="no RPATH, no RUNPATH",
    examine=_search_path,
)
ABI3 = Rule(
    name="abi3",
    proves="every CPython symbol is in the stable ABI of the tag's Python",
    examine=_abi3,
)
