// MindSpore passes the inputs, then the outputs, with their dimensions and types. 0 means success.
#include <cstdint>
#include <cstring>

#include "swiglu.h"

namespace {

bool all_float32(int count, const char **types) {
  for (int i = 0; i < count; ++i)
    if (std::strcmp(types[i], "float32") != 0) return false;
  return true;
}

bool same_shape(int count, const int *ranks, int64_t **shapes) {
  for (int i = 1; i < count; ++i) {
    if (ranks[i] != ranks[0]) return false;
    for (int axis = 0; axis < ranks[0]; ++axis)
      if (shapes[i][axis] != shapes[0][axis]) return false;
  }
  return true;
}

size_t elements(int rank, const int64_t *shape) {
  size_t n = 1;
  for (int axis = 0; axis < rank; ++axis) n *= static_cast<size_t>(shape[axis]);
  return n;
}

float *numbers(void *data) { return static_cast<float *>(data); }

}  // namespace

extern "C" int SwigluForward(int count, void **data, int *ranks, int64_t **shapes, const char **types, void *, void *) {
  if (count != 3) return 1;
  if (!all_float32(count, types)) return 2;
  if (!same_shape(count, ranks, shapes)) return 3;
  swiglu::forward_cpu(numbers(data[0]), numbers(data[1]), numbers(data[2]), elements(ranks[0], shapes[0]));
  return 0;
}

extern "C" int SwigluBackward(int count, void **data, int *ranks, int64_t **shapes, const char **types, void *,
                              void *) {
  if (count != 5) return 1;
  if (!all_float32(count, types)) return 2;
  if (!same_shape(count, ranks, shapes)) return 3;
  swiglu::backward_cpu(numbers(data[0]), numbers(data[1]), numbers(data[2]), numbers(data[3]), numbers(data[4]),
                       elements(ranks[0], shapes[0]));
  return 0;
}
