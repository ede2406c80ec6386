"""The CUDA toolkit of a project, with the CUDA libraries that torch in its build environment requires.

torch requires exact releases of NVIDIA's packages. These contain the headers of the libraries, and the libraries under
the names that the loader uses. So a project is linked with the same libraries that its wheel runs with. The libraries
of the driver are stubs with the right function names.
"""

from __future__ import annotations

import os
import re
import shutil
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path

from installer.records import InvalidRecordEntry, parse_record_file

from wheelsmith.base import sandbox_paths
from wheelsmith.base.errors import ToolchainError
from wheelsmith.model import LockedWheel
from wheelsmith.platforms import DRIVER_LIBRARIES
from wheelsmith.toolchain.build_tools import compiler_proxy_script

# Part of the folder's name. Raise it when the layout of complete toolkits changes.
LAYOUT = 2
# Names of the toolkit and of the environment in that folder. They have the same relative position in a sandbox.
HOME = Path(sandbox_paths.CUDA).name
_ENVIRONMENT = Path(sandbox_paths.ENVIRONMENT).name
# CPU architecture → folder below targets/ of an installed toolkit. Meson looks for headers and libraries only there.
_TARGETS = {"x86_64": "x86_64-linux", "aarch64": "sbsa-linux"}
_VERSIONED = re.compile(r"(?P<name>lib[\w.+-]+?\.so)\.[\d.]+")
_LIBRARY = re.compile(r"lib[\w.+-]+\.(?:a|so(?:\.[\d.]+)?)")
# ELF constants from https://gabi.xinuos.com, and the machines from elf.h.
_MACHINES = {"x86_64": 62, "aarch64": 183}
_ET_DYN, _PT_LOAD, _PT_DYNAMIC, _PT_GNU_STACK = 3, 1, 2, 0x6474E551
_EXECUTE, _WRITE, _READ = 1, 2, 4
_DT_NULL, _DT_HASH, _DT_STRTAB, _DT_SYMTAB, _DT_STRSZ, _DT_SYMENT, _DT_SONAME = 0, 4, 5, 6, 10, 11, 14
_GLOBAL_FUNCTION = 0x12
_PAGE = 0x10000  # bytes; the largest page size of the supported machines
_HEADER, _SEGMENT, _SECTION, _SYMBOL, _ENTRY = 64, 56, 64, 24, 16  # bytes of each record
_SEGMENTS = 4
_FIRST_OFFSET = _HEADER + _SEGMENTS * _SEGMENT  # offset of the first section
# Section → type, flags, linked section, size of an entry in bytes; in the order of the file.
_SECTIONS = {
    ".text": (1, 6, "", 0),
    ".dynsym": (11, 2, ".dynstr", _SYMBOL),
    ".hash": (5, 2, ".dynsym", 4),
    ".dynstr": (3, 2, "", 0),
    ".dynamic": (6, 3, ".dynstr", _ENTRY),
    ".shstrtab": (3, 0, "", 0),
}
_NUMBERS = {name: number for number, name in enumerate(_SECTIONS, 1)}


def assemble_toolkit(
    folder: Path, toolkit: Path, headers: Iterable[Path], environment: Path, replaced: Iterable[LockedWheel], arch: str
) -> None:
    """Write a complete toolkit.

    :param toolkit: the toolkit with the compilers. It is copied, because nvcc finds its files relative to itself.
    :param headers: folders with further headers below ``include``.
    :param environment: the project's environment with NVIDIA's packages. It must not be moved later.
    :param replaced: packages of the environment that the toolkit has in its own release. They are left out.
    :raises ToolchainError: the RECORD of such a package is missing or invalid.
    """
    home = folder / HOME
    _copy_writable(toolkit, home)
    nvcc = home / "bin" / "nvcc"
    nvcc.rename(nvcc.with_name("nvcc.bin"))
    shutil.copy(compiler_proxy_script(), nvcc)
    nvcc.chmod(0o755)
    for folder_with_headers in headers:
        _copy_writable(folder_with_headers / "include", home / "include")
    (folder / _ENVIRONMENT).symlink_to(Path(os.path.relpath(environment, folder)))
    _add_packages(home, environment, _package_files(environment, replaced))
    target = home / "targets" / _TARGETS[arch]
    target.mkdir(parents=True)
    for name in ("include", "lib"):
        (target / name).symlink_to(f"../../{name}")
    stubs = home / "lib" / "stubs"
    stubs.mkdir(exist_ok=True)
    for soname, (header, pattern) in DRIVER_LIBRARIES.items():
        declarations = home / "include" / header
        if declarations.is_file():
            names = re.findall(pattern, declarations.read_text(encoding="utf-8", errors="replace"))
            (stubs / f"{soname.partition('.so')[0]}.so").write_bytes(link_stub(soname, names, arch))


def _copy_writable(source: Path, target: Path) -> None:
    """Copy a read-only tree, and make the folders of the copy writable."""
    shutil.copytree(source, target, symlinks=True, dirs_exist_ok=True)
    for folder, _, _ in os.walk(target):
        Path(folder).chmod(0o755)


def _add_packages(home: Path, environment: Path, excluded: frozenset[Path]) -> None:
    """Add the headers of NVIDIA's packages, and links to their libraries, which stay in the environment."""
    # CUDA's own folder comes first, because the first of several files with one name wins.
    roots = sorted((environment / "nvidia").glob("*/"), key=lambda path: (not path.name.startswith("cu1"), path.name))
    added = set[Path]()
    for root in roots:
        for path in _files_below(root / "include"):
            target = home / path.relative_to(root)
            if path not in excluded and target not in added:
                added.add(target)
                target.parent.mkdir(parents=True, exist_ok=True)
                target.unlink(missing_ok=True)
                shutil.copyfile(path, target)
        for path in sorted((root / "lib").glob("lib*")):
            target = home / "lib" / path.name
            if _LIBRARY.fullmatch(path.name) and path not in excluded and target not in added:
                added.add(target)
                _link_library(target, f"../../{_ENVIRONMENT}/{path.relative_to(environment).as_posix()}")


def _link_library(link: Path, target: str) -> None:
    link.unlink(missing_ok=True)
    link.symlink_to(target)
    versioned = _VERSIONED.fullmatch(link.name)
    if versioned and not (unversioned := link.with_name(versioned["name"])).is_symlink():
        unversioned.symlink_to(link.name)


def _package_files(environment: Path, wheels: Iterable[LockedWheel]) -> frozenset[Path]:
    """Return the files of some packages in an environment, from their RECORD."""
    files = set[Path]()
    for wheel in wheels:
        record = environment / f"{wheel.name.replace('-', '_')}-{wheel.version}.dist-info" / "RECORD"
        try:
            lines = record.read_text(encoding="utf-8").splitlines()
            files.update(environment / path for path, _, _ in parse_record_file(lines))
        except (OSError, UnicodeError, InvalidRecordEntry) as error:
            raise ToolchainError(f"the RECORD of {wheel.name} cannot be read: {error}") from None
    return frozenset(files)


def _files_below(folder: Path) -> Iterator[Path]:
    for root, _, names in os.walk(folder):
        yield from (path for name in sorted(names) if (path := Path(root, name)).is_file() and not path.is_symlink())


def link_stub(soname: str, symbols: Iterable[str], arch: str) -> bytes:
    """Return a shared library for the linker only. Its functions crash when they are called.

    :param arch: ``x86_64`` or ``aarch64``.
    """
    names = sorted(set(symbols))
    strings, section_names = _StringTable([soname, *names]), _StringTable(_SECTIONS)
    contents = {
        ".text": bytes(8),
        ".dynsym": bytes(_SYMBOL) + b"".join(_symbol(strings.at(name)) for name in names),
        ".hash": struct.pack(f"<{len(names) + 4}I", 1, len(names) + 1, *_hash_chain(len(names))),
        ".dynstr": strings.data,
        ".dynamic": bytes(_ENTRY * 7),  # filled when all offsets are known
        ".shstrtab": section_names.data,
    }
    offsets = dict(_section_offsets(contents))
    contents[".dynamic"] = _dynamic_table(strings, soname, offsets)
    image = bytearray(offsets[".shstrtab"] + len(section_names.data) + -len(section_names.data) % 8)
    image[:_FIRST_OFFSET] = _elf_header(arch, len(image)) + _segments(offsets[".dynamic"], len(contents[".dynamic"]))
    for name, data in contents.items():
        image[offsets[name] : offsets[name] + len(data)] = data
    sections = (_section(name, section_names.at(name), offsets[name], len(contents[name])) for name in _SECTIONS)
    return bytes(image) + bytes(_SECTION) + b"".join(sections)


class _StringTable:
    """An ELF string table."""

    def __init__(self, strings: Iterable[str]) -> None:
        self._places: dict[str, int] = {}
        data = bytearray(1)
        for text in strings:
            self._places.setdefault(text, len(data))
            data += text.encode() + b"\0"
        self.data = bytes(data)

    def at(self, text: str) -> int:
        return self._places[text]


def _section_offsets(contents: dict[str, bytes]) -> Iterator[tuple[str, int]]:
    offset = _FIRST_OFFSET
    for name, data in contents.items():
        yield name, offset
        offset += len(data) + -len(data) % 8


def _hash_chain(count: int) -> tuple[int, ...]:
    """Return the single bucket of the hash table, and the chain that links all symbols."""
    return (1 if count else 0, 0, *(number + 1 if number < count else 0 for number in range(1, count + 1)))


def _dynamic_table(strings: _StringTable, soname: str, offsets: dict[str, int]) -> bytes:
    entries = (
        *((_DT_SONAME, strings.at(soname)), (_DT_HASH, offsets[".hash"]), (_DT_STRTAB, offsets[".dynstr"])),
        *((_DT_SYMTAB, offsets[".dynsym"]), (_DT_STRSZ, len(strings.data)), (_DT_SYMENT, _SYMBOL), (_DT_NULL, 0)),
    )
    return b"".join(struct.pack("<QQ", *entry) for entry in entries)


def _symbol(name: int) -> bytes:
    return struct.pack("<IBBHQQ", name, _GLOBAL_FUNCTION, 0, _NUMBERS[".text"], _FIRST_OFFSET, 8)


def _elf_header(arch: str, table: int) -> bytes:
    return b"\x7fELF\x02\x01\x01".ljust(16, b"\0") + struct.pack(
        "<HHIQQQIHHHHHH",
        *(_ET_DYN, _MACHINES[arch], 1, 0, _HEADER, table, 0, _HEADER, _SEGMENT, _SEGMENTS, _SECTION),
        *(len(_SECTIONS) + 1, _NUMBERS[".shstrtab"]),
    )


def _segments(dynamic: int, size: int) -> bytes:
    """Return the program headers. The dynamic table is writable for the loader; the rest is read-only executable."""
    rows = (
        (_PT_LOAD, _READ | _EXECUTE, 0, 0, dynamic, _PAGE),
        (_PT_LOAD, _READ | _WRITE, dynamic, dynamic + _PAGE, size, _PAGE),
        (_PT_DYNAMIC, _READ | _WRITE, dynamic, dynamic + _PAGE, size, 8),
        (_PT_GNU_STACK, _READ | _WRITE, 0, 0, 0, 16),
    )
    return b"".join(
        struct.pack("<IIQQQQQQ", kind, flags, offset, address, address, length, length, align)
        for kind, flags, offset, address, length, align in rows
    )


def _section(name: str, name_offset: int, offset: int, size: int) -> bytes:
    kind, flags, link, entry = _SECTIONS[name]
    address = offset + _PAGE if name == ".dynamic" else offset if flags else 0
    local_symbols = 1 if name == ".dynsym" else 0
    return struct.pack(
        "<IIQQQQIIQQ", name_offset, kind, flags, address, offset, size, _NUMBERS.get(link, 0), local_symbols, 8, entry
    )
