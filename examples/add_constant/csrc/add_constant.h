#pragma once

#include <torch/extension.h>

// `input + constant`, into a new tensor.
torch::Tensor add_constant_cuda(const torch::Tensor &input, double constant);
