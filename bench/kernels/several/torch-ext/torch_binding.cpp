#include <torch/library.h>

#include "gates.h"
#include "registration.h"

TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, ops) {
  ops.def("gelu(Tensor! output, Tensor input) -> ()");
  ops.def("relu_squared(Tensor! output, Tensor input) -> ()");
  ops.def("silu(Tensor! output, Tensor input) -> ()");
  ops.def("softplus(Tensor! output, Tensor input) -> ()");
  ops.impl("gelu", c10::DispatchKey::CUDA, &gelu);
  ops.impl("relu_squared", c10::DispatchKey::CUDA, &relu_squared);
  ops.impl("silu", c10::DispatchKey::CUDA, &silu);
  ops.impl("softplus", c10::DispatchKey::CUDA, &softplus);
}

REGISTER_EXTENSION(TORCH_EXTENSION_NAME)
