"""What is asked for: cells."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

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


TORCH = "torch"


class ReleaseRecord(Record):
    """A record that is about one release of one framework, which is written under the framework's own name.

    ``{"torch": "2.11"}``; of another framework than torch, ``{"framework": "tvm-ffi", "tvm-ffi": "0.1"}``.
    """

    __slots__ = ()

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        data = super().to_json()
        framework, release = data.pop("framework"), data.pop("release")
        return {**({} if framework == TORCH else {"framework": framework}), framework: release, **data}

    @classmethod
    def from_json(cls, data: Any) -> Self:
        """Read what ``to_json`` wrote.

        :raises ValueError: a field is missing, unknown or of another type.
        """
        if not isinstance(data, dict):
            raise ValueError(f"expected {cls.__name__}, not {data!r}")  # noqa: TRY004  # as Record does
        rest = dict(data)
        framework = rest.pop("framework", TORCH)
        if not isinstance(framework, str) or framework not in rest:
            raise ValueError(f"{cls.__name__} names no release of its framework")
        release = rest.pop(framework)
        return super().from_json({**rest, "framework": framework, "release": release})


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell(ReleaseRecord):
    """One combination that somebody's users run.

    :param framework: whose operators it has, as ``torch`` or ``tvm-ffi``.
    :param release: of the framework, as ``major.minor``.
    :param cuda: the CUDA toolkit as ``major.minor``; None is a CPU build.
    :param arch: the CPU architecture as ``uname -m`` gives it.
    :param python: ``major.minor`` for a project whose wheels serve one Python each; None for a kernel.
    :param cxx11_abi: False where that torch has the C++ ABI from before C++11, which its kernels must share; None where
        nothing of the framework's C++ is shared.
    """

    framework: str = TORCH
    release: str
    cuda: str | None
    arch: str
    python: str | None = None
    os: str = "linux"
    cxx11_abi: bool | None = True
    settings: CellSettings = field(default_factory=CellSettings)

    @property
    def compute(self) -> str:
        """Return the compute platform as torch's own index names it: ``cpu``, ``cu130``."""
        return "cpu" if self.cuda is None else "cu" + self.cuda.replace(".", "")

    @property
    def id(self) -> str:
        """Return the Hub's variant name, e.g. ``torch211-cxx11-cu130-x86_64-linux``; with a Python, it ends in it."""
        abi = () if self.cxx11_abi is None else ("cxx11" if self.cxx11_abi else "cxx98",)
        python = () if self.python is None else (f"cp{self.python.replace('.', '')}",)
        framework = f"{self.framework}{self.release.replace('.', '')}"
        return "-".join((framework, *abi, self.compute, self.arch, self.os, *python))


@dataclass(frozen=True, slots=True, kw_only=True)
class Excluded(Record):
    """A cell that is not built, and why."""

    cell: Cell
    reason: str
