"""DT_RPATH is handed on from library to library: as far as any real wheel goes, and no further."""

from __future__ import annotations

from wheelsmith.wheel.bundled_libraries import OwnLibraries
from wheelsmith.wheel.elf import Extension

_FOLDERS = 100  # of each library


def _chain(length: int) -> dict[str, Extension]:
    """Return libraries that need one another, and that only what needs the first of them leads to."""
    found = {"kernel/_ops.so": Extension(arch="x86_64", needed=("lib0.so",), rpath=("$ORIGIN",))}
    for number in range(length):
        needed = (f"lib{number + 1}.so",) if number + 1 < length else ()
        folders = tuple(f"$ORIGIN/{number}/{other}" for other in range(_FOLDERS))
        found[f"kernel/lib{number}.so"] = Extension(arch="x86_64", needed=needed, rpath=folders)
    return found


def test_a_library_is_found_by_what_loaded_what_needs_it():
    assert OwnLibraries(_chain(5)).found("kernel/lib3.so", "lib4.so") == "kernel/lib4.so"


def test_a_thousand_folders_are_inherited_at_the_most():
    assert OwnLibraries(_chain(50)).found("kernel/lib40.so", "lib41.so") is None
