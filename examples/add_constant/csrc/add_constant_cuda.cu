#include "add_constant.h"

#include <ATen/Dispatch.h>
#include <ATen/OpMathType.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>

namespace {

constexpr int64_t threads = 256;
// A grid-stride loop needs no more blocks than fill the largest GPU.
constexpr int64_t most_blocks = 4096;

template <typename scalar_t, typename math_t>
__global__ void add_kernel(const scalar_t *input, scalar_t *output, math_t constant, int64_t size) {
  for (int64_t i = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x; i < size;
       i += static_cast<int64_t>(gridDim.x) * blockDim.x) {
    output[i] = static_cast<scalar_t>(static_cast<math_t>(input[i]) + constant);
  }
}

} // namespace

torch::Tensor add_constant_cuda(const torch::Tensor &input, double constant) {
  const c10::cuda::CUDAGuard guard(input.device());
  torch::Tensor output = torch::empty_like(input);
  const int64_t size = input.numel();
  if (size == 0) {
    return output;
  }
  const int64_t blocks = std::min((size + threads - 1) / threads, most_blocks);
  AT_DISPATCH_FLOATING_TYPES_AND2(
      at::ScalarType::Half, at::ScalarType::BFloat16, input.scalar_type(), "add_constant", [&] {
        // Half and bfloat16 are added as float, as torch does it.
        using math_t = at::opmath_type<scalar_t>;
        add_kernel<scalar_t, math_t><<<blocks, threads, 0, at::cuda::getCurrentCUDAStream()>>>(
            input.data_ptr<scalar_t>(), output.data_ptr<scalar_t>(), static_cast<math_t>(constant), size);
      });
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return output;
}
