"""Compare the img2gray operator of the wheel with the same source built by torch's cpp_extension.

    python bench/gpu_speed.py            needs a CUDA GPU, torch, nvcc, and the img2gray wheel installed

The script alternates between the two and prints both times and their ratio for each image. Above 1, the wheel is
faster.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from pathlib import Path

import img2gray as installed
import torch
from torch.utils.cpp_extension import load

ROOT = Path(__file__).resolve().parent.parent
EXAMPLE = ROOT / "examples" / "img2gray"
IMAGES = [
    ("uint8, 64 megapixels", torch.uint8, (8192, 8192, 3)),
    ("float32, 64 megapixels", torch.float32, (8192, 8192, 3)),
    ("uint8, 1080p", torch.uint8, (1080, 1920, 3)),
    ("float32, 1080p", torch.float32, (1080, 1920, 3)),
]
ROUNDS, CALLS = 30, 50


def build_the_usual_way() -> torch._ops.OpOverloadPacket:
    """Compile the example with torch's cpp_extension and return its operator."""
    sys.path.insert(0, str(ROOT))
    from wheelsmith.frameworks.torch import REGISTRATION

    headers = Path(tempfile.mkdtemp())
    (headers / "registration.h").write_text(REGISTRATION)
    sources = ["torch-ext/torch_binding.cpp", "img2gray_cuda/img2gray_cuda.cu"]
    load(
        name="img2gray_usual",
        sources=[str(EXAMPLE / source) for source in sources],
        extra_include_paths=[str(headers), str(EXAMPLE / "include")],
        extra_cflags=["-O3", "-DCUDA_KERNEL"],
        extra_cuda_cflags=["-O3"],
        is_python_module=False,
    )
    return torch.ops.img2gray_usual.img2gray


def seconds(op, image: torch.Tensor) -> float:
    """Measure a round of calls and return the seconds for each call."""
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    for _ in range(CALLS):
        op(image)
    end.record()
    end.synchronize()
    return start.elapsed_time(end) / 1000 / CALLS


def main() -> None:
    """Measure every image and print the results."""
    usual, ours = build_the_usual_way(), installed._ops.ops.img2gray
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}")
    for name, dtype, size in IMAGES:
        image = (torch.rand(size, device="cuda") * 255).to(dtype)
        assert torch.equal(usual(image), ours(image))
        for op in (usual, ours):
            seconds(op, image)
        times = {"usual": [], "ours": []}
        for _ in range(ROUNDS):
            times["usual"].append(seconds(usual, image))
            times["ours"].append(seconds(ours, image))
        a, b = statistics.median(times["usual"]), statistics.median(times["ours"])
        moved = image.numel() * image.element_size() * 4 / 3
        print(
            f"{name:24} usual {a * 1e6:8.2f} us  ours {b * 1e6:8.2f} us  ratio {a / b:.3f}  {moved / b / 1e12:.2f} TB/s"
        )


if __name__ == "__main__":
    main()
