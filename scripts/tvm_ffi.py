"""Write frameworks/tvm_ffi.json: the newest wheel of each tvm-ffi minor, and the exported symbols.

    python scripts/tvm_ffi.py DATE

Each symbol has the first release from which every release of the minor exports it on every architecture.
"""

from __future__ import annotations

import json
import sys
from io import BytesIO
from pathlib import Path
from typing import Any

from package_index import make_partial_pin, manylinux_wheels, published, read_member
from packaging.version import Version

from wheelsmith.model import PinnedFile
from wheelsmith.wheel.elf import read_extension

PROJECT = "apache-tvm-ffi"
LIBRARY = "tvm_ffi/lib/libtvm_ffi.so"
TARGET = Path(__file__).parent.parent / "wheelsmith" / "frameworks" / "tvm_ffi.json"


def exports(pin: PinnedFile) -> frozenset[str]:
    """Return the exported symbols of a wheel's library."""
    return read_extension(LIBRARY, BytesIO(read_member(pin, LIBRARY))).exported


def first_releases(known: dict[Version, frozenset[str]]) -> dict[str, str]:
    """Return the first release from which all releases export a symbol, by symbol."""
    found: dict[str, str] = {}
    for symbol in sorted(frozenset[str]().union(*known.values())):
        lacking = [version for version in known if symbol not in known[version]]
        since = [version for version in known if not lacking or version > lacking[-1]]
        if since:
            found[symbol] = str(since[0])
    return found


def main(date: str) -> None:
    """Write the file."""
    releases: list[dict[str, Any]] = []
    # The library is the same in the wheels for every Python.
    wheels = {version: manylinux_wheels(pins) for version, pins in published(PROJECT).items()}
    for minor in dict.fromkeys(f"{version.major}.{version.minor}" for version in wheels):
        own = {v: pins for v, pins in wheels.items() if f"{v.major}.{v.minor}" == minor}
        known = {v: frozenset.intersection(*map(exports, pins.values())) for v, pins in own.items()}
        newest = max(own)
        pins = {arch: make_partial_pin(pin) for arch, pin in own[newest].items()}
        releases.append(
            {
                "minor": minor,
                "version": str(newest),
                "cxx_std": 17,
                "wheels": pins,
                "library": LIBRARY.rpartition("/")[2],
                "versions": [str(version) for version in own],
                "exports": first_releases(known),
                "source": f"the wheels of {PROJECT} on PyPI",
                "date": date,
            }
        )
    TARGET.write_text(json.dumps({"schema_version": 1, "releases": releases}, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
