// SwiGLU, y = silu(gate) * up with silu(x) = x / (1 + exp(-x)), and its gradient, for n numbers.
#pragma once

#include <cstddef>

namespace swiglu {

void forward_cpu(const float *gate, const float *up, float *y, size_t n);
void backward_cpu(const float *gate, const float *up, const float *dy, float *dgate, float *dup, size_t n);

// These return the text of CUDA's error, or a null pointer. The stream is a cudaStream_t.
const char *forward_cuda(const float *gate, const float *up, float *y, size_t n, void *stream);
const char *backward_cuda(const float *gate, const float *up, const float *dy, float *dgate, float *dup, size_t n,
                          void *stream);

}  // namespace swiglu
