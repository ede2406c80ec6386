#pragma once

#include <ATen/core/Tensor.h>

// Each writes its function of every element of input to output, which has input's shape and type.
void gelu(at::Tensor &output, const at::Tensor &input);
void relu_squared(at::Tensor &output, const at::Tensor &input);
void silu(at::Tensor &output, const at::Tensor &input);
void softplus(at::Tensor &output, const at::Tensor &input);
