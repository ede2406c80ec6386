"""Torch's releases, and what each was built with."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from wheelsmith.base.facts import read_facts
from wheelsmith.base.record import Record
from wheelsmith.base.units import listed, numbers
from wheelsmith.model.pinned import PinnedFile, pinned_prefix
from wheelsmith.model.plan import PrefixId

_PATCHES = range(10)  # of a torch release: none has had more than three


@dataclass(frozen=True, slots=True, kw_only=True)
class TorchRelease(Record):
    """A torch release and what it was built with.

    :param minor: ``2.11``: what the torch axis names.
    :param version: the patch release whose headers stand for it, e.g. ``2.11.0``.
    :param cxx_std: the C++ standard kernels are compiled with, e.g. 17: kernel-builder's choice, 20 from torch 2.12 on.
    :param cxx11_abi: CPU architecture → whether its wheel has the C++11 ABI; without it, ``std::string`` has other
        symbols, and an extension must be compiled likewise.
    :param cxx11_abi_cuda: CUDA releases of which the builds have the C++11 ABI on every architecture.
    :param cuda: every CUDA ``major.minor`` that this release was published for.
    :param cuda_source: who says so; ``source`` is for everything else.
    :param wheels: CPU architecture → the wheel whose headers are used.
    :param without_cuda: CPU architectures whose wheel is a build for the CPU alone, by the files that it holds.
    """

    minor: str
    version: str
    cxx_std: int
    cxx11_abi: dict[str, bool]
    cuda: tuple[str, ...]
    cuda_source: str
    cuda_date: str
    wheels: dict[str, PinnedFile]
    source: str
    date: str
    cxx11_abi_cuda: tuple[str, ...] = ()
    without_cuda: tuple[str, ...] = ()

    def has_cxx11_abi(self, arch: str, cuda: str | None) -> bool:
        """Say whether the build for an architecture and a CUDA, or for the CPU alone, has the C++11 ABI."""
        return self.cxx11_abi.get(arch, True) or cuda in self.cxx11_abi_cuda

    def newer_cuda(self, cuda: str) -> tuple[str, ...]:
        """Return the CUDA releases of its builds that run what ``cuda`` made: of that major, no older, oldest first.

        The rule is the Hub loader's own.
        """
        least = numbers(cuda)
        return tuple(built for built in self.cuda if numbers(built)[0] == least[0] and numbers(built) >= least)


@cache
def torch_releases() -> dict[str, TorchRelease]:
    """Return every known torch release by its ``major.minor``, oldest first."""
    return {item["minor"]: TorchRelease.from_json(item) for item in read_facts(__package__, "torch.json")["releases"]}


def why_incompatible(torch: TorchRelease, cuda: str) -> str | None:
    """Say why a kernel built with CUDA ``cuda`` cannot serve ``torch``, or None when it can."""
    if torch.newer_cuda(cuda):
        return None
    return (
        f"torch {torch.minor} was built with CUDA {listed(torch.cuda)}; a kernel made with CUDA {cuda} "
        f"needs a torch of the same CUDA major and at least that minor"
    )


def torch_prefix(release: TorchRelease, arch: str) -> PrefixId:
    """Name the folder of torch headers for ``arch``, by the wheel that they come from."""
    return pinned_prefix("torch", release.version, arch, [release.wheels[arch]])


def patches_of(release: str) -> tuple[str, ...]:
    """Return the versions that a release of torch such as ``2.12`` may have: ``2.12.0`` and on."""
    return tuple(f"{release}.{patch}" for patch in _PATCHES)
