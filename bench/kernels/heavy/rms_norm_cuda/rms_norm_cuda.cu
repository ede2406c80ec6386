// Includes all of torch, as many kernels do: the headers, not the code, are what its compilation costs.

#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAGuard.h>
#include <torch/all.h>

#include "rms_norm.h"

namespace {

constexpr int kThreads = 256;
constexpr int kWarp = 32;
constexpr unsigned kAllLanes = 0xffffffffu;

__device__ float sum_of_block(float value) {
  __shared__ float sums[kThreads / kWarp];
  for (int offset = kWarp / 2; offset > 0; offset /= 2) value += __shfl_down_sync(kAllLanes, value, offset);
  if (threadIdx.x % kWarp == 0) sums[threadIdx.x / kWarp] = value;
  __syncthreads();
  float total = 0.0f;
  for (float sum : sums) total += sum;
  return total;
}

// One block a row.
template <typename Scalar>
__global__ void rms_norm_rows(const Scalar *__restrict__ input, const Scalar *__restrict__ weight,
                              Scalar *__restrict__ output, int64_t columns, float epsilon) {
  const Scalar *from = input + blockIdx.x * columns;
  Scalar *to = output + blockIdx.x * columns;
  float squares = 0.0f;
  for (int64_t i = threadIdx.x; i < columns; i += blockDim.x) {
    const float x = static_cast<float>(from[i]);
    squares += x * x;
  }
  const float scale = rsqrtf(sum_of_block(squares) / static_cast<float>(columns) + epsilon);
  for (int64_t i = threadIdx.x; i < columns; i += blockDim.x) {
    to[i] = static_cast<Scalar>(static_cast<float>(from[i]) * scale * static_cast<float>(weight[i]));
  }
}

}  // namespace

torch::Tensor rms_norm(const torch::Tensor &input, const torch::Tensor &weight, double epsilon) {
  TORCH_CHECK(input.dim() > 0 && input.is_contiguous() && weight.is_contiguous(), "rms_norm: rows, and contiguous");
  TORCH_CHECK(weight.dim() == 1 && weight.size(0) == input.size(-1), "rms_norm: a weight for each column");
  TORCH_CHECK(weight.device() == input.device() && weight.scalar_type() == input.scalar_type(),
              "rms_norm: a weight of the input's own device and type");
  const c10::cuda::CUDAGuard guard(input.device());
  torch::Tensor output = torch::empty_like(input);
  if (input.numel() == 0) return output;
  const int64_t columns = input.size(-1);
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, input.scalar_type(), "rms_norm", [&] {
    rms_norm_rows<scalar_t>
        <<<static_cast<unsigned>(input.numel() / columns), kThreads, 0, at::cuda::getCurrentCUDAStream()>>>(
            input.const_data_ptr<scalar_t>(), weight.const_data_ptr<scalar_t>(), output.mutable_data_ptr<scalar_t>(),
            columns, static_cast<float>(epsilon));
  });
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return output;
}
