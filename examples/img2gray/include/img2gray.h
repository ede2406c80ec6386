// What the binding calls. No torch here: a source without torch's headers compiles in a second instead of a minute,
// and its object serves every torch release.
#pragma once

#include <cstdint>

namespace img2gray {

// Luma of ITU-R BT.601: 0.299 R + 0.587 G + 0.114 B.
constexpr float kRed = 0.299f, kGreen = 0.587f, kBlue = 0.114f;

// In thousandths the sum is exact, so bytes are rounded to nearest without an error of arithmetic.
constexpr uint32_t kRedThousandths = 299, kGreenThousandths = 587, kBlueThousandths = 114;

// Each reads `pixels` triples from `rgb` and writes as many values to `gray`.
void gray_cpu(const uint8_t *rgb, uint8_t *gray, int64_t pixels);
void gray_cpu(const float *rgb, float *gray, int64_t pixels);

// The same on the device; `stream` is a cudaStream_t. Gives a cudaError_t, 0 for none.
int gray_cuda(const uint8_t *rgb, uint8_t *gray, int64_t pixels, void *stream);
int gray_cuda(const float *rgb, float *gray, int64_t pixels, void *stream);
const char *cuda_error_text(int error);

}  // namespace img2gray
