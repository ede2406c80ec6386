"""Data types for the GPU code of a file."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import BinaryIO

from wheelsmith.base.errors import WheelError
from wheelsmith.base.units import numbers
from wheelsmith.platforms import cuda_toolkits

_NONE = frozenset[str]()
AMD = "gfx"  # the start of the names of AMD's architectures


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSlice:
    """Consecutive bytes of a file.

    :param file: seekable.
    :param start: offset of the first byte in the file.
    :param size: in bytes.
    """

    file: BinaryIO
    start: int
    size: int

    def read(self, offset: int, size: int) -> bytes:
        """Return bytes of the slice.

        :raises WheelError: the range is outside the slice, or the file is truncated.
        """
        self.file.seek(self.part(offset, size).start)
        data = self.file.read(size)
        if len(data) != size:
            raise WheelError("it is truncated")
        return data

    def part(self, offset: int, size: int) -> FileSlice:
        """Return a part of this slice.

        :raises WheelError: the range is outside the slice.
        """
        if offset + size > self.size:
            raise WheelError("it is truncated")
        return FileSlice(file=self.file, start=self.start + offset, size=size)


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuCode:
    """The GPU code of a file, as capabilities (``8.0``, ``9.0a``, ``gfx942``) and releases of CUDA toolkits (``12.4``).

    :param machine_code: capabilities of linked machine code, which a GPU can run.
    :param ptx: capabilities of PTX, which a driver compiles.
    :param relocatable: capabilities of machine code and PTX that is not linked yet (``nvcc -rdc=true``).
    :param intermediate: capabilities of LTO IR and tile IR, the input of nvcc's linker.
    :param assemblers: toolkits with the ptxas that made the machine code.
    :param ptx_versions: versions of the PTX language, e.g. ``8.4``.
    :param other_vendors: vendors or targets of other GPU code, which is not read: ``Vulkan``.
    :param runtime: True if the file contains the CUDA runtime (``nvcc -cudart static``, nvcc's default).
    :param mistakes: descriptions of code that is broken or differs from its label, with offsets.
    """

    machine_code: frozenset[str] = _NONE
    ptx: frozenset[str] = _NONE
    relocatable: frozenset[str] = _NONE
    intermediate: frozenset[str] = _NONE
    assemblers: frozenset[str] = _NONE
    ptx_versions: frozenset[str] = _NONE
    other_vendors: frozenset[str] = _NONE
    runtime: bool = False
    mistakes: tuple[str, ...] = ()

    @property
    def present(self) -> bool:
        """Return True if there is any GPU code, including broken code."""
        return bool(self.is_for_nvidia or self.is_for_amd or self.other_vendors or self.mistakes)

    @property
    def is_for_nvidia(self) -> bool:
        """Return True if there is code for NVIDIA's GPUs."""
        machine_code = any(not text.startswith(AMD) for text in self.machine_code)
        return bool(machine_code or self.ptx or self.relocatable or self.intermediate)

    @property
    def is_for_amd(self) -> bool:
        """Return True if there is code for AMD's GPUs."""
        return any(text.startswith(AMD) for text in self.machine_code)

    @property
    def machine_capabilities(self) -> tuple[str, ...]:
        """Return the capabilities of the machine code, ascending; with PTX for the same one, e.g. ``9.0+PTX``."""
        ascending = sorted(self.machine_code, key=processor_order)
        return tuple(f"{text}+PTX" if text in self.ptx else text for text in ascending)

    @property
    def ptx_toolkits(self) -> frozenset[str]:
        """Return the known toolkits that write these versions of PTX."""
        return frozenset(name for name, toolkit in cuda_toolkits().items() if toolkit.ptx in self.ptx_versions)


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """A container of GPU code.

    :param size: in bytes, including the header. If the container is broken, the size of the header.
    :param codes: the GPU code of each entry.
    """

    size: int
    codes: tuple[GpuCode, ...]


def combine_gpu_code(codes: Iterable[GpuCode]) -> GpuCode:
    """Combine several pieces of GPU code into one."""
    codes = list(codes)
    sets = [field.name for field in fields(GpuCode) if field.default is _NONE]
    return GpuCode(
        runtime=any(code.runtime for code in codes),
        mistakes=tuple(mistake for code in codes for mistake in code.mistakes),
        **{name: _NONE.union(*(getattr(code, name) for code in codes)) for name in sets},
    )


def processor_order(text: str) -> tuple[object, ...]:
    """Return a sort key for the architectures of machine code: AMD's after NVIDIA's."""
    return (True, len(text), text) if text.startswith(AMD) else (False, numbers(text.rstrip("af")), text)


def capability(number: int, suffix: str = "") -> str:
    """Return the capability of a GPU architecture, e.g. ``9.0a`` for sm_90a.

    :param number: number of the architecture, e.g. 90.
    :param suffix: ``a`` for code that runs on this architecture only, ``f`` for code for its family, or empty.
    """
    return f"{number // 10}.{number % 10}{suffix}"
