// The operator of TensorFlow's guide: everything but the first number becomes zero.
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace tf = tensorflow;

REGISTER_OP("ZeroOut").Input("x: int32").Output("y: int32").SetShapeFn([](tf::shape_inference::InferenceContext *c) {
  c->set_output(0, c->input(0));
  return absl::OkStatus();
});

class ZeroOutOp : public tf::OpKernel {
 public:
  using tf::OpKernel::OpKernel;
  void Compute(tf::OpKernelContext *ctx) override {
    const tf::Tensor &x = ctx->input(0);
    tf::Tensor *y = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, x.shape(), &y));
    auto out = y->flat<int32_t>();
    out.setZero();
    if (out.size()) out(0) = x.flat<int32_t>()(0);
  }
};

REGISTER_KERNEL_BUILDER(Name("ZeroOut").Device(tf::DEVICE_CPU), ZeroOutOp);
