"""Make wheelsmith/wheel/symbols/torch-<arch>.bin again: what each library of every pinned torch release exports.

Fetches torch's libraries, and nothing else, out of the wheel of each release that the table lacks; delete the table to
make all of it again, which is about 7 GB for x86_64.
"""

from __future__ import annotations

import sys
import tempfile
import zipfile
from datetime import UTC, datetime
from pathlib import Path

from wheelsmith.frameworks import torch_releases
from wheelsmith.model import PinnedFile
from wheelsmith.model.events import ignore
from wheelsmith.toolchain.locate import locate
from wheelsmith.toolchain.pip_settings import pip_settings
from wheelsmith.toolchain.remote import fetch_part
from wheelsmith.wheel.elf import Extension, read_extension
from wheelsmith.wheel.symbols import TorchLibrary, fingerprint, symbol_table, write_table

ARCHES = ("x86_64", "aarch64")
TARGET = Path(__file__).parent.parent / "wheelsmith" / "wheel" / "symbols"


def is_library(name: str) -> bool:
    """Say whether a file of the wheel is a library that an extension may link with."""
    folder, _, file = name.rpartition("/")
    return folder in {"torch/lib", "torch.libs"} and ".so" in file


def libraries(pin: PinnedFile) -> dict[str, Extension]:
    """Fetch the libraries of one wheel and return what each says of itself, by file name."""
    found: dict[str, Extension] = {}
    settings = pip_settings()
    with settings.client() as client, tempfile.TemporaryDirectory() as scratch:
        wheel = fetch_part(pin, locate(pin, settings), Path(scratch), is_library, client, ignore)
        with zipfile.ZipFile(wheel) as archive:
            for name in filter(is_library, archive.namelist()):
                library = Path(archive.extract(name, scratch))
                with library.open("rb") as file:
                    found[library.name] = read_extension(name, file)
                library.unlink()
    return found


def main(words: list[str]) -> None:
    """Make the tables of the architectures named on the command line, or of all."""
    for arch in words or ARCHES:
        graph: dict[str, dict[str, TorchLibrary]] = {}
        table: dict[str, dict[str, set[int]]] = {}
        known = symbol_table(arch)
        for minor, release in torch_releases().items():
            if known and minor in known.releases:
                graph[minor], table[minor] = known.libraries[minor], known.exports_of(minor)
            else:
                found = libraries(release.wheels[arch])
                graph[minor] = {
                    file: TorchLibrary(soname=read.soname or file, needed=read.needed) for file, read in found.items()
                }
                table[minor] = {file: {fingerprint(s) for s in read.exported} for file, read in found.items()}
            print(arch, minor, sum(map(len, table[minor].values())), flush=True)
        date = datetime.now(UTC).date().isoformat()
        data = write_table(graph, table, source="the torch wheels pinned in frameworks/torch.json", date=date)
        (TARGET / f"torch-{arch}.bin").write_bytes(data)
        print(arch, len(data), "bytes")


if __name__ == "__main__":
    main(sys.argv[1:])
