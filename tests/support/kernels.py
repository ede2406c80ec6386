"""Small kernels to build and to break."""

from __future__ import annotations

import shutil
from pathlib import Path

BUILD_TOML = """\
[general]
name = "tiny"
version = 1
edition = 5
license = "Apache-2.0"
backends = ["cpu", "cuda"]

[torch]
src = ["torch-ext/binding.cpp"]

[kernel.tiny]
backend = "cpu"
depends = []
src = ["tiny.cpp"]
"""

NOARCH_TOML = """\
[general]
name = "pure"
version = 1
edition = 5
license = "Apache-2.0"
backends = ["cpu", "cuda"]

[torch-noarch]
"""


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def tiny_kernel(root: Path, **changes: str) -> Path:
    """A kernel without torch headers, which compiles in a blink."""
    files = {
        "build.toml": BUILD_TOML,
        "tiny.cpp": '#include <cstdio>\nint tiny_answer() { return std::puts("42"); }\n',
        "torch-ext/binding.cpp": '#include "registration.h"\nREGISTER_EXTENSION(TORCH_EXTENSION_NAME)\n',
        "torch-ext/tiny/__init__.py": "",
        "README.md": "# tiny\n",
    }
    return write(root, files | changes)


def pure_kernel(root: Path, **changes: str) -> Path:
    """A kernel with nothing compiled."""
    files = {"build.toml": NOARCH_TOML, "torch-ext/pure/__init__.py": "VALUE = 1\n", "README.md": "# pure\n"}
    return write(root, files | changes)


def matrix(root: Path, kernel: str, *, torch: str = "2.13", cuda: str = "cpu", more: str = "") -> Path:
    """A matrix.yaml beside the kernel."""
    path = root / "matrix.yaml"
    path.write_text(f"kernel: {{path: {kernel}}}\naxes: {{torch: [{torch}], cuda: [{cuda}]}}\n{more}")
    return path


CUDA_TOML = """\
[general]
name = "tiny"
version = 1
edition = 5
license = "Apache-2.0"
backends = ["cuda"]

[torch]
src = ["torch-ext/binding.cpp"]

[kernel.tiny]
backend = "cuda"
depends = []
src = ["add.cu", "scale.cu"]
"""

DEVICE = """\
#include <cuda_fp16.h>
__global__ void {name}_kernel(__half *x, int n) {{
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] = {expression};
}}
void {name}(void *x, int n) {{ {name}_kernel<<<(n + 255) / 256, 256>>>(static_cast<__half *>(x), n); }}
"""


def cuda_kernel(root: Path, **changes: str) -> Path:
    """A kernel of two .cu files without torch headers."""
    files = {
        "build.toml": CUDA_TOML,
        "add.cu": DEVICE.format(name="add", expression="x[i] + __float2half(1.0f)"),
        "scale.cu": DEVICE.format(name="scale", expression="x[i] * __float2half(2.0f)"),
        "torch-ext/binding.cpp": '#include "registration.h"\nREGISTER_EXTENSION(TORCH_EXTENSION_NAME)\n',
        "torch-ext/tiny/__init__.py": "",
        "README.md": "# tiny\n",
    }
    return write(root, files | changes)


GALLERY = Path(__file__).parent.parent.parent / "examples" / "gallery"
STABLE = GALLERY / "stable-abi" / "affine"
STABLE_TOML = (STABLE / "build.toml").read_text()
TVM = GALLERY / "tvm-ffi" / "twice"
TVM_TOML = (TVM / "build.toml").read_text()
TVM_CUDA = (TVM / "twice.cu").read_text()


def stable_kernel(root: Path) -> Path:
    """A kernel in torch's stable ABI, whose CUDA variant has a CPU operator too."""
    return copy(STABLE, root)


def tvm_kernel(root: Path, **changes: str) -> Path:
    """A kernel for tvm-ffi: what it is given, twice."""
    return write(copy(TVM, root), changes)


def copy(kernel: Path, root: Path) -> Path:
    return shutil.copytree(kernel, root, ignore=shutil.ignore_patterns("__pycache__"))
