#include "swiglu.h"
#include "swiglu_math.h"

namespace swiglu {
namespace {

constexpr unsigned kThreads = 256;

__global__ void forward_kernel(const float *gate, const float *up, float *y, size_t n) {
  const size_t i = blockIdx.x * static_cast<size_t>(blockDim.x) + threadIdx.x;
  if (i < n) y[i] = forward(gate[i], up[i]);
}

__global__ void backward_kernel(const float *gate, const float *up, const float *dy, float *dgate, float *dup,
                                size_t n) {
  const size_t i = blockIdx.x * static_cast<size_t>(blockDim.x) + threadIdx.x;
  if (i < n) backward(gate[i], up[i], dy[i], dgate[i], dup[i]);
}

unsigned blocks(size_t n) { return static_cast<unsigned>((n + kThreads - 1) / kThreads); }

const char *error_text() {
  const cudaError_t error = cudaGetLastError();
  return error == cudaSuccess ? nullptr : cudaGetErrorString(error);
}

}  // namespace

const char *forward_cuda(const float *gate, const float *up, float *y, size_t n, void *stream) {
  if (n == 0) return nullptr;
  forward_kernel<<<blocks(n), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(gate, up, y, n);
  return error_text();
}

const char *backward_cuda(const float *gate, const float *up, const float *dy, float *dgate, float *dup, size_t n,
                          void *stream) {
  if (n == 0) return nullptr;
  backward_kernel<<<blocks(n), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(gate, up, dy, dgate, dup, n);
  return error_text();
}

}  // namespace swiglu
