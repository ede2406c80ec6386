"""What is asked for: cells."""

from __future__ import annotations

from dataclasses import dataclass, field

from wheelsmith.base.record import Record


@dataclass(frozen=True, slots=True, kw_only=True)
class CellSettings(Record):
    """What rules may set for the cells they select.

    :param gpu_archs: compute capabilities such as ``8.0`` or ``9.0+PTX``; None takes the toolkit's default.
    :param advertise: False builds the cell but leaves it out of the index.
    :param image: the container image that the cell must be built in; None leaves it to the engine's default.
    :param torch_headers: ``whole``, or ``light`` for a torch/all.h with tensors and operators only.
    """

    gpu_archs: tuple[str, ...] | None = None
    advertise: bool = True
    image: str | None = None
    torch_headers: str = "whole"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell(Record):
    """One combination that somebody's users run.

    :param torch: the torch release as ``major.minor``.
    :param cuda: the CUDA toolkit as ``major.minor``; None is a CPU build.
    :param arch: the CPU architecture as ``uname -m`` gives it.
    :param python: ``major.minor`` for a project whose wheels serve one Python each; None for a kernel.
    :param cxx11_abi: False where that torch has the C++ ABI from before C++11, which its kernels must share.
    """

    torch: str
    cuda: str | None
    arch: str
    python: str | None = None
    os: str = "linux"
    cxx11_abi: bool = True
    settings: CellSettings = field(default_factory=CellSettings)

    @property
    def compute(self) -> str:
        """Return the compute platform as torch's own index names it: ``cpu``, ``cu130``."""
        return "cpu" if self.cuda is None else "cu" + self.cuda.replace(".", "")

    @property
    def id(self) -> str:
        """Return the Hub's variant name, e.g. ``torch211-cxx11-cu130-x86_64-linux``; with a Python, it ends in it."""
        abi = "cxx11" if self.cxx11_abi else "cxx98"
        variant = f"torch{self.torch.replace('.', '')}-{abi}-{self.compute}-{self.arch}-{self.os}"
        return variant if self.python is None else f"{variant}-cp{self.python.replace('.', '')}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Excluded(Record):
    """A cell that is not built, and why."""

    cell: Cell
    reason: str
