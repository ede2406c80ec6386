"""What NVIDIA's GPUs and drivers run."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from wheelsmith.base.files import answer_of, output_of, read_facts
from wheelsmith.base.json_dataclass import Record
from wheelsmith.base.units import listed, numbers
from wheelsmith.platforms.cuda import parse_capability
from wheelsmith.platforms.platform import Devices, Driver


def cuda_driver() -> Driver | None:
    """Ask the driver, in a process of its own; else the program that comes with it. Return None where there is none."""
    found = answer_of([sys.executable, "-I", "-c", _script()]) or _from_nvidia_smi()
    return Driver.from_json(found) if found else None


def _script() -> str:
    return files(__package__).joinpath("probe_cuda.py").read_text(encoding="utf-8")


def _from_nvidia_smi() -> dict[str, Any] | None:
    """Ask the program where the library is in no place that programs look in."""
    if shutil.which("nvidia-smi") is None:
        return None
    version = re.search(r"CUDA (?:UMD )?Version\s*: *(\d+\.\d+)", output_of(["nvidia-smi"]))
    rows = output_of(["nvidia-smi", "--query-gpu=compute_cap,name", "--format=csv,noheader"]).splitlines()
    gpus = [row.split(", ", maxsplit=1) for row in rows if re.match(r"\d+\.\d+, ", row)]
    found = [{"name": name, "capability": capability} for capability, name in gpus]
    return {"version": version[1], "gpus": found} if version else None


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverFloor(Record):
    """The oldest NVIDIA driver that runs what any toolkit of a CUDA major made, as ``580``.

    :param cuda: the major version, e.g. ``13``.
    """

    cuda: str
    driver: str
    source: str
    date: str


@cache
def driver_floors() -> dict[str, DriverFloor]:
    """Return the oldest driver of each CUDA major, by the major."""
    return {item["cuda"]: DriverFloor.from_json(item) for item in read_facts(__package__, "drivers.json")["floors"]}


class CudaDevices(Devices):
    """NVIDIA's GPUs and drivers."""

    beside = "the same CUDA major and no older minor"

    def driver(self) -> Driver | None:
        """Return the NVIDIA driver."""
        from wheelsmith.platforms.cuda_devices import cuda_driver

        return cuda_driver()

    def best_code(self, codes: Sequence[str], gpu: str) -> str | None:
        """Return the best of ``8.0``, ``9.0a``, ``9.0+PTX``.

        Machine code runs on its own major from its own minor on; with ``a`` only on its own capability; with ``f`` on
        its family. What the driver compiles from PTX runs on anything newer, and is taken last.
        """
        major, minor, *_ = parse_capability(gpu)
        machine, compiled = [], []
        for text in codes:
            code = parse_capability(text)
            exact, same_major = code[:2] == (major, minor), code[0] == major and code[1] <= minor
            if exact if code[2] == "a" else same_major:
                machine.append((code[:2], text))
            elif code[3] and not code[2] and code[:2] <= (major, minor):
                compiled.append((code[:2], text))
        best = max(machine or compiled, default=None)
        return best[1] if best else None

    def is_foreign(self, code: str, gpu: str) -> bool:
        """Say whether a GPU takes the PTX of this code, and not its machine code."""
        return parse_capability(code)[0] != parse_capability(gpu)[0]

    def why_refused(self, version: str, driver: str) -> str | None:
        """Within a CUDA major any driver of that major will do; an older major's will not.

        https://docs.nvidia.com/deploy/cuda-compatibility/minor-version-compatibility.html
        """
        if numbers(version)[0] <= numbers(driver)[0]:
            return None
        major = version.split(".", maxsplit=1)[0]
        floor = driver_floors().get(major)
        needed = f"driver {floor.driver} or newer" if floor else f"a driver for CUDA {major}"
        return f"it is made with CUDA {version}, which needs {needed}; this driver runs CUDA up to {driver}"

    def why_not_compiled(self, version: str, driver: str, gpus: Sequence[str]) -> str | None:
        """Compare CUDAs: a driver compiles PTX of its own and of older ones."""
        if numbers(driver) >= numbers(version):
            return None
        reason = f"its PTX of CUDA {version} must be compiled for capability {listed(list(gpus))} by the driver"
        return f"{reason}, which knows CUDA up to {driver}"

    def runs_beside(self, made: str, built: str) -> bool:
        """Say whether it is the same major, and an older minor (the Hub's rule)."""
        return numbers(made)[0] == numbers(built)[0] and numbers(made) < numbers(built)

    def distance(self, version: str, asked: str) -> tuple[int, ...]:
        """Order by what else must change: nothing, CUDA's minor, its major."""
        if self.runs_beside(version, asked):
            return 0, -numbers(version)[1]
        major = abs(numbers(version)[0] - numbers(asked)[0])
        return 1 + bool(major), major, abs(numbers(version)[1] - numbers(asked)[1])
