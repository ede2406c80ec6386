"""Make wheelsmith/wheel/symbols/<arch>.bin again: what every pinned torch release exports.

Fetches torch's libraries, and nothing else, out of the wheel of each release that the table lacks; delete the table to
make all of it again, which is about 6 GB for x86_64. Needs ``nm``.
"""

from __future__ import annotations

import fnmatch
import subprocess
import sys
import tempfile
import zipfile
from datetime import UTC, datetime
from pathlib import Path

from wheelsmith.events import ignore
from wheelsmith.facts import PinnedFile, torch_releases
from wheelsmith.toolchain.locate import locate
from wheelsmith.toolchain.pip_settings import pip_settings
from wheelsmith.toolchain.remote import fetch_part
from wheelsmith.wheel.symbols import fingerprint, symbol_table, write_table

ARCHES = ("x86_64", "aarch64")
TARGET = Path(__file__).parent.parent / "wheelsmith" / "wheel" / "symbols"
LIBRARIES = (
    "libc10.so",
    "libc10_cuda.so",
    "libtorch.so",
    "libtorch_cpu.so",
    "libtorch_cuda.so",
    "libtorch_python.so",
    "libgomp*.so*",
)


def exports(pin: PinnedFile, libraries: tuple[str, ...]) -> set[str]:
    """Fetch these of one wheel's libraries and give the symbols that they define."""

    def wanted(name: str) -> bool:
        folder, _, file = name.rpartition("/")
        return folder in {"torch/lib", "torch.libs"} and any(fnmatch.fnmatch(file, p) for p in libraries)

    found: set[str] = set()
    settings = pip_settings()
    with settings.client() as client, tempfile.TemporaryDirectory() as scratch:
        wheel = fetch_part(pin, locate(pin, settings, client), Path(scratch), wanted, client, ignore)
        with zipfile.ZipFile(wheel) as archive:
            for name in filter(wanted, archive.namelist()):
                library = archive.extract(name, scratch)
                answer = subprocess.run(
                    ["nm", "-D", "--defined-only", "--format=just-symbols", library],
                    capture_output=True,
                    text=True,
                    check=True,
                )
                found |= {line.split("@")[0] for line in answer.stdout.split()}
                Path(library).unlink()
    return found


def main(words: list[str]) -> None:
    """Make the tables of the architectures named on the command line; libraries named there are added to them."""
    arches = [word for word in words if word in ARCHES] or list(ARCHES)
    added = tuple(word for word in words if word not in ARCHES)
    for arch in arches:
        table: dict[str, set[int]] = {}
        known = symbol_table(arch)
        for minor, release in torch_releases().items():
            if known and minor in known.releases:
                table[minor] = known.exports_of(minor)
                more = exports(release.wheels[arch], added) if added else set()
            else:
                table[minor], more = set(), exports(release.wheels[arch], LIBRARIES)
            table[minor] |= {fingerprint(symbol) for symbol in more}
            print(arch, minor, len(table[minor]), flush=True)
        date = datetime.now(UTC).date().isoformat()
        data = write_table(table, source="the torch wheels pinned in facts/torch.json", date=date)
        (TARGET / f"{arch}.bin").write_bytes(data)
        print(arch, len(data), "bytes")


if __name__ == "__main__":
    main(sys.argv[1:])
