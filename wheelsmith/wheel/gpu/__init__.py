"""GPU code: where it lies in a file, what it says of itself, and whether it is whole."""

from __future__ import annotations

from wheelsmith.wheel.gpu.allowance import UnpackBudget
from wheelsmith.wheel.gpu.code import GpuCode
from wheelsmith.wheel.gpu.scan import GpuCodeMarks, other_gpu_vendor, read_gpu_code

__all__ = ["GpuCode", "GpuCodeMarks", "UnpackBudget", "other_gpu_vendor", "read_gpu_code"]
