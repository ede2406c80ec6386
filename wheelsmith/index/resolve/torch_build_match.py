"""Which of torch's own builds a wheel is installed with: never one of an older CUDA minor than made its code."""

from __future__ import annotations

from wheelsmith.base.units import listed
from wheelsmith.frameworks import TorchRelease, torch_releases
from wheelsmith.index.resolve.target import KnownWheel, Target
from wheelsmith.model import CUDA, TORCH
from wheelsmith.platforms import cuda_of, platforms


def torch_build(target: Target, known: KnownWheel | None = None) -> str | None:
    """Return the compute platform of the build of torch that goes with a target: its own, or the nearest newer minor's.

    Where torch has neither, one will do that is no older than the wheel's own toolkit; None where there is no such
    build. A target for a torch that is not known is taken at its word, and so is one for another framework, which has
    no builds for one CUDA.
    """
    cuda, release = cuda_of(target.compute), _torch(target)
    if cuda is None or release is None:
        return target.compute
    if newer := release.newer_cuda(cuda):
        return _compute(newer[0])
    older = release.newer_cuda(_oldest(cuda, known))
    return _compute(older[-1]) if older else None


def _torch(target: Target) -> TorchRelease | None:
    return torch_releases().get(target.release) if target.framework == TORCH else None


def why_no_torch_build(target: Target, known: KnownWheel) -> str | None:
    """Say why no build of torch goes with a wheel, in a sentence that begins with *it*; None where one does."""
    if torch_build(target, known):
        return None
    needed = _oldest(cuda_of(target.compute) or "", known)
    built = listed(list(torch_releases()[target.release].cuda))
    return f"it needs torch {target.release} for CUDA {needed} or a newer minor, which was built for CUDA {built} only"


def _oldest(cuda: str, known: KnownWheel | None) -> str:
    """Return the oldest CUDA that a torch beside a wheel may have been built for."""
    if known and known.pure:
        return f"{cuda.split('.', maxsplit=1)[0]}.0"
    return cuda_of(known.toolkit or "") or cuda if known else cuda


def _compute(cuda: str) -> str:
    return platforms()[CUDA].compute(cuda)
