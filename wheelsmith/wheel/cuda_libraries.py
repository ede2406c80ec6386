"""CUDA's libraries by their names: which releases have them, and which of them torch loads."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from functools import cache

from wheelsmith.platforms import DRIVER_LIBRARIES, cuda_packages
from wheelsmith.wheel.symbols import cuda_exports, symbol_table

CUDA_MAJORS = (11, 12, 13)
# Of torch's libraries, those that only a torch for CUDA has.
TORCH_CUDA = {
    *("libtorch_cuda.so", "libc10_cuda.so", "libcaffe2_nvrtc.so"),
    *("libtorch_nvshmem.so", "libtorch_cuda_linalg.so"),
}
# auditwheel puts a hash into the names of libraries that it copies.
CUDA_LIBRARY = re.compile(r"lib(?P<stem>[\w-]+?)(?:[-.][0-9a-f]{8})?\.so(?:\.(?P<major>\d{1,4})(?:\.[\d.]+)?)?")
# Libraries that one of CUDA's needs of another package.
_NEEDED_BY = {"cusparse": "nvJitLink"}
_TOOLKIT = "cuda-toolkit"  # requires the rest by its extras


def cuda_releases(library: str) -> list[int]:
    """Return the known major releases of CUDA that have a library of exactly this name."""
    return [major for major in CUDA_MAJORS if (found := cuda_exports(major)) and library in found.symbols]


def why_not_brought(arch: str, library: str, torch: Iterable[str], required: Collection[str]) -> str | None:
    """Return why a library of CUDA's is not there for a wheel that requires torch, or None if it is.

    :param torch: known releases, as ``2.11``, beside which the wheel may be installed.
    :param required: normalized names of all projects that the wheel requires.
    """
    match = CUDA_LIBRARY.fullmatch(library)
    if match is None or library in DRIVER_LIBRARIES:
        return None
    lacking = [release for release in torch if match["stem"] not in (_loaded_by(arch, release) or {match["stem"]})]
    package = next((name for name, stems in cuda_packages().libraries.items() if match["stem"] in stems), None)
    if not lacking or (package and any(_is(name, package) for name in required)):
        return None
    remedy = f"; require {package}, whose it is" if package else ""
    return f"CUDA's, which torch {', '.join(lacking)} does not load{remedy}"


def _is(name: str, package: str) -> bool:
    """Return True if a required project is a package of CUDA's, for any CUDA, or requires all of them."""
    return name in {_TOOLKIT, package} or bool(re.fullmatch(rf"{re.escape(package)}-cu\d\d", name))


@cache
def _loaded_by(arch: str, release: str) -> frozenset[str]:
    """Return the names, without ``lib`` and numbers, that a torch loads; none if only its CPU build is known."""
    table = symbol_table(arch)
    libraries = table.libraries.get(release, {}) if table else {}
    needed = {match["stem"] for each in libraries.values() for n in each.needed if (match := CUDA_LIBRARY.fullmatch(n))}
    if "cudart" not in needed:
        return frozenset()
    return frozenset(needed | {more for stem, more in _NEEDED_BY.items() if stem in needed})
