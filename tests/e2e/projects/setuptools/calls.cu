#include <cublasLt.h>
#include <cublas_v2.h>
#include <cuda.h>
#include <cuda_profiler_api.h>
#include <cufft.h>
#include <cupti.h>
#include <curand.h>
#include <cusolverDn.h>
#include <cusparse.h>
#include <nvml.h>
#include <nvrtc.h>
#include <nvtx3/nvToolsExt.h>

__global__ void fill(float* to) { to[threadIdx.x] = 1.0f; }

extern "C" __attribute__((visibility("default"))) int every_library(float* a, float* b, float* c) {
  nvtxRangePushA("every_library");
  cudaProfilerStart();
  fill<<<1, 4>>>(c);
  const float one = 1.0f;
  cublasHandle_t blas;
  cublasLtHandle_t blas_lt;
  cusparseHandle_t sparse;
  cusolverDnHandle_t solver;
  curandGenerator_t generator;
  cufftHandle transform;
  uint32_t cupti;
  int major, minor, wrong = 0;
  wrong += cublasCreate(&blas) != CUBLAS_STATUS_SUCCESS;
  wrong += cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_N, 2, 2, 2, &one, a, 2, b, 2, &one, c, 2) != CUBLAS_STATUS_SUCCESS;
  wrong += cublasLtCreate(&blas_lt) != CUBLAS_STATUS_SUCCESS;
  wrong += cusparseCreate(&sparse) != CUSPARSE_STATUS_SUCCESS;
  wrong += cusolverDnCreate(&solver) != CUSOLVER_STATUS_SUCCESS;
  wrong += curandCreateGenerator(&generator, CURAND_RNG_PSEUDO_DEFAULT) != CURAND_STATUS_SUCCESS;
  wrong += cufftPlan1d(&transform, 16, CUFFT_C2C, 1) != CUFFT_SUCCESS;
  wrong += nvrtcVersion(&major, &minor) != NVRTC_SUCCESS;
  wrong += cuptiGetVersion(&cupti) != CUPTI_SUCCESS;
  wrong += nvmlInit() != NVML_SUCCESS;
  wrong += cuInit(0) != CUDA_SUCCESS;
  cudaProfilerStop();
  nvtxRangePop();
  return wrong;
}
