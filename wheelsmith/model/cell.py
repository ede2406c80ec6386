"""What is asked for: cells."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

from wheelsmith.base.json_dataclass import Record

HOST, PINNED = "host", "pinned"


@dataclass(frozen=True, slots=True, kw_only=True)
class CellSettings(Record):
    """What rules may set for the cells they select: named as in matrix.yaml, with _ for -.

    :param gpu_archs: compute capabilities such as ``8.0`` or ``9.0+PTX``; None takes the toolkit's default.
    :param advertise: False builds the cell but leaves it out of the index.
    :param image: the container image that the cell must be built in; None leaves it to the engine's default.
    :param torch_headers: ``whole``, or ``light`` for a torch/all.h with tensors and operators only.
    :param toolchain: the C++ compilers: a name of pinned ones, ``pinned`` for those that are taken first, or ``host``
        for what the machine or the image has; None takes pinned ones where there are any for the machine.
    :param manylinux: the policy that pinned compilers keep to, as ``2_28``.
    """

    gpu_archs: tuple[str, ...] | None = None
    advertise: bool = True
    image: str | None = None
    torch_headers: str = "whole"
    toolchain: str | None = None
    manylinux: str = "2_28"


TORCH, CUDA = "torch", "cuda"


class ReleaseRecord(Record):
    """A record that is about one release of one framework, which is written under the framework's own name.

    ``{"torch": "2.11"}``; of another framework than torch, ``{"framework": "tvm-ffi", "tvm-ffi": "0.1"}``.

    :cvar by_name: fields that are written so: what it is of, its value, and the name that needs no saying.
    """

    __slots__ = ()
    by_name: ClassVar[tuple[tuple[str, str, str], ...]] = (("framework", "release", TORCH),)

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        data = super().to_json()
        for kind, value, usual in self.by_name:
            name = data.pop(kind)
            data = {**({} if name == usual else {kind: name}), name: data.pop(value), **data}
        return data

    @classmethod
    def from_json(cls, data: Any) -> Self:
        """Read what ``to_json`` wrote.

        :raises ValueError: a field is missing, unknown or of another type.
        """
        if not isinstance(data, dict):
            raise ValueError(f"expected {cls.__name__}, not {data!r}")  # noqa: TRY004  # as Record does
        rest = dict(data)
        for kind, value, usual in cls.by_name:
            name = rest.pop(kind, usual)
            if not isinstance(name, str) or name not in rest:
                raise ValueError(f"{cls.__name__} names no {value} of its {kind}")
            rest = {kind: name, value: rest.pop(name), **rest}
        return super().from_json(rest)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell(ReleaseRecord):
    """One combination that somebody's users run.

    :param framework: whose operators it has, as ``torch`` or ``tvm-ffi``.
    :param release: of the framework, as ``major.minor``.
    :param platform: whose toolkit it is made with, as kernel-builder's backends are called.
    :param toolkit: its release as ``major.minor``; None is a CPU build.
    :param arch: the CPU architecture as ``uname -m`` gives it.
    :param python: ``major.minor`` for a project whose wheels serve one Python each; None for a kernel.
    :param cxx11_abi: False where that torch has the C++ ABI from before C++11, which its kernels must share; None where
        nothing of the framework's C++ is shared.
    """

    by_name: ClassVar = (*ReleaseRecord.by_name, ("platform", "toolkit", CUDA))
    framework: str = TORCH
    release: str
    platform: str = CUDA
    toolkit: str | None
    arch: str
    python: str | None = None
    os: str = "linux"
    cxx11_abi: bool | None = True
    settings: CellSettings = field(default_factory=CellSettings)

    @property
    def compute(self) -> str:
        """Return the compute platform as torch's own index names it: ``cpu``, ``cu130``."""
        if self.toolkit is None:
            return "cpu"
        return ("cu" if self.platform == CUDA else self.platform) + self.toolkit.replace(".", "")

    @property
    def backend(self) -> str:
        """Return kernel-builder's name for the compute platform: ``cpu``, ``cuda``."""
        return "cpu" if self.toolkit is None else self.platform

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
