// Knows nothing of torch: raw pointers in, raw pointers out.

#include "silu.h"

#include <cuda_fp16.h>
#include <cuda_runtime.h>

namespace silu {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kMostBlocks = 1 << 16;

// Named conversions: torch's cpp_extension switches the implicit ones of half off.
__device__ float widened(float x) { return x; }
__device__ float widened(__half x) { return __half2float(x); }
__device__ void narrow(float x, float &to) { to = x; }
__device__ void narrow(float x, __half &to) { to = __float2half(x); }

template <typename T>
__global__ void silu_elements(const T *__restrict__ from, T *__restrict__ to, int64_t elements) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < elements; i += step) {
    const float x = widened(from[i]);
    narrow(x / (1.0f + expf(-x)), to[i]);
  }
}

template <typename T>
void launch(const void *from, void *to, int64_t elements, void *stream) {
  const int64_t wanted = (elements + kThreads - 1) / kThreads;
  const auto blocks = static_cast<unsigned>(wanted < kMostBlocks ? wanted : kMostBlocks);
  silu_elements<T><<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(static_cast<const T *>(from),
                                                                                static_cast<T *>(to), elements);
}

}  // namespace

int silu_cuda(const void *from, void *to, int64_t elements, Scalar scalar, void *stream) {
  if (scalar == Scalar::Float) {
    launch<float>(from, to, elements, stream);
  } else {
    launch<__half>(from, to, elements, stream);
  }
  return static_cast<int>(cudaGetLastError());
}

const char *cuda_error_text(int error) { return cudaGetErrorString(static_cast<cudaError_t>(error)); }

}  // namespace silu
