"""Libraries of headers that a kernel's sections may depend on, by kernel-builder's names: CUTLASS."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from wheelsmith.base.facts import read_facts
from wheelsmith.base.record import Record
from wheelsmith.model import PinnedFile, PrefixId
from wheelsmith.model.pinned import pinned_prefix

KIND = "library"


@dataclass(frozen=True, slots=True, kw_only=True)
class HeaderLibrary(Record):
    """One library in one version, which no other version ever stands in for: what they compile to differs.

    :param name: as build.toml has it, e.g. ``cutlass_3_6``.
    :param version: that kernel-builder pins for the name, e.g. ``3.6.0``.
    :param backends: kernel-builder's, that it is for.
    :param wheel: that has its headers.
    :param headers: where, ``include/`` at the end.
    """

    name: str
    version: str
    backends: tuple[str, ...]
    wheel: PinnedFile
    headers: str
    source: str
    date: str

    @property
    def prefix(self) -> PrefixId:
        """Name the folder of its headers, by the wheel that they come from."""
        return pinned_prefix(KIND, self.name, "any", [self.wheel])


@cache
def header_libraries() -> dict[str, HeaderLibrary]:
    """Return every known library by its name in build.toml."""
    rows = read_facts(__package__, "header_libraries.json")["libraries"]
    return {row["name"]: HeaderLibrary.from_json(row) for row in rows}
