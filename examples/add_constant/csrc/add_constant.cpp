#include "add_constant.h"

#include <atomic>
#include <cmath>

namespace {

// Handed to the kernel as an argument. A __constant__ variable would be one per device, and a copy into it would race
// with the kernels that still read it.
std::atomic<double> constant{1.0};

void set_constant(double value) {
  TORCH_CHECK_VALUE(std::isfinite(value), "the constant must be finite, not ", value);
  constant = value;
}

double get_constant() { return constant; }

torch::Tensor add(const torch::Tensor &input) {
  TORCH_CHECK_TYPE(input.is_floating_point(), "add_constant.add takes a floating-point tensor, not ", input.scalar_type());
  if (input.is_cuda()) {
#ifdef USE_CUDA
    return add_constant_cuda(input.contiguous(), constant);
#else
    TORCH_CHECK(false, "this add-constant was built for the CPU: install one whose version says +cu…");
#endif
  }
  TORCH_CHECK(input.is_cpu(), "add_constant.add has no code for device ", input.device());
  return input + constant.load();
}

} // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("add", &add, "Add the constant to a floating-point tensor", py::arg("input"));
  m.def("set_constant", &set_constant, "Change the constant, for every later call", py::arg("value"));
  m.def("get_constant", &get_constant, "Give the constant");
}
