#pragma once
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

torch::stable::Tensor affine_cpu(torch::stable::Tensor x, double scale, double shift);
torch::stable::Tensor affine_cuda(torch::stable::Tensor x, double scale, double shift);
