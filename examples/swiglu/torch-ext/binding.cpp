#include <ATen/core/Tensor.h>
#include <ATen/ops/empty_like.h>
#include <torch/library.h>

#include <tuple>

#if defined(CUDA_KERNEL)
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#endif

#include "registration.h"
#include "swiglu.h"

namespace {

void check(const at::Tensor &gate, const at::Tensor &other) {
  TORCH_CHECK(gate.scalar_type() == at::kFloat && other.scalar_type() == at::kFloat, "swiglu: float32 only");
  TORCH_CHECK(gate.sizes() == other.sizes(), "swiglu: ", gate.sizes(), " and ", other.sizes(), " differ");
  TORCH_CHECK(gate.is_contiguous() && other.is_contiguous(), "swiglu: the tensors must be contiguous");
}

at::Tensor forward(const at::Tensor &gate, const at::Tensor &up) {
  check(gate, up);
  at::Tensor y = at::empty_like(gate);
  const auto *g = gate.const_data_ptr<float>(), *u = up.const_data_ptr<float>();
#if defined(CUDA_KERNEL)
  const c10::cuda::CUDAGuard guard(gate.device());
  const char *error = swiglu::forward_cuda(g, u, y.mutable_data_ptr<float>(), gate.numel(),
                                           c10::cuda::getCurrentCUDAStream().stream());
  TORCH_CHECK(error == nullptr, "swiglu: ", error);
#else
  swiglu::forward_cpu(g, u, y.mutable_data_ptr<float>(), gate.numel());
#endif
  return y;
}

std::tuple<at::Tensor, at::Tensor> backward(const at::Tensor &gate, const at::Tensor &up, const at::Tensor &dy) {
  check(gate, up);
  check(gate, dy);
  at::Tensor dgate = at::empty_like(gate), dup = at::empty_like(gate);
  const auto *g = gate.const_data_ptr<float>(), *u = up.const_data_ptr<float>(), *d = dy.const_data_ptr<float>();
  auto *out_gate = dgate.mutable_data_ptr<float>(), *out_up = dup.mutable_data_ptr<float>();
#if defined(CUDA_KERNEL)
  const c10::cuda::CUDAGuard guard(gate.device());
  const char *error = swiglu::backward_cuda(g, u, d, out_gate, out_up, gate.numel(),
                                            c10::cuda::getCurrentCUDAStream().stream());
  TORCH_CHECK(error == nullptr, "swiglu: ", error);
#else
  swiglu::backward_cpu(g, u, d, out_gate, out_up, gate.numel());
#endif
  return {dgate, dup};
}

}  // namespace

TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, ops) {
  ops.def("swiglu(Tensor gate, Tensor up) -> Tensor");
  ops.def("swiglu_backward(Tensor gate, Tensor up, Tensor dy) -> (Tensor, Tensor)");
#if defined(CUDA_KERNEL)
  ops.impl("swiglu", c10::DispatchKey::CUDA, &forward);
  ops.impl("swiglu_backward", c10::DispatchKey::CUDA, &backward);
#else
  ops.impl("swiglu", c10::DispatchKey::CPU, &forward);
  ops.impl("swiglu_backward", c10::DispatchKey::CPU, &backward);
#endif
}

REGISTER_EXTENSION(TORCH_EXTENSION_NAME)
