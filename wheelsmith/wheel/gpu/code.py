"""The GPU code of a file, and the bytes that it is read from."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import BinaryIO

from wheelsmith.base.errors import WheelError
from wheelsmith.base.units import numbers
from wheelsmith.platforms import cuda_toolkits

_NOTHING = frozenset[str]()


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSlice:
    """Consecutive bytes of a file.

    :param file: seekable.
    :param start: of the first byte in the file.
    :param size: in bytes.
    """

    file: BinaryIO
    start: int
    size: int

    def read(self, offset: int, size: int) -> bytes:
        """Return bytes of the slice.

        :raises WheelError: they are not all within it.
        """
        self.file.seek(self.part(offset, size).start)
        data = self.file.read(size)
        if len(data) != size:
            raise WheelError("it is cut short")
        return data

    def part(self, offset: int, size: int) -> FileSlice:
        """Return a slice of this one.

        :raises WheelError: it is not within.
        """
        if offset + size > self.size:
            raise WheelError("it is cut short")
        return FileSlice(file=self.file, start=self.start + offset, size=size)


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuCode:
    """The GPU code of a file, as capabilities (``8.0``, ``9.0a``) and the toolkits that made it (``12.4``).

    :param machine_code: linked, so that a GPU can run it.
    :param ptx: text that a driver compiles.
    :param relocatable: machine code and PTX that has yet to be linked (``nvcc -rdc=true``).
    :param intermediate: input of nvcc's own linker: LTO IR and tile IR.
    :param assemblers: toolkits whose ptxas made the machine code.
    :param ptx_versions: of the PTX, e.g. ``8.4``.
    :param others: vendors of other GPUs that it has code for, which is not read: ``AMD``, ``Vulkan``.
    :param runtime: whether it holds CUDA's runtime itself (``nvcc -cudart static``, which is nvcc's default).
    :param mistakes: code that is broken or differs from its label, with its place.
    """

    machine_code: frozenset[str] = _NOTHING
    ptx: frozenset[str] = _NOTHING
    relocatable: frozenset[str] = _NOTHING
    intermediate: frozenset[str] = _NOTHING
    assemblers: frozenset[str] = _NOTHING
    ptx_versions: frozenset[str] = _NOTHING
    others: frozenset[str] = _NOTHING
    runtime: bool = False
    mistakes: tuple[str, ...] = ()

    @property
    def present(self) -> bool:
        """Return True if there is any, broken code included."""
        nvidia = self.machine_code or self.ptx or self.relocatable or self.intermediate
        return bool(nvidia or self.others or self.mistakes)

    @property
    def runs(self) -> tuple[str, ...]:
        """Return the capabilities that there is machine code for, ascending: with PTX too, as ``9.0+PTX``."""
        ascending = sorted(self.machine_code, key=lambda text: (numbers(text.rstrip("af")), text))
        return tuple(f"{text}+PTX" if text in self.ptx else text for text in ascending)

    @property
    def front_ends(self) -> frozenset[str]:
        """Return the known toolkits that write PTX of these versions."""
        return frozenset(name for name, toolkit in cuda_toolkits().items() if toolkit.ptx in self.ptx_versions)


def joined(codes: Iterable[GpuCode]) -> GpuCode:
    """Return several pieces of code as one."""
    codes = list(codes)
    sets = [field.name for field in fields(GpuCode) if field.default is _NOTHING]
    return GpuCode(
        runtime=any(code.runtime for code in codes),
        mistakes=tuple(mistake for code in codes for mistake in code.mistakes),
        **{name: _NOTHING.union(*(getattr(code, name) for code in codes)) for name in sets},
    )


def capability(number: int, suffix: str = "") -> str:
    """Return the capability of an architecture: ``9.0a`` of sm_90a.

    :param number: as ``sm_90`` has it.
    :param suffix: ``a`` for code that only this architecture runs, ``f`` for its family's, or none.
    """
    return f"{number // 10}.{number % 10}{suffix}"
