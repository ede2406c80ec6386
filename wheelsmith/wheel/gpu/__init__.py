"""Find the GPU code in a file, with its GPU architectures and toolkits."""

from __future__ import annotations

from wheelsmith.wheel.gpu.code import AMD, GpuCode, combine_gpu_code, processor_order
from wheelsmith.wheel.gpu.scan import read_gpu_code
