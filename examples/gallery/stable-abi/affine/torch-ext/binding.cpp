#include <torch/csrc/stable/library.h>
#include "../affine.h"
#include "registration.h"

STABLE_TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, m) {
  m.def("affine(Tensor x, float scale, float shift) -> Tensor");
}

STABLE_TORCH_LIBRARY_IMPL_EXPAND(TORCH_EXTENSION_NAME, CPU, m) { m.impl("affine", TORCH_BOX(&affine_cpu)); }

#ifdef CUDA_KERNEL
STABLE_TORCH_LIBRARY_IMPL_EXPAND(TORCH_EXTENSION_NAME, CUDA, m) { m.impl("affine", TORCH_BOX(&affine_cuda)); }
#endif

REGISTER_EXTENSION(TORCH_EXTENSION_NAME)
