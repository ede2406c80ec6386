"""Libraries of headers: those that a kernel's sections may depend on, by kernel-builder's names, and CPython's."""

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
    """One library in one version, which no other version ever stands in for: what they compile to differs.

    :param name: as build.toml has it, e.g. ``cutlass_3_6``.
    :param version: that kernel-builder pins for the name, e.g. ``3.6.0``.
    :param backends: kernel-builder's, that it is for.
    :param wheel: that has its headers, where an index has this version.
    :param headers: where in the wheel, ``include/`` at the end.
    :param archive: that has them where no index does.
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
        """Name the folder of its headers, by what they come from."""
        return pinned_prefix(KIND, self.name, "any", [pin for pin in (self.wheel, self.archive) if pin])


@cache
def header_libraries() -> dict[str, HeaderLibrary]:
    """Return every known library by its name in build.toml."""
    rows = read_facts(__package__, "header_libraries.json")["libraries"]
    return {row["name"]: HeaderLibrary.from_json(row) for row in rows}


@cache
def python_headers() -> HeaderLibrary:
    """Return CPython's headers, for kernels that include them; of its stable ABI they are every Python's."""
    return HeaderLibrary.from_json(read_facts(__package__, "header_libraries.json")["python"])


def header_library(name: str) -> HeaderLibrary:
    """Return any of them by its name.

    :raises KeyError: there is none of this name.
    """
    return {**header_libraries(), python_headers().name: python_headers()}[name]
