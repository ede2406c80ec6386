"""What an extension module says of itself in its ELF tables."""

from __future__ import annotations

import io
import struct
from dataclasses import dataclass

from elftools.common.exceptions import ELFError
from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerNeedSection, GNUVerSymSection
from elftools.elf.sections import SymbolTableSection

from wheelsmith.errors import WheelError

_MACHINES = {"EM_X86_64": "x86_64", "EM_AARCH64": "aarch64"}
_SMALLEST_NEED = 16  # bytes of an entry in .gnu.version_r
_LOCAL_VERSIONS = 2  # version indices 0 and 1 mean "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Extension:
    """An ELF file's outward face.

    :param arch: CPU architecture as ``uname -m`` names it.
    :param needed: DT_NEEDED.
    :param search_paths: DT_RPATH and DT_RUNPATH.
    :param undefined: symbols that something else must provide → the version they must have, or None. Weak ones,
        which may stay absent, are left out.
    :param exported: symbols that it offers.
    :param fatbins: the contents of its ``.nv_fatbin`` section, empty when there is none.
    """

    arch: str
    needed: tuple[str, ...]
    search_paths: tuple[str, ...]
    undefined: dict[str, str | None]
    exported: frozenset[str]
    fatbins: bytes


def read_extension(name: str, data: bytes) -> Extension:
    """Read an ELF file.

    :raises WheelError: its tables make no sense.
    """
    try:
        return _read(ELFFile(io.BytesIO(data)))
    except (
        *(ELFError, ValueError, LookupError, AttributeError, ArithmeticError, TypeError),
        *(AssertionError, MemoryError, RecursionError, struct.error),
    ) as error:
        # pyelftools meets broken tables with whatever Python raises where they break.
        raise WheelError(f"{name} is a broken ELF file: {error}") from None


def _read(elf: ELFFile) -> Extension:
    needed: list[str] = []
    search: list[str] = []
    for section in elf.iter_sections():
        if isinstance(section, DynamicSection):
            for tag in section.iter_tags():
                if tag.entry.d_tag == "DT_NEEDED":
                    needed.append(tag.needed)  # type: ignore[attr-defined]  # pyelftools names it after the tag
                elif tag.entry.d_tag == "DT_RPATH":
                    search.append(tag.rpath)  # type: ignore[attr-defined]  # the same
                elif tag.entry.d_tag == "DT_RUNPATH":
                    search.append(tag.runpath)  # type: ignore[attr-defined]  # the same
    undefined, exported = _symbols(elf)
    fatbin = elf.get_section_by_name(".nv_fatbin")
    return Extension(
        arch=_MACHINES.get(elf["e_machine"], str(elf["e_machine"])),
        needed=tuple(needed),
        search_paths=tuple(search),
        undefined=undefined,
        exported=frozenset(exported),
        fatbins=fatbin.data() if fatbin else b"",
    )


def _symbols(elf: ELFFile) -> tuple[dict[str, str | None], set[str]]:
    table = elf.get_section_by_name(".dynsym")
    undefined: dict[str, str | None] = {}
    exported: set[str] = set()
    if not isinstance(table, SymbolTableSection):
        return undefined, exported
    versions = _versions(elf)
    for number, symbol in enumerate(table.iter_symbols()):
        if not symbol.name or symbol["st_info"]["bind"] == "STB_LOCAL":
            continue
        if symbol["st_shndx"] != "SHN_UNDEF":
            exported.add(symbol.name)
        elif symbol["st_info"]["bind"] != "STB_WEAK":
            undefined[symbol.name] = versions.get(number)
    return undefined, exported


def _versions(elf: ELFFile) -> dict[int, str]:
    """Give the version that each numbered symbol must have."""
    needs = elf.get_section_by_name(".gnu.version_r")
    numbers = elf.get_section_by_name(".gnu.version")
    if not isinstance(needs, GNUVerNeedSection) or not isinstance(numbers, GNUVerSymSection):
        return {}
    if needs["sh_info"] * _SMALLEST_NEED > needs["sh_size"]:
        raise ELFError("it says that it needs more versions than it has room for")
    names = {aux["vna_other"]: aux.name for _, auxiliaries in needs.iter_versions() for aux in auxiliaries}
    found = {}
    for number, symbol in enumerate(numbers.iter_symbols()):
        index = symbol["ndx"]
        if isinstance(index, int) and index >= _LOCAL_VERSIONS and index & 0x7FFF in names:
            found[number] = names[index & 0x7FFF]
    return found
