"""GPU code: its place in a file, and what it was made for and by."""

from __future__ import annotations

from wheelsmith.wheel.gpu.code import GpuCode, joined
from wheelsmith.wheel.gpu.scan import read_gpu_code
