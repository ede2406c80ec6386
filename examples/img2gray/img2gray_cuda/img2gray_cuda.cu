// Both kernels are bound by memory: four pixels a thread make every access a whole word of 4 or 16 bytes.

#include "img2gray.h"

#include <cuda_runtime.h>

namespace img2gray {
namespace {

constexpr int kThreads = 256;
constexpr int kPixelsPerThread = 4;

__device__ __forceinline__ uint8_t luma(uint8_t r, uint8_t g, uint8_t b) {
  return static_cast<uint8_t>((kRedThousandths * r + kGreenThousandths * g + kBlueThousandths * b + 500) / 1000);
}

__device__ __forceinline__ float luma(float r, float g, float b) { return kRed * r + kGreen * g + kBlue * b; }

template <typename Scalar>
struct Word;

template <>
struct Word<uint8_t> {
  using Type = uchar4;
};

template <>
struct Word<float> {
  using Type = float4;
};

// The words' count is the number of whole quadruples of pixels; what is left over is the other kernel's.
template <typename Scalar>
__global__ void gray_words(const typename Word<Scalar>::Type *__restrict__ rgb,
                           typename Word<Scalar>::Type *__restrict__ gray, int64_t words) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < words; i += step) {
    const auto a = rgb[3 * i], b = rgb[3 * i + 1], c = rgb[3 * i + 2];
    typename Word<Scalar>::Type out;
    out.x = luma(a.x, a.y, a.z);
    out.y = luma(a.w, b.x, b.y);
    out.z = luma(b.z, b.w, c.x);
    out.w = luma(c.y, c.z, c.w);
    gray[i] = out;
  }
}

template <typename Scalar>
__global__ void gray_pixels(const Scalar *__restrict__ rgb, Scalar *__restrict__ gray, int64_t pixels) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < pixels; i += step) {
    gray[i] = luma(rgb[3 * i], rgb[3 * i + 1], rgb[3 * i + 2]);
  }
}

// The largest grid; the kernels' loops do the rest.
unsigned blocks(int64_t work) {
  const int64_t wanted = (work + kThreads - 1) / kThreads;
  return static_cast<unsigned>(wanted < (1 << 20) ? wanted : (1 << 20));
}

template <typename Scalar>
int launch(const Scalar *rgb, Scalar *gray, int64_t pixels, void *stream) {
  using W = typename Word<Scalar>::Type;
  const auto on = static_cast<cudaStream_t>(stream);
  const auto aligned = [](const void *p) { return reinterpret_cast<uintptr_t>(p) % alignof(W) == 0; };
  const int64_t words = aligned(rgb) && aligned(gray) ? pixels / kPixelsPerThread : 0;
  if (words > 0) {
    gray_words<Scalar><<<blocks(words), kThreads, 0, on>>>(reinterpret_cast<const W *>(rgb),
                                                           reinterpret_cast<W *>(gray), words);
  }
  const int64_t done = words * kPixelsPerThread, left = pixels - done;
  if (left > 0) {
    gray_pixels<Scalar><<<blocks(left), kThreads, 0, on>>>(rgb + 3 * done, gray + done, left);
  }
  return static_cast<int>(cudaGetLastError());
}

}  // namespace

int gray_cuda(const uint8_t *rgb, uint8_t *gray, int64_t pixels, void *stream) {
  return launch(rgb, gray, pixels, stream);
}

int gray_cuda(const float *rgb, float *gray, int64_t pixels, void *stream) {
  return launch(rgb, gray, pixels, stream);
}

const char *cuda_error_text(int error) { return cudaGetErrorString(static_cast<cudaError_t>(error)); }

}  // namespace img2gray
