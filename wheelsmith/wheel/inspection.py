"""A wheel under inspection: what several rules ask of it, read once and only when asked."""

from __future__ import annotations

import io
import re
from functools import cached_property
from pathlib import Path

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from wheelsmith.model import WheelSpec
from wheelsmith.tags import WheelName, read_wheel_name
from wheelsmith.wheel.archive import WheelContents, open_wheel
from wheelsmith.wheel.elf import Extension, read_extension
from wheelsmith.wheel.gpu import Allowance, GpuCode, read_gpu_code

_FOR_A_GPU = b"\xbe\0"  # EM_CUDA, the machine of an ELF file that is a cubin
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
        """Every ELF file for a CPU, by its path in the wheel."""
        files = self.contents.extensions.items()
        return {name: read_extension(name, data) for name, data in files if data[18:20] != _FOR_A_GPU}

    @cached_property
    def gpu_code(self) -> dict[str, GpuCode]:
        """The GPU code of every file that holds any, by its path in the wheel."""
        allowance = Allowance(self.path.stat().st_size)
        files = self.contents.files.items()
        read = {name: read_gpu_code(io.BytesIO(data), len(data), allowance) for name, data in files}
        return {name: code for name, code in read.items() if code.present}

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
