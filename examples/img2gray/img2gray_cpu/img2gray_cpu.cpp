#include "img2gray.h"

namespace img2gray {

void gray_cpu(const uint8_t *rgb, uint8_t *gray, int64_t pixels) {
  for (int64_t i = 0; i < pixels; ++i) {
    const uint32_t sum =
        kRedThousandths * rgb[3 * i] + kGreenThousandths * rgb[3 * i + 1] + kBlueThousandths * rgb[3 * i + 2];
    gray[i] = static_cast<uint8_t>((sum + 500) / 1000);
  }
}

void gray_cpu(const float *rgb, float *gray, int64_t pixels) {
  for (int64_t i = 0; i < pixels; ++i) {
    gray[i] = kRed * rgb[3 * i] + kGreen * rgb[3 * i + 1] + kBlue * rgb[3 * i + 2];
  }
}

}  // namespace img2gray
