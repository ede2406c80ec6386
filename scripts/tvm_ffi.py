"""Write what is known of tvm-ffi into frameworks/tvm_ffi.json: its newest wheel of each minor, and what all export.

python scripts/tvm_ffi.py DATE

A symbol is listed with the first release from which on every later one of its minor exports it, on every architecture.
"""

from __future__ import annotations

import json
import sys
import tempfile
import zipfile
from collections import defaultdict
from pathlib import Path
from typing import Any

from packaging.utils import parse_wheel_filename
from packaging.version import Version

from wheelsmith.model import PinnedFile
from wheelsmith.model.events import ignore
from wheelsmith.toolchain.locate import locate
from wheelsmith.toolchain.pip_settings import pip_settings
from wheelsmith.toolchain.remote import fetch_whole
from wheelsmith.wheel.elf import read_extension

PROJECT = "apache-tvm-ffi"
ARCHES = ("x86_64", "aarch64")
LIBRARY = "tvm_ffi/lib/libtvm_ffi.so"
TARGET = Path(__file__).parent.parent / "wheelsmith" / "frameworks" / "tvm_ffi.json"


def published() -> dict[Version, dict[str, PinnedFile]]:
    """Return one wheel an architecture of every release: which Python it is for does not matter."""
    settings = pip_settings()
    with settings.client() as client:
        page = client.get(
            f"{settings.indexes[0].rstrip('/')}/{PROJECT}/", headers={"Accept": "application/vnd.pypi.simple.v1+json"}
        ).json()
    found: dict[Version, dict[str, PinnedFile]] = defaultdict(dict)
    for file in page["files"]:
        if not file["filename"].endswith(".whl") or file.get("yanked"):
            continue
        _, version, _, tags = parse_wheel_filename(file["filename"])
        if version.is_prerelease:
            continue
        for arch in ARCHES:
            if any("manylinux" in tag.platform and tag.platform.endswith(arch) for tag in tags):
                found[version][arch] = PinnedFile(
                    project=PROJECT,
                    version=str(version),
                    filename=file["filename"],
                    sha256=file["hashes"]["sha256"],
                    size=file["size"],
                )
    return {version: found[version] for version in sorted(found)}


def exports(pin: PinnedFile) -> frozenset[str]:
    """Return what one wheel's library exports."""
    settings = pip_settings()
    with settings.client() as client, tempfile.TemporaryDirectory() as scratch:
        wheel = fetch_whole(pin, locate(pin, settings), Path(scratch), client, ignore)
        with zipfile.ZipFile(wheel) as archive, Path(archive.extract(LIBRARY, scratch)).open("rb") as file:
            return read_extension(LIBRARY, file).exported


def first_releases(known: dict[Version, frozenset[str]]) -> dict[str, str]:
    """Return from which release on each symbol is in every one."""
    found: dict[str, str] = {}
    for symbol in sorted(frozenset[str]().union(*known.values())):
        lacking = [version for version in known if symbol not in known[version]]
        since = [version for version in known if not lacking or version > lacking[-1]]
        if since:
            found[symbol] = str(since[0])
    return found


def main(date: str) -> None:
    """Write the file."""
    from pin_records import record_sha256

    releases: list[dict[str, Any]] = []
    wheels = published()
    for minor in dict.fromkeys(f"{version.major}.{version.minor}" for version in wheels):
        own = {v: pins for v, pins in wheels.items() if f"{v.major}.{v.minor}" == minor}
        known = {v: frozenset.intersection(*map(exports, pins.values())) for v, pins in own.items()}
        newest = max(own)
        pins = {arch: {**pin.to_json(), "record_sha256": record_sha256(pin)} for arch, pin in own[newest].items()}
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
