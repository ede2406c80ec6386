#include <cufft.h>
#include <cupti.h>
#include <curand.h>
#include <cusolverDn.h>
#include <nvJitLink.h>

__global__ void fill(float* to) { to[threadIdx.x] = 1.0f; }

extern "C" __attribute__((visibility("default"))) int calls(float* to) {
  fill<<<1, 4>>>(to);
  cufftHandle transform;
  curandGenerator_t generator;
  cusolverDnHandle_t solver;
  unsigned major, minor, cupti;
  return cufftPlan1d(&transform, 16, CUFFT_C2C, 1) + curandCreateGenerator(&generator, CURAND_RNG_PSEUDO_DEFAULT) +
         cusolverDnCreate(&solver) + cuptiGetVersion(&cupti) + nvJitLinkVersion(&major, &minor);
}
