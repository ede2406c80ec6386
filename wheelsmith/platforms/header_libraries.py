"""Header libraries: kernel-builder's optional dependencies of a build.toml section, and CPython's headers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from wheelsmith.base.files import read_facts
from wheelsmith.base.json_dataclass import Record
from wheelsmith.model import PinnedFile, PinnedTree, PrefixId
from wheelsmith.model.pinned import pinned_prefix

KIND = "library"


@dataclass(frozen=True, slots=True, kw_only=True)
class HeaderLibrary(Record):
    """A version of a header library.

    No other version can replace it, because the compiled code differs.

    :param name: as in build.toml, e.g. ``cutlass_3_6``.
    :param version: the version that kernel-builder pins for the name, e.g. ``3.6.0``.
    :param backends: the kernel-builder backends that can use it.
    :param wheel: the wheel that contains the headers, if a package index has this version.
    :param headers: the folder in the wheel, ending with ``include/``.
    :param archive: the source archive, if no index has this version.
    """

    name: str
    version: str
    backends: tuple[str, ...]
    source: str
    date: str
    wheel: PinnedFile | None = None
    headers: str = ""
    archive: PinnedTree | None = None

    @property
    def prefix(self) -> PrefixId:
        """The ID of the folder with its headers."""
        return pinned_prefix(KIND, self.name, "any", [pin for pin in (self.wheel, self.archive) if pin])


@cache
def header_libraries() -> dict[str, HeaderLibrary]:
    """Return every known library by its name in build.toml."""
    rows = read_facts(__package__, "header_libraries.json")["libraries"]
    return {row["name"]: HeaderLibrary.from_json(row) for row in rows}


@cache
def python_headers() -> HeaderLibrary:
    """Return CPython's headers, for kernels that include Python.h.

    They serve every Python version, because only the stable ABI is used.
    """
    return HeaderLibrary.from_json(read_facts(__package__, "header_libraries.json")["python"])


def header_library(name: str) -> HeaderLibrary:
    """Return a header library by name, CPython's headers included.

    :raises KeyError: the name is unknown.
    """
    return {**header_libraries(), python_headers().name: python_headers()}[name]
