#include <torch/all.h>
#include <torch/library.h>

#include "registration.h"
#include "rms_norm.h"

TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, ops) {
  ops.def("rms_norm(Tensor input, Tensor weight, float epsilon) -> Tensor");
  ops.impl("rms_norm", torch::kCUDA, &rms_norm);
}

REGISTER_EXTENSION(TORCH_EXTENSION_NAME)
