"""Which CUDA a library is of, by its name, also where auditwheel has put a hash into it."""

from __future__ import annotations

from functools import cache

from wheelsmith.wheel.symbol_resolution import CUDA_MAJORS, TORCH_CUDA
from wheelsmith.wheel.symbols import cuda_exports
from wheelsmith.wheel.torch_libraries import CUDA_LIBRARY

_FIRST = 12  # of CUDA 11 too much has names of its own


def is_cudas(library: str) -> bool:
    """Say whether a library is CUDA's, or one of torch's that needs CUDA."""
    match = CUDA_LIBRARY.fullmatch(library)
    return match is not None and (match["stem"] in _majors() or f"lib{match['stem']}.so" in TORCH_CUDA)


def is_of_another_cuda(library: str, cuda: int) -> bool:
    """Say whether a library of CUDA's has the name that another major release gives it.

    :param cuda: the major release; of one that is not known, nothing is.
    """
    match = CUDA_LIBRARY.fullmatch(library)
    majors = _majors().get(match["stem"], {}) if match else {}
    if match is None or cuda not in majors or len(set(majors.values())) == 1:
        return False
    return match["major"] != majors[cuda]


@cache
def _majors() -> dict[str, dict[int, str]]:
    """Library without its number → major release of CUDA → the number in its name."""
    found: dict[str, dict[int, str]] = {}
    for cuda in CUDA_MAJORS:
        exports = cuda_exports(cuda) if cuda >= _FIRST else None
        for library in exports.symbols if exports else ():
            # What has no number, libcheckpoint.so, may be anybody's.
            if (match := CUDA_LIBRARY.fullmatch(library)) and match["major"]:
                found.setdefault(match["stem"], {})[cuda] = match["major"]
    return found
