"""Update wheelsmith/wheel/symbols/torch-<arch>.bin, the exported symbols of every pinned torch release.

The script fetches only the libraries, and only of releases that the table lacks. To regenerate the table, delete it;
this fetches about 7 GB for x86_64.
"""

from __future__ import annotations

import json
import lzma
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from package_index import ARCHES, open_wheel

from wheelsmith.frameworks import torch_releases
from wheelsmith.model import PinnedFile
from wheelsmith.wheel.elf import read_extension
from wheelsmith.wheel.symbols import TorchLibrary, fingerprint, symbol_table
from wheelsmith.wheel.symbols.torch import FINGERPRINT, LIBRARY, MASK

TARGET = Path(__file__).parent.parent / "wheelsmith" / "wheel" / "symbols"


@dataclass(frozen=True, slots=True, kw_only=True)
class TorchWheel:
    """The libraries of a torch wheel and the fingerprints of their exported symbols, both by file name."""

    libraries: dict[str, TorchLibrary]
    exports: dict[str, set[int]]


def is_library(name: str) -> bool:
    """Return True if a file of the wheel is a library that an extension may link with."""
    folder, _, file = name.rpartition("/")
    return folder in {"torch/lib", "torch.libs"} and ".so" in file


def read_wheel(pin: PinnedFile) -> TorchWheel:
    """Fetch and read the libraries of a wheel."""
    libraries: dict[str, TorchLibrary] = {}
    exports: dict[str, set[int]] = {}
    with open_wheel(pin, is_library) as archive, tempfile.TemporaryDirectory() as scratch:
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
    return json.dumps(head).encode() + b"\n" + lzma.compress(planes, preset=9)


def write_symbols(arch: str, fresh: Mapping[str, TorchWheel], date: str) -> None:
    """Write the table of an architecture, and fetch the wheels that are neither in ``fresh`` nor in the table.

    :param fresh: wheels that were just read, by release.
    """
    known = symbol_table(arch)
    found: dict[str, TorchWheel] = {}
    for minor, release in torch_releases().items():
        if minor in fresh:
            found[minor] = fresh[minor]
        elif known and minor in known.releases:
            found[minor] = TorchWheel(libraries=known.libraries[minor], exports=known.exports_of(minor))
        else:
            found[minor] = read_wheel(release.wheels[arch])
        print(arch, minor, sum(map(len, found[minor].exports.values())), flush=True)
    data = write_table(
        {minor: wheel.libraries for minor, wheel in found.items()},
        {minor: wheel.exports for minor, wheel in found.items()},
        source="the torch wheels pinned in frameworks/torch.json",
        date=date,
    )
    (TARGET / f"torch-{arch}.bin").write_bytes(data)
    print(arch, len(data), "bytes")


if __name__ == "__main__":
    for arch in sys.argv[1:] or ARCHES:
        write_symbols(arch, {}, datetime.now(UTC).date().isoformat())
