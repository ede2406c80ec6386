// The operator's registration. Narrow headers: torch/all.h would make this file the slowest of the kernel.
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>

#if defined(CUDA_KERNEL)
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#endif

#include "img2gray.h"
#include "registration.h"

namespace {

template <typename Scalar>
void run(const at::Tensor &rgb, at::Tensor &gray) {
  const auto *from = rgb.const_data_ptr<Scalar>();
  auto *to = gray.mutable_data_ptr<Scalar>();
#if defined(CUDA_KERNEL)
  const int error = img2gray::gray_cuda(from, to, gray.numel(), c10::cuda::getCurrentCUDAStream().stream());
  TORCH_CHECK(error == 0, "img2gray: ", img2gray::cuda_error_text(error));
#else
  img2gray::gray_cpu(from, to, gray.numel());
#endif
}

at::Tensor img2gray_op(const at::Tensor &image) {
  TORCH_CHECK(image.dim() >= 1 && image.size(-1) == 3, "img2gray: the last dimension must hold R, G and B, not ",
              image.sizes());
#if defined(CUDA_KERNEL)
  const c10::cuda::CUDAGuard guard(image.device());
#endif
  const at::Tensor rgb = image.contiguous();
  at::Tensor gray = at::empty(rgb.sizes().slice(0, rgb.dim() - 1), rgb.options());
  if (gray.numel() == 0) return gray;
  switch (rgb.scalar_type()) {
    case at::kByte: run<uint8_t>(rgb, gray); break;
    case at::kFloat: run<float>(rgb, gray); break;
    default: TORCH_CHECK(false, "img2gray: uint8 or float32, not ", rgb.scalar_type());
  }
  return gray;
}

}  // namespace

TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, ops) {
  ops.def("img2gray(Tensor image) -> Tensor");
#if defined(CUDA_KERNEL)
  ops.impl("img2gray", c10::DispatchKey::CUDA, &img2gray_op);
#else
  ops.impl("img2gray", c10::DispatchKey::CPU, &img2gray_op);
#endif
}

REGISTER_EXTENSION(TORCH_EXTENSION_NAME)
