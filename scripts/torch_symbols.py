"""Update wheelsmith/wheel/symbols/torch-<arch>.bin, the exported symbols of every pinned torch release.

The script fetches only the libraries, and only of releases that the table lacks. To regenerate the table, delete it;
this fetches about 7 GB for x86_64.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from package_index import ARCHES, open_wheel

from wheelsmith.frameworks import torch_releases
from wheelsmith.model import PinnedFile
from wheelsmith.wheel.symbols import symbol_table
from wheelsmith.wheel.torch_wheel import TorchWheel, is_library, read_libraries, write_table

TARGET = Path(__file__).parent.parent / "wheelsmith" / "wheel" / "symbols"


def read_wheel(pin: PinnedFile) -> TorchWheel:
    """Fetch and read the libraries of a wheel."""
    with open_wheel(pin, is_library) as archive:
        return read_libraries(archive)


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
