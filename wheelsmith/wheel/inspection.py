"""A wheel under inspection: what several rules ask of it, read once and only when asked."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import BinaryIO

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from wheelsmith.errors import WheelError
from wheelsmith.facts import torch_releases
from wheelsmith.model import WheelSpec
from wheelsmith.tags import WheelName, read_wheel_name
from wheelsmith.wheel.archive import WheelContents, open_wheel
from wheelsmith.wheel.elf import Extension, is_for_the_cpu, read_extension
from wheelsmith.wheel.fatbin import GpuCode, read_fatbins
from wheelsmith.wheel.providers import Providers

_LOCAL = re.compile(r"(?P<compute>cpu|cu\d{3})(?:\.torch(?P<torch>\d+\.\d+))?")
# Of a variant wheel: the label says for which compute platform it is.
_VARIANT_LOCAL = re.compile(r"torch(?:stable|(?P<torch>\d+\.\d+))")
_COMPUTE = re.compile(r"(cu\d{3})(_.*)?")


class Inspection:
    """One wheel, and what it was planned to be.

    :param path: of the wheel.
    :param expected: what the plan promised; None where there is no plan.
    :raises WheelError: the file cannot be read as a wheel at all.
    """

    def __init__(self, path: Path, expected: WheelSpec | None = None) -> None:
        self.path = path
        self.expected = expected
        self.contents: WheelContents = open_wheel(path)
        self.name: WheelName = read_wheel_name(path.name)

    @cached_property
    def extensions(self) -> dict[str, Extension]:
        """Every ELF file for a CPU that a loader takes, by its path in the wheel."""
        return {name: read for name, read in self._elf_files.items() if isinstance(read, Extension)}

    @cached_property
    def broken_extensions(self) -> dict[str, str]:
        """What is wrong with each ELF file for a CPU that no loader takes, by its path in the wheel."""
        return {name: read for name, read in self._elf_files.items() if isinstance(read, str)}

    @cached_property
    def providers(self) -> Providers:
        """Who brings the libraries and symbols that the ELF files need."""
        platforms = frozenset(tag.platform for tag in self.name.tags)
        return Providers(self.extensions, platforms, self.compute, self._torch_releases, self._projects)

    def binary(self, name: str) -> BinaryIO:
        """Open one of the ELF files; whoever asks closes it."""
        return io.BytesIO(self.contents.extensions[name])

    def python_sources(self, *words: bytes) -> Iterator[tuple[str, bytes]]:
        """Read every Python file that has one of these words, by its path in the wheel."""
        for name, data in self.contents.files.items():
            if name.endswith(".py") and any(word in data for word in words):
                yield name, data

    @cached_property
    def loads_libraries(self) -> bool:
        """Whether Python code of the wheel loads libraries by itself."""
        return any(True for _ in self.python_sources(b"CDLL", b"LoadLibrary", b"load_library", b"dlopen"))

    @cached_property
    def loads_for_all(self) -> bool:
        """Whether Python code of the wheel loads libraries so that all see their symbols."""
        return any(True for _ in self.python_sources(b"RTLD_GLOBAL"))

    @property
    def _projects(self) -> frozenset[str]:
        lines = self.contents.metadata.get_all("Requires-Dist", [])
        return frozenset(canonicalize_name(Requirement(line).name) for line in lines)

    @property
    def _torch_releases(self) -> tuple[str, ...] | None:
        if self.torch is None:
            return None
        # A release is named by two numbers, and its patches export the same.
        patches = range(10)
        return tuple(r for r in torch_releases() if any(self.torch.contains(f"{r}.{n}") for n in patches))

    @cached_property
    def _elf_files(self) -> dict[str, Extension | str]:
        read: dict[str, Extension | str] = {}
        for name, data in self.contents.extensions.items():
            if is_for_the_cpu(data):
                try:
                    read[name] = read_extension(name, io.BytesIO(data))
                except WheelError as error:
                    read[name] = error.message
        return read

    @cached_property
    def gpu_code(self) -> dict[str, GpuCode]:
        """The GPU code of every ELF file, by its path in the wheel."""
        return {name: read_fatbins(extension.fatbins) for name, extension in self.extensions.items()}

    @property
    def compute(self) -> str | None:
        """What the version says, or the label of a variant wheel: ``cpu``, ``cu130``; None where neither says it."""
        if local := _LOCAL.fullmatch(self.name.version.local or ""):
            return local["compute"]
        label = _COMPUTE.fullmatch(self.name.label or "")
        return label[1] if label else None

    @property
    def named_torch(self) -> str | None:
        """The torch release that the version names, or ``""`` where it names none; None if it is no version of ours."""
        local = self.name.version.local or ""
        found = _LOCAL.fullmatch(local) or _VARIANT_LOCAL.fullmatch(local)
        return (found["torch"] or "") if found else None

    @cached_property
    def torch(self) -> SpecifierSet | None:
        """What the wheel requires of torch; None where it requires no torch."""
        for line in self.contents.metadata.get_all("Requires-Dist", []):
            requirement = Requirement(line)
            if requirement.name == "torch" and requirement.marker is None:
                return requirement.specifier
        return None
