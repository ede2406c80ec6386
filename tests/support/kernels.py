"""Small kernels to build and to break."""

from __future__ import annotations

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


STABLE_TOML = """\
[general]
name = "affine"
version = 1
edition = 5
license = "Apache-2.0"
backends = ["cpu", "cuda"]

[torch]
src = ["torch-ext/binding.cpp"]
stable-abi = "2.10"

[kernel.host]
backend = "cpu"
depends = ["torch"]
src = ["affine.h", "host.cpp"]

[kernel.device]
backend = "cuda"
depends = ["torch"]
src = ["affine.h", "host.cpp", "device.cu"]
"""

STABLE_HEADER = """\
#pragma once
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

torch::stable::Tensor affine_cpu(torch::stable::Tensor x, double scale, double shift);
torch::stable::Tensor affine_cuda(torch::stable::Tensor x, double scale, double shift);
"""

STABLE_HOST = """\
#include "affine.h"

torch::stable::Tensor affine_cpu(torch::stable::Tensor x, double scale, double shift) {
  auto in = torch::stable::contiguous(x);
  auto out = torch::stable::empty_like(in);
  auto from = static_cast<const float *>(in.data_ptr());
  auto to = static_cast<float *>(out.data_ptr());
  for (int64_t i = 0; i < in.numel(); ++i) to[i] = from[i] * float(scale) + float(shift);
  return out;
}
"""

STABLE_DEVICE = """\
#include <cuda_runtime.h>
#include "affine.h"

__global__ void affine_kernel(const float *from, float *to, float scale, float shift, int64_t count) {
  int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
  if (i < count) to[i] = from[i] * scale + shift;
}

torch::stable::Tensor affine_cuda(torch::stable::Tensor x, double scale, double shift) {
  auto in = torch::stable::contiguous(x);
  auto out = torch::stable::empty_like(in);
  if (in.numel() == 0) return out;
  void *stream = nullptr;
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_current_cuda_stream(in.get_device(), &stream));
  affine_kernel<<<(in.numel() + 255) / 256, 256, 0, static_cast<cudaStream_t>(stream)>>>(
      static_cast<const float *>(in.data_ptr()), static_cast<float *>(out.data_ptr()), scale, shift, in.numel());
  return out;
}
"""

# STABLE_TORCH_LIBRARY of torch 2.10 does not expand the name that it is given; registration.h's macros do.
STABLE_BINDING = """\
#include <torch/csrc/stable/library.h>
#include "../affine.h"
#include "registration.h"

STABLE_TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, m) {
  m.def("affine(Tensor x, float scale, float shift) -> Tensor");
}

STABLE_TORCH_LIBRARY_IMPL_EXPAND(TORCH_EXTENSION_NAME, CPU, m) { m.impl("affine", TORCH_BOX(&affine_cpu)); }

#ifdef CUDA_KERNEL
STABLE_TORCH_LIBRARY_IMPL_EXPAND(TORCH_EXTENSION_NAME, CUDA, m) { m.impl("affine", TORCH_BOX(&affine_cuda)); }
#endif

REGISTER_EXTENSION(TORCH_EXTENSION_NAME)
"""

STABLE_PACKAGE = """\
from ._ops import ops


def affine(x, scale, shift):
    return ops.affine(x, scale, shift)
"""


def stable_kernel(root: Path) -> Path:
    """A kernel in torch's stable ABI, whose CUDA variant has a CPU operator too."""
    return write(
        root,
        {
            "build.toml": STABLE_TOML,
            "affine.h": STABLE_HEADER,
            "host.cpp": STABLE_HOST,
            "device.cu": STABLE_DEVICE,
            "torch-ext/binding.cpp": STABLE_BINDING,
            "torch-ext/affine/__init__.py": STABLE_PACKAGE,
        },
    )


TVM_TOML = """\
[general]
name = "twice"
version = 1
edition = 5
license = "Apache-2.0"
backends = ["cpu", "cuda"]

[tvm-ffi]
src = ["tvm-ffi-ext/binding.cpp"]

[kernel.twice_cpu]
backend = "cpu"
depends = []
src = ["twice.cpp"]

[kernel.twice_cuda]
backend = "cuda"
depends = []
src = ["twice.cu"]
"""
TVM_BINDING = """\
#include <tvm/ffi/tvm_ffi.h>

#ifdef CUDA_KERNEL
void twice_cuda(tvm::ffi::TensorView out, tvm::ffi::TensorView in);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(twice, twice_cuda);
#else
void twice_cpu(tvm::ffi::TensorView out, tvm::ffi::TensorView in);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(twice, twice_cpu);
#endif
"""
TVM_CPU = """\
#include <tvm/ffi/tvm_ffi.h>

void twice_cpu(tvm::ffi::TensorView out, tvm::ffi::TensorView in) {
  TVM_FFI_CHECK(in.numel() == out.numel(), ValueError) << "two lengths";
  for (int64_t i = 0; i < in.numel(); ++i)
    static_cast<float *>(out.data_ptr())[i] = 2.0f * static_cast<float const *>(in.data_ptr())[i];
}
"""
TVM_CUDA = """\
#include <tvm/ffi/tvm_ffi.h>
#include <tvm/ffi/extra/c_env_api.h>

__global__ void twice_kernel(float *out, float const *in, int64_t n) {
  int64_t i = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x;
  if (i < n) out[i] = 2.0f * in[i];
}

void twice_cuda(tvm::ffi::TensorView out, tvm::ffi::TensorView in) {
  DLDevice on = in.device();
  auto stream = static_cast<cudaStream_t>(TVMFFIEnvGetStream(on.device_type, on.device_id));
  twice_kernel<<<(in.numel() + 255) / 256, 256, 0, stream>>>(
      static_cast<float *>(out.data_ptr()), static_cast<float const *>(in.data_ptr()), in.numel());
}
"""


def tvm_kernel(root: Path, **changes: str) -> Path:
    """A kernel for tvm-ffi: what it is given, twice."""
    files = {
        "build.toml": TVM_TOML,
        "tvm-ffi-ext/binding.cpp": TVM_BINDING,
        "tvm-ffi-ext/twice/__init__.py": "from ._ops import ops\n\ntwice = ops.twice\n",
        "twice.cpp": TVM_CPU,
        "twice.cu": TVM_CUDA,
    }
    return write(root, files | changes)
