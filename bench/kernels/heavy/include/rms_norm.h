#pragma once

#include <torch/all.h>

// Divides each row by the root of its mean square and multiplies it by weight.
torch::Tensor rms_norm(const torch::Tensor &input, const torch::Tensor &weight, double epsilon);
