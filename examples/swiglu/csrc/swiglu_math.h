// The formulas for one number, on a CPU and on a GPU.
#pragma once

#ifdef __CUDACC__
#define SWIGLU_DEVICE __host__ __device__
#else
#include <cmath>
#define SWIGLU_DEVICE
#endif

namespace swiglu {

SWIGLU_DEVICE inline float forward(float gate, float up) { return gate / (1.0f + expf(-gate)) * up; }

SWIGLU_DEVICE inline void backward(float gate, float up, float dy, float &dgate, float &dup) {
  const float sigmoid = 1.0f / (1.0f + expf(-gate));
  dgate = dy * up * sigmoid * (1.0f + gate * (1.0f - sigmoid));
  dup = dy * gate * sigmoid;
}

}  // namespace swiglu
