#include <tvm/ffi/tvm_ffi.h>

#ifdef CUDA_KERNEL
void twice_cuda(tvm::ffi::TensorView out, tvm::ffi::TensorView in);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(twice, twice_cuda);
#else
void twice_cpu(tvm::ffi::TensorView out, tvm::ffi::TensorView in);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(twice, twice_cpu);
#endif
