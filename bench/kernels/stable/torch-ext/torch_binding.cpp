#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/csrc/stable/accelerator.h>
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/core/ScalarType.h>
#include <torch/headeronly/util/Exception.h>

#include "registration.h"
#include "silu.h"

namespace {

using torch::headeronly::ScalarType;
using torch::stable::Tensor;

Tensor silu_op(const Tensor input) {
  const auto type = input.scalar_type();
  STD_TORCH_CHECK(type == ScalarType::Float || type == ScalarType::Half, "silu: float32 or float16");
  STD_TORCH_CHECK(input.is_contiguous(), "silu: the input must be contiguous");
  const torch::stable::accelerator::DeviceGuard guard(input.get_device_index());
  Tensor output = torch::stable::empty_like(input);
  if (input.numel() == 0) return output;
  void *stream = nullptr;
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_current_cuda_stream(input.get_device_index(), &stream));
  const int error = silu::silu_cuda(input.data_ptr(), output.data_ptr(), input.numel(),
                                    type == ScalarType::Float ? silu::Scalar::Float : silu::Scalar::Half, stream);
  STD_TORCH_CHECK(error == 0, "silu: ", silu::cuda_error_text(error));
  return output;
}

}  // namespace

STABLE_TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, ops) { ops.def("silu(Tensor input) -> Tensor"); }

STABLE_TORCH_LIBRARY_IMPL_EXPAND(TORCH_EXTENSION_NAME, CUDA, ops) { ops.impl("silu", TORCH_BOX(&silu_op)); }

REGISTER_EXTENSION(TORCH_EXTENSION_NAME)
