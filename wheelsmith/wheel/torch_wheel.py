"""Read the facts about torch from its wheel: the exported symbols, CUDA, the C++ standard and the C++ ABI."""

from __future__ import annotations

import hashlib
import json
import re
import tempfile
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path

from wheelsmith.base.errors import WheelError
from wheelsmith.base.json_dataclass import Record
from wheelsmith.wheel.elf import read_extension
from wheelsmith.wheel.symbols import TorchLibrary, fingerprint
from wheelsmith.wheel.symbols.torch import FINGERPRINT, LIBRARY, MASK

VERSION, ATEN = "torch/version.py", "torch/include/ATen/ATen.h"
# The constructor of c10::Error that takes a std::string of the C++11 ABI.
_CXX11_ABI = "_ZN3c105ErrorC1ENS_14SourceLocationENSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"
_CUDA_LIBRARY = "libtorch_cuda.so"
_BUILT_FOR = re.compile(r"^cuda\b.*= *'([\d.]+)'", re.MULTILINE)
_STANDARD = re.compile(r"#error C\+\+(\d+) or later")
_LARGEST_TEXT = 16 << 20  # bytes of a text that is read


@dataclass(frozen=True, slots=True, kw_only=True)
class TorchWheel:
    """The libraries of a torch wheel and the fingerprints of their exported symbols, both by file name."""

    libraries: dict[str, TorchLibrary]
    exports: dict[str, set[int]]

    @property
    def has_cxx11_abi(self) -> bool:
        """True if libc10 uses the C++11 ABI."""
        return fingerprint(_CXX11_ABI) in self.exports.get("libc10.so", ())

    @property
    def has_cuda(self) -> bool:
        """True if it is a CUDA build."""
        return _CUDA_LIBRARY in self.libraries


@dataclass(frozen=True, slots=True, kw_only=True)
class TorchFacts(Record):
    """The facts in one wheel of torch.

    :param cuda: torch.version.cuda, e.g. ``13.0``; None for a CPU build.
    :param least_cxx_std: the oldest C++ standard that ATen.h accepts.
    :param table: the table of its exported symbols, in hex.
    """

    cuda: str | None
    least_cxx_std: int
    cxx11_abi: bool
    has_cuda: bool
    record_sha256: str
    table: str


def is_library(name: str) -> bool:
    """Return True if a file of the wheel is a library that an extension may link with."""
    folder, _, file = name.rpartition("/")
    return folder in {"torch/lib", "torch.libs"} and ".so" in file


def is_record(name: str) -> bool:
    """Return True if a path is that of the wheel's RECORD."""
    return name.endswith(".dist-info/RECORD") and name.count("/") == 1


def is_fact(name: str) -> bool:
    """Return True if ``read_facts`` reads a file of the wheel."""
    return name in {VERSION, ATEN} or is_record(name) or is_library(name)


def read_facts(path: Path, release: str, source: str, date: str) -> TorchFacts:
    """Read the facts in a wheel that has at least the files of ``is_fact``.

    :param release: the name of the release in the table.
    :raises WheelError: it is not a wheel of torch.
    """
    with zipfile.ZipFile(path) as archive:
        wheel, texts = read_libraries(archive), {name: _read(archive, name) for name in (VERSION, ATEN)}
        record = _read(archive, next(filter(is_record, archive.namelist()), "RECORD"))
    table = write_table({release: wheel.libraries}, {release: wheel.exports}, source=source, date=date)
    return TorchFacts(
        cuda=cuda_of(texts[VERSION].decode()),
        least_cxx_std=least_cxx_std(texts[ATEN].decode()),
        cxx11_abi=wheel.has_cxx11_abi,
        has_cuda=wheel.has_cuda,
        record_sha256=hashlib.sha256(record).hexdigest(),
        table=table.hex(),
    )


def _read(archive: zipfile.ZipFile, name: str) -> bytes:
    try:
        if archive.getinfo(name).file_size <= _LARGEST_TEXT:
            return archive.read(name)
    except KeyError:
        raise WheelError(f"it has no {name}, so it is not a wheel of torch") from None
    raise WheelError(f"its {name} is too large")


def cuda_of(version: str) -> str | None:
    """Return the CUDA release in the text of torch/version.py, or None for a CPU build."""
    found = _BUILT_FOR.search(version)
    return found[1] if found else None


def least_cxx_std(aten: str) -> int:
    """Return the C++ standard that the text of ATen/ATen.h requires.

    :raises WheelError: it requires none.
    """
    found = _STANDARD.search(aten)
    if found is None:
        raise WheelError("its ATen/ATen.h requires no C++ standard")
    return int(found[1])


def read_libraries(archive: zipfile.ZipFile) -> TorchWheel:
    """Read the libraries of a wheel."""
    libraries: dict[str, TorchLibrary] = {}
    exports: dict[str, set[int]] = {}
    with tempfile.TemporaryDirectory() as scratch:
        for name in filter(is_library, archive.namelist()):
            library = Path(archive.extract(name, scratch))
            with library.open("rb") as file:
                read = read_extension(name, file)
            libraries[library.name] = TorchLibrary(soname=read.soname or library.name, needed=read.needed)
            exports[library.name] = {fingerprint(symbol) for symbol in read.exported}
            library.unlink()
    return TorchWheel(libraries=libraries, exports=exports)


def write_table(
    libraries: dict[str, dict[str, TorchLibrary]],
    exports: dict[str, dict[str, set[int]]],
    *,
    source: str,
    date: str,
) -> bytes:
    """Return the content of a table.

    :param libraries: libraries by release and file name. The order of releases defines their bits.
    :param exports: fingerprints by release and file name.
    """
    names = sorted({name for found in libraries.values() for name in found})
    masks: dict[tuple[int, int], int] = {}
    for bit, release in enumerate(libraries):
        for name, fingerprints in exports[release].items():
            for number in fingerprints:
                row = (number, names.index(name))
                masks[row] = masks.get(row, 0) | 1 << bit
    ordered = sorted(masks)
    rows = [n.to_bytes(FINGERPRINT) + lib.to_bytes(LIBRARY) + masks[n, lib].to_bytes(MASK) for n, lib in ordered]
    planes = b"".join(bytes(row[byte] for row in rows) for byte in range(FINGERPRINT + LIBRARY + MASK))
    graph = {r: {file: [lib.soname, lib.needed] for file, lib in found.items()} for r, found in libraries.items()}
    head = {"source": source, "date": date, "count": len(ordered), "names": names, "libraries": graph}
    return json.dumps(head).encode() + b"\n" + zlib.compress(planes, 9)
