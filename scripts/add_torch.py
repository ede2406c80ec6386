"""Add a torch release to what wheelsmith knows, or put a patch release in the place of the one before.

    python scripts/add_torch.py 2.15.0 --matrix RELEASE.md
    python scripts/add_torch.py 2.15.0 --cuda 13.0 --cuda 13.2 --cuda-source "who says so"

Finds its wheels on the package index, reads the C++11 ABI and whether it is for CUDA at all from their libraries, and
writes frameworks/torch.json, the tables of what the libraries export, and the pages of the reference. Fetches about
1 GB. RELEASE.md is pytorch/pytorch's: its matrix names the CUDA releases of each torch. No program knows what was
published beyond it, nor the C++ standard that kernel-builder takes: those are options.
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
from package_index import both, pinned_in_part, published, read_member
from packaging.version import Version
from torch_symbols import TorchWheel, read_wheel, write_symbols

from wheelsmith.frameworks import torch_releases
from wheelsmith.model import PinnedFile
from wheelsmith.wheel.symbols import fingerprint

TARGET = Path(__file__).parent.parent / "wheelsmith" / "frameworks" / "torch.json"
MATRIX = "release compatibility matrix in RELEASE.md of pytorch/pytorch"
# c10::Error's constructor with the std::string of the C++11 ABI.
CXX11_ABI = "_ZN3c105ErrorC1ENS_14SourceLocationENSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"
CUDA_LIBRARY = "libtorch_cuda.so"
SOURCE = "the torch wheels on PyPI (C++11 ABI and CUDA from their libraries); C++ standard of the release before"
_ROW = re.compile(r"\| *(?P<minor>\d+\.\d+) *\|(?P<cells>.*)\|")
_CUDA = re.compile(r"\bCUDA (\d+\.\d+)")
_BUILT_FOR = re.compile(r"^cuda\b.*= *'([\d.]+)'", re.MULTILINE)


def main() -> None:
    """Write the release that the command line names."""
    options = _options()
    version = Version(options.version)
    wheels = published("torch")
    if version not in wheels:
        raise SystemExit(f"the package index has no wheels of torch {version}; the newest: {list(wheels)[-1]}")
    data = json.loads(TARGET.read_text())
    # What a program does not know comes first: the rest takes minutes.
    cuda, cuda_source = cuda_of(_minor(version), data["releases"], options)
    cxx_std = options.cxx_std or standard_of(version, data["releases"])
    pins = both("torch", wheels[version], "cp311")
    for built in filter(None, map(built_for, pins.values())):
        if built not in cuda:
            raise SystemExit(f"torch {version} of the package index was built for CUDA {built}: name it with --cuda")
    read = {arch: read_wheel(pin) for arch, pin in pins.items()}
    entry = {
        "minor": _minor(version),
        "version": str(version),
        "cxx_std": cxx_std,
        **abi_of(read),
        "cuda": cuda,
        "cuda_source": cuda_source,
        "cuda_date": options.date,
        **without_cuda(read),
        "wheels": {arch: pinned_in_part(pin) for arch, pin in pins.items()},
        "source": options.source,
        "date": options.date,
    }
    write(entry, data, read)
    print(f"torch {version}: CUDA {', '.join(cuda)} ({cuda_source}); C++ {cxx_std}: if that is wrong, say --cxx-std")


def write(entry: dict[str, Any], data: dict[str, Any], read: dict[str, TorchWheel]) -> None:
    """Write the release, what its libraries export, and the pages that say which releases are known."""
    data["releases"] = put(entry, data["releases"])
    TARGET.write_text(json.dumps(data, indent=1) + "\n")
    torch_releases.cache_clear()
    for arch, wheel in read.items():
        write_symbols(arch, {entry["minor"]: wheel}, entry["date"])
    generate_reference.main()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("version", help="such as 2.15.0")
    parser.add_argument("--date", default=datetime.now(UTC).date().isoformat(), help="when it was looked up; today")
    parser.add_argument("--matrix", type=Path, help="RELEASE.md of pytorch/pytorch")
    parser.add_argument("--cuda", action="append", default=[], help="a CUDA of which it was published; repeatable")
    parser.add_argument("--cuda-source", help="who says so")
    parser.add_argument("--cxx-std", type=int, help="kernel-builder's C++ standard; that of the release before")
    parser.add_argument("--source", default=SOURCE, help="where all the rest is from")
    return parser.parse_args()


def cuda_of(minor: str, releases: list[dict[str, Any]], options: argparse.Namespace) -> tuple[list[str], str]:
    """Return the CUDA releases of a torch, and who names them: the matrix, the command line, or what was known."""
    if options.cuda and not options.cuda_source:
        raise SystemExit("--cuda needs --cuda-source: who says so")
    named = rows(options.matrix.read_text()).get(minor, ()) if options.matrix else ()
    sources = [*([MATRIX] if named else []), *([options.cuda_source] if options.cuda else [])]
    if sources:
        return sorted({*named, *options.cuda}, key=Version), "; ".join(sources)
    for item in releases:
        if item["minor"] == minor:
            return item["cuda"], item["cuda_source"]
    raise SystemExit(
        f"nothing says for which CUDA torch {minor} was published: "
        "give --matrix RELEASE.md of pytorch/pytorch, or --cuda and --cuda-source"
    )


def rows(text: str) -> dict[str, tuple[str, ...]]:
    """Return the CUDA releases, stable and experimental, that the matrix of RELEASE.md names: torch → CUDA."""
    found = {}
    for line in text.splitlines():
        if (row := _ROW.match(line)) and (named := _CUDA.findall(row["cells"])):
            found[row["minor"]] = tuple(named)
    return found


def standard_of(version: Version, releases: Iterable[dict[str, Any]]) -> int:
    """Return the C++ standard of the newest known release that is not newer."""
    older = [item for item in releases if Version(item["minor"]) <= version]
    if not older:
        raise SystemExit(f"no release before {version} is known: give --cxx-std")
    return int(max(older, key=lambda item: Version(item["minor"]))["cxx_std"])


def built_for(pin: PinnedFile) -> str | None:
    """Return the CUDA of a wheel as torch.version.cuda says it; None of a build for the CPU alone."""
    found = _BUILT_FOR.search(read_member(pin, "torch/version.py").decode())
    return found[1] if found else None


def abi_of(read: dict[str, TorchWheel]) -> dict[str, Any]:
    """Return on which architectures libc10 has the strings of the C++11 ABI."""
    return {"cxx11_abi": {arch: fingerprint(CXX11_ABI) in wheel.exports["libc10.so"] for arch, wheel in read.items()}}


def without_cuda(read: dict[str, TorchWheel]) -> dict[str, Any]:
    """Return the architectures whose wheel is for the CPU alone, if there are any."""
    found = [arch for arch, wheel in read.items() if CUDA_LIBRARY not in wheel.libraries]
    return {"without_cuda": found} if found else {}


def _minor(version: Version) -> str:
    return f"{version.major}.{version.minor}"


def put(entry: dict[str, Any], releases: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the releases with this one in its place."""
    others = [item for item in releases if item["minor"] != entry["minor"]]
    return sorted([*others, entry], key=lambda item: Version(item["minor"]))


if __name__ == "__main__":
    main()
