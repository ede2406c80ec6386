"""GPU code: where it lies in a file, what it says of itself, and whether it is whole."""

from __future__ import annotations

from wheelsmith.wheel.gpu.allowance import Allowance
from wheelsmith.wheel.gpu.code import GpuCode
from wheelsmith.wheel.gpu.scan import GpuCodeMarks, other_maker, read_gpu_code

__all__ = ["Allowance", "GpuCode", "GpuCodeMarks", "other_maker", "read_gpu_code"]
