"""The NVIDIA driver of this machine, and the GPUs behind it."""

from __future__ import annotations

import re
import shutil
import sys
from importlib.resources import files
from typing import Any

from wheelsmith.base.programs import answer_of, output_of
from wheelsmith.platforms.devices import Driver


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
