"""Add a torch release to wheelsmith's facts, or replace one with a newer patch release.

    python scripts/add_torch.py 2.15.0 --matrix RELEASE.md
    python scripts/add_torch.py 2.15.0 --cuda 13.0 --cuda 13.2 --cuda-source "release notes"

The script finds the wheels on the package index, and reads the C++11 ABI and CUDA support from their libraries. It
writes frameworks/torch.json, the tables of exported symbols, and the pages of the reference. It fetches about 1 GB.

RELEASE.md is a file of pytorch/pytorch; its matrix lists the CUDA releases of each torch. Further CUDA releases and the
C++ standard of kernel-builder are options.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import generate_reference
from package_index import make_partial_pin, published, read_member, wheel_for_each_arch
from packaging.version import Version
from torch_symbols import read_wheel, write_symbols

from wheelsmith.base.errors import WheelError
from wheelsmith.frameworks import torch_releases
from wheelsmith.model import PinnedFile
from wheelsmith.wheel.torch_wheel import ATEN, VERSION, TorchWheel, cuda_of, least_cxx_std

TARGET = Path(__file__).parent.parent / "wheelsmith" / "frameworks" / "torch.json"
MATRIX = "release compatibility matrix in RELEASE.md of pytorch/pytorch"
SOURCE = "the torch wheels on PyPI (C++11 ABI and CUDA from their libraries); C++ standard of the release before"
_ROW = re.compile(r"\| *(?P<minor>\d+\.\d+) *\|(?P<cells>.*)\|")
_CUDA = re.compile(r"\bCUDA (\d+\.\d+)")


def main() -> None:
    """Add the release that the command line names."""
    options = _options()
    version = Version(options.version)
    wheels = published("torch")
    if version not in wheels:
        raise SystemExit(f"the package index has no wheels of torch {version}; the newest is {list(wheels)[-1]}")
    data = json.loads(TARGET.read_text())
    # Check the options first, since the rest takes minutes.
    cuda, cuda_source = find_cuda_releases(_minor(version), data["releases"], options)
    cxx_std = options.cxx_std or find_cxx_standard(version, data["releases"])
    pins = wheel_for_each_arch("torch", wheels[version], "cp311")
    for built in filter(None, map(cuda_of_wheel, pins.values())):
        if built not in cuda:
            raise SystemExit(f"torch {version} of the package index was built for CUDA {built}: pass it to --cuda")
    read = {arch: read_wheel(pin) for arch, pin in pins.items()}
    entry = {
        "minor": _minor(version),
        "version": str(version),
        "cxx_std": cxx_std,
        "least_cxx_std": find_least_cxx_standard(pins["x86_64"]),
        **find_abi(read),
        "cuda": cuda,
        "cuda_source": cuda_source,
        "cuda_date": options.date,
        **find_cpu_only(read),
        "wheels": {arch: make_partial_pin(pin) for arch, pin in pins.items()},
        "source": options.source,
        "date": options.date,
    }
    write(entry, data, read)
    print(f"torch {version}: CUDA {', '.join(cuda)} ({cuda_source}); C++ {cxx_std} (to change it: --cxx-std)")


def write(entry: dict[str, Any], data: dict[str, Any], read: dict[str, TorchWheel]) -> None:
    """Write the release, the symbols that its libraries export, and the pages of the reference."""
    data["releases"] = replace_release(entry, data["releases"])
    TARGET.write_text(json.dumps(data, indent=1) + "\n")
    torch_releases.cache_clear()
    for arch, wheel in read.items():
        write_symbols(arch, {entry["minor"]: wheel}, entry["date"])
    generate_reference.main()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("version", help="such as 2.15.0")
    parser.add_argument(
        "--date", default=datetime.now(UTC).date().isoformat(), help="the date of the facts; default: today"
    )
    parser.add_argument("--matrix", type=Path, help="RELEASE.md of pytorch/pytorch")
    parser.add_argument("--cuda", action="append", default=[], help="a CUDA release with wheels; repeatable")
    parser.add_argument("--cuda-source", help="the source of --cuda")
    parser.add_argument(
        "--cxx-std", type=int, help="kernel-builder's C++ standard; default: that of the previous release"
    )
    parser.add_argument("--source", default=SOURCE, help="the source of the other facts")
    return parser.parse_args()


def find_cuda_releases(
    minor: str, releases: list[dict[str, Any]], options: argparse.Namespace
) -> tuple[list[str], str]:
    """Return the CUDA releases of a torch release and their source.

    They come from the matrix in RELEASE.md and the options, or else from the existing facts.
    """
    if options.cuda and not options.cuda_source:
        raise SystemExit("--cuda requires --cuda-source")
    named = parse_matrix(options.matrix.read_text()).get(minor, ()) if options.matrix else ()
    sources = [*([MATRIX] if named else []), *([options.cuda_source] if options.cuda else [])]
    if sources:
        return sorted({*named, *options.cuda}, key=Version), "; ".join(sources)
    for item in releases:
        if item["minor"] == minor:
            return item["cuda"], item["cuda_source"]
    raise SystemExit(
        f"the CUDA releases of torch {minor} are unknown: "
        "pass --matrix RELEASE.md of pytorch/pytorch, or --cuda and --cuda-source"
    )


def parse_matrix(text: str) -> dict[str, tuple[str, ...]]:
    """Return the stable and experimental CUDA releases in the matrix of RELEASE.md, by torch release."""
    found = {}
    for line in text.splitlines():
        if (row := _ROW.match(line)) and (named := _CUDA.findall(row["cells"])):
            found[row["minor"]] = tuple(named)
    return found


def find_cxx_standard(version: Version, releases: Iterable[dict[str, Any]]) -> int:
    """Return the C++ standard of the newest release that is not newer than a version."""
    older = [item for item in releases if Version(item["minor"]) <= version]
    if not older:
        raise SystemExit(f"no release before {version} is known: pass --cxx-std")
    return int(max(older, key=lambda item: Version(item["minor"]))["cxx_std"])


def find_least_cxx_standard(pin: PinnedFile) -> int:
    """Return the C++ standard that ATen.h of a wheel requires."""
    try:
        return least_cxx_std(read_member(pin, ATEN).decode())
    except WheelError as error:
        raise SystemExit(f"{pin.filename}: {error.message}: look for it, and mend wheel/torch_wheel.py") from None


def cuda_of_wheel(pin: PinnedFile) -> str | None:
    """Return the ``torch.version.cuda`` of a wheel, or None for a CPU build."""
    return cuda_of(read_member(pin, VERSION).decode())


def find_abi(read: dict[str, TorchWheel]) -> dict[str, Any]:
    """Return the architectures for which libc10 uses the C++11 ABI."""
    return {"cxx11_abi": {arch: wheel.has_cxx11_abi for arch, wheel in read.items()}}


def find_cpu_only(read: dict[str, TorchWheel]) -> dict[str, Any]:
    """Return the architectures with a wheel for the CPU only, if there are any."""
    found = [arch for arch, wheel in read.items() if not wheel.has_cuda]
    return {"without_cuda": found} if found else {}


def _minor(version: Version) -> str:
    return f"{version.major}.{version.minor}"


def replace_release(entry: dict[str, Any], releases: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the releases with this one added or replaced, in order."""
    others = [item for item in releases if item["minor"] != entry["minor"]]
    return sorted([*others, entry], key=lambda item: Version(item["minor"]))


if __name__ == "__main__":
    main()
