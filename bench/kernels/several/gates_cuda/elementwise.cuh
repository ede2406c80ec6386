#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAGuard.h>

namespace gates {

constexpr int kThreads = 256;
constexpr int64_t kMostBlocks = 1 << 16;

template <typename Scalar, typename Function>
__global__ void map_elements(const Scalar *__restrict__ from, Scalar *__restrict__ to, int64_t elements) {
  const Function function;
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < elements; i += step) {
    to[i] = static_cast<Scalar>(function(static_cast<float>(from[i])));
  }
}

template <typename Scalar, typename Function>
void launch(at::Tensor &output, const at::Tensor &input) {
  const int64_t elements = input.numel(), wanted = (elements + kThreads - 1) / kThreads;
  const auto blocks = static_cast<unsigned>(wanted < kMostBlocks ? wanted : kMostBlocks);
  map_elements<Scalar, Function><<<blocks, kThreads, 0, at::cuda::getCurrentCUDAStream()>>>(
      input.const_data_ptr<Scalar>(), output.mutable_data_ptr<Scalar>(), elements);
}

// Function is a type whose call operator takes and gives a float, on the device.
template <typename Function>
void elementwise(at::Tensor &output, const at::Tensor &input, const char *name) {
  TORCH_CHECK(input.is_contiguous() && output.is_contiguous(), name, ": tensors must be contiguous");
  TORCH_CHECK(output.sizes() == input.sizes() && output.scalar_type() == input.scalar_type() &&
                  output.device() == input.device(),
              name, ": the output must have the input's shape, type and device");
  if (input.numel() == 0) return;
  const c10::cuda::CUDAGuard guard(input.device());
  switch (input.scalar_type()) {
    case at::kFloat: launch<float, Function>(output, input); break;
    case at::kHalf: launch<c10::Half, Function>(output, input); break;
    case at::kBFloat16: launch<c10::BFloat16, Function>(output, input); break;
    default: TORCH_CHECK(false, name, ": float32, float16 or bfloat16, not ", input.scalar_type());
  }
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

}  // namespace gates
