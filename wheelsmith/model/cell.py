"""Cells: the combinations that wheels are built for."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

from wheelsmith.base.json_dataclass import Record
from wheelsmith.base.units import is_prerelease

HOST, PINNED = "host", "pinned"
EXCLUDED, WAITING = "excluded", "waiting"
ARCHES = ("x86_64", "aarch64")  # the architectures of wheels, as ``uname -m`` prints them


@dataclass(frozen=True, slots=True, kw_only=True)
class CellSettings(Record):
    """Settings of a cell that rules can change. The fields have their names from matrix.yaml, with ``_`` for ``-``.

    :param gpu_archs: GPU architectures such as ``8.0`` or ``9.0+PTX``; None for the toolkit's default.
    :param advertise: False builds the cell but leaves it out of the index.
    :param image: the container image that the cell must be built in; None for the engine's default.
    :param torch_headers: ``whole``, or ``light`` for a torch/all.h with tensors and operators only.
    :param toolchain: the C++ compilers: the name of pinned compilers, ``pinned`` for the first ones that match, or
        ``host`` for those of the machine or the image. None uses pinned compilers if there are any for the machine.
    :param manylinux: the manylinux policy of pinned compilers, e.g. ``2_28``.
    :param max_size: maximum size of the wheel in bytes; None for no limit.
    """

    gpu_archs: tuple[str, ...] | None = None
    advertise: bool = True
    image: str | None = None
    torch_headers: str = "whole"
    toolchain: str | None = None
    manylinux: str = "2_28"
    max_size: int | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the settings as plain data, without the limit of the size if there is none."""
        data = Record.to_json(self)  # slots replace the class, so super() does not work
        if self.max_size is None:
            del data["max_size"]
        return data


TORCH, CUDA = "torch", "cuda"
NO_FRAMEWORK = "none"  # its only release is ""
_PRERELEASE = "prerelease"  # the mark of a pre-release in JSON, which follows from the release


class ReleaseRecord(Record):
    """A record about one release of one framework. The JSON form stores the release under the framework's name.

    ``{"torch": "2.11"}``, or for a framework other than torch ``{"framework": "tvm-ffi", "tvm-ffi": "0.1"}``. For a
    pre-release there is also ``"prerelease": true``.

    :cvar by_name: the fields in this form: the field of the name, the field of the value, and the default name, which
        is omitted.
    """

    __slots__ = ()
    release: str | None
    by_name: ClassVar[tuple[tuple[str, str, str], ...]] = (("framework", "release", TORCH),)

    def to_json(self) -> dict[str, Any]:
        """Return the record as plain data."""
        data = super().to_json()
        for kind, value, usual in self.by_name:
            name = data.pop(kind)
            data = {**({} if name == usual else {kind: name}), name: data.pop(value), **data}
        return {**data, _PRERELEASE: True} if is_prerelease(self.release) else data

    @classmethod
    def from_json(cls, data: Any) -> Self:
        """Read the output of ``to_json``.

        :raises ValueError: a field is missing, unknown or of another type.
        """
        if not isinstance(data, dict):
            raise ValueError(f"expected {cls.__name__}, not {data!r}")  # noqa: TRY004  # as Record does
        rest = {name: value for name, value in data.items() if name != _PRERELEASE}
        for kind, value, usual in cls.by_name:
            name = rest.pop(kind, usual)
            if not isinstance(name, str) or name not in rest:
                raise ValueError(f"{cls.__name__} has no {value} of its {kind}")
            rest = {kind: name, value: rest.pop(name), **rest}
        return super().from_json(rest)


def release_title(framework: str, release: str) -> str:
    """Return the release of a framework for display, e.g. ``torch 2.11`` or ``torch 2.16.0rc2 (pre-release)``."""
    mark = " (pre-release)" if is_prerelease(release) else ""
    return f"{framework} {release}{mark}" if release else "any framework"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell(ReleaseRecord):
    """One combination of framework, compute platform and CPU architecture that users run.

    :param framework: the framework that it provides operators for, ``torch``, ``tvm-ffi`` or ``none``.
    :param release: the framework's release as ``major.minor``, or a pre-release such as ``2.16.0rc2``.
    :param platform: the GPU platform under kernel-builder's name for it, e.g. ``cuda``.
    :param toolkit: the platform's toolkit release as ``major.minor``; None for a CPU build.
    :param arch: the CPU architecture as ``uname -m`` prints it.
    :param python: ``major.minor`` for a project, which needs one wheel for each Python; None for a kernel.
    :param kernel: the name of its kernel in a run of several kernels.
    :param cxx11_abi: False if this torch uses the C++ ABI from before C++11, which its kernels must use too; None if
        kernels share no C++ with the framework.
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
    kernel: str | None = None
    settings: CellSettings = field(default_factory=CellSettings)

    def to_json(self) -> dict[str, Any]:
        """Return the cell as plain data, without the kernel's name if it has none."""
        data = ReleaseRecord.to_json(self)  # slots replace the class, so super() does not work
        if self.kernel is None:
            del data["kernel"]
        return data

    @property
    def compute(self) -> str:
        """Return the compute platform as torch's own index names it: ``cpu``, ``cu130``, ``rocm7.2``."""
        if self.toolkit is None:
            return "cpu"
        return f"cu{self.toolkit.replace('.', '')}" if self.platform == CUDA else f"{self.platform}{self.toolkit}"

    @property
    def backend(self) -> str:
        """Return kernel-builder's name for the compute platform: ``cpu``, ``cuda``."""
        return "cpu" if self.toolkit is None else self.platform

    @property
    def id(self) -> str:
        """Return the Hub's variant name, e.g. ``torch211-cxx11-cu130-x86_64-linux``, and then its Python if any.

        In a run of several kernels, the kernel's name comes first: ``relu/torch211-…``.
        """
        abi = () if self.cxx11_abi is None else ("cxx11" if self.cxx11_abi else "cxx98",)
        python = () if self.python is None else (f"cp{self.python.replace('.', '')}",)
        framework = (f"{self.framework}{self.release.replace('.', '')}",) if self.release else ()
        variant = "-".join((*framework, *abi, self.compute.replace(".", ""), self.arch, self.os, *python))
        return variant if self.kernel is None else f"{self.kernel}/{variant}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Excluded(Record):
    """A cell that is not built, and the reason.

    :param waits: True if a machine of the cell's architecture can build it.
    """

    cell: Cell
    reason: str
    waits: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return plain data, with ``waits`` only if it is true."""
        data = Record.to_json(self)  # slots replace the class, so super() does not work
        if not self.waits:
            del data["waits"]
        return data

    @property
    def status(self) -> str:
        """Return the status for reports."""
        return WAITING if self.waits else EXCLUDED
