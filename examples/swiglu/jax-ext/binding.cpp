#include "swiglu.h"
#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;
using In = ffi::Buffer<ffi::F32>;
using Out = ffi::ResultBuffer<ffi::F32>;

#if defined(CUDA_KERNEL)
#include <cuda_runtime_api.h>

static ffi::Error result(const char *error) { return error ? ffi::Error::Internal(error) : ffi::Error::Success(); }

static ffi::Error forward(cudaStream_t stream, In gate, In up, Out y) {
  return result(swiglu::forward_cuda(gate.typed_data(), up.typed_data(), y->typed_data(), y->element_count(), stream));
}

static ffi::Error backward(cudaStream_t stream, In gate, In up, In dy, Out dgate, Out dup) {
  return result(swiglu::backward_cuda(gate.typed_data(), up.typed_data(), dy.typed_data(), dgate->typed_data(),
                                      dup->typed_data(), dy.element_count(), stream));
}

#define BIND ffi::Ffi::Bind().Ctx<ffi::PlatformStream<cudaStream_t>>()
#else
static ffi::Error forward(In gate, In up, Out y) {
  swiglu::forward_cpu(gate.typed_data(), up.typed_data(), y->typed_data(), y->element_count());
  return ffi::Error::Success();
}

static ffi::Error backward(In gate, In up, In dy, Out dgate, Out dup) {
  swiglu::backward_cpu(gate.typed_data(), up.typed_data(), dy.typed_data(), dgate->typed_data(), dup->typed_data(),
                       dy.element_count());
  return ffi::Error::Success();
}

#define BIND ffi::Ffi::Bind()
#endif

XLA_FFI_DEFINE_HANDLER_SYMBOL(SwigluForward, forward, BIND.Arg<In>().Arg<In>().Ret<In>());
XLA_FFI_DEFINE_HANDLER_SYMBOL(SwigluBackward, backward,
                              BIND.Arg<In>().Arg<In>().Arg<In>().Ret<In>().Ret<In>());
