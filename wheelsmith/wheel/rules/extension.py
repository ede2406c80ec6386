"""Each compiled file for itself: architecture and search path."""

from __future__ import annotations

from collections.abc import Iterator

from wheelsmith.wheel.bundled_libraries import folder_of
from wheelsmith.wheel.inspection import Inspection
from wheelsmith.wheel.report import Finding, finding
from wheelsmith.wheel.rules.rule import Rule


def _architecture(wheel: Inspection) -> Iterator[Finding]:
    for name, extension in wheel.extensions.items():
        platforms = {tag.platform for tag in wheel.name.tags}
        fits = all("linux" in platform and platform.endswith(f"_{extension.arch}") for platform in platforms)
        said = f"{name} is for {extension.arch}, and for Linux"
        yield finding("architecture", [] if fits else [said], said)


def _search_path(wheel: Inspection) -> Iterator[Finding]:
    for name, extension in wheel.extensions.items():
        folders = [*extension.rpath, *extension.runpath]
        outside = [folder or "the working directory" for folder in folders if folder_of(name, folder) is None]
        wrong = [f"{name} looks for libraries in {folder}" for folder in outside]
        right = f"{name} looks for libraries in {', '.join(folders)}" if folders else "no RPATH and no RUNPATH"
        yield finding("search-path", wrong, right)


ARCHITECTURE = Rule(
    name="architecture",
    proves="each ELF file is for the tag's architecture, and the tag for Linux",
    leaves_open="machine code that is packed, or lies behind other bytes of a file, but in a wheel for any platform; "
    "which instructions are used",
    in_the_wild="selenium 4.50.0: a wheel for any platform holds programs for x86_64 and aarch64 (it is meant)",
    examine=_architecture,
)
SEARCH_PATH = Rule(
    name="search-path",
    proves="every entry of RPATH and RUNPATH begins with `$ORIGIN` and stays inside of what pip installs into: no path "
    "of the machine that built it, none relative to the working directory",
    leaves_open="which other project's libraries lie in such a folder",
    in_the_wild="torchvision 0.29.2: a RUNPATH of the machine that built it",
    examine=_search_path,
)
