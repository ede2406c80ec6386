#include "swiglu.h"
#include "swiglu_math.h"

namespace swiglu {

void forward_cpu(const float *gate, const float *up, float *y, size_t n) {
  for (size_t i = 0; i < n; ++i) y[i] = forward(gate[i], up[i]);
}

void backward_cpu(const float *gate, const float *up, const float *dy, float *dgate, float *dup, size_t n) {
  for (size_t i = 0; i < n; ++i) backward(gate[i], up[i], dy[i], dgate[i], dup[i]);
}

}  // namespace swiglu
