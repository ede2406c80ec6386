#include "registration.h"
#include "swiglu.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace tf = tensorflow;
using tf::shape_inference::InferenceContext;
using tf::shape_inference::ShapeHandle;

REGISTER_OP(TENSORFLOW_OP_NAME("Swiglu"))
    .Input("gate: float")
    .Input("up: float")
    .Output("y: float")
    .SetShapeFn([](InferenceContext *c) {
      ShapeHandle shape;
      TF_RETURN_IF_ERROR(c->Merge(c->input(0), c->input(1), &shape));
      c->set_output(0, shape);
      return absl::OkStatus();
    });

REGISTER_OP(TENSORFLOW_OP_NAME("SwigluGrad"))
    .Input("gate: float")
    .Input("up: float")
    .Input("dy: float")
    .Output("dgate: float")
    .Output("dup: float")
    .SetShapeFn([](InferenceContext *c) {
      c->set_output(0, c->input(0));
      c->set_output(1, c->input(1));
      return absl::OkStatus();
    });

class SwigluOp : public tf::OpKernel {
 public:
  using tf::OpKernel::OpKernel;
  void Compute(tf::OpKernelContext *ctx) override {
    const tf::Tensor &gate = ctx->input(0), &up = ctx->input(1);
    OP_REQUIRES(ctx, gate.shape() == up.shape(), tf::errors::InvalidArgument("gate and up differ in shape"));
    tf::Tensor *y = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, gate.shape(), &y));
    swiglu::forward_cpu(gate.flat<float>().data(), up.flat<float>().data(), y->flat<float>().data(),
                        gate.NumElements());
  }
};

class SwigluGradOp : public tf::OpKernel {
 public:
  using tf::OpKernel::OpKernel;
  void Compute(tf::OpKernelContext *ctx) override {
    const tf::Tensor &gate = ctx->input(0), &up = ctx->input(1), &dy = ctx->input(2);
    OP_REQUIRES(ctx, gate.shape() == up.shape() && gate.shape() == dy.shape(),
                tf::errors::InvalidArgument("gate, up and dy differ in shape"));
    tf::Tensor *dgate = nullptr, *dup = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, gate.shape(), &dgate));
    OP_REQUIRES_OK(ctx, ctx->allocate_output(1, gate.shape(), &dup));
    swiglu::backward_cpu(gate.flat<float>().data(), up.flat<float>().data(), dy.flat<float>().data(),
                         dgate->flat<float>().data(), dup->flat<float>().data(), gate.NumElements());
  }
};

REGISTER_KERNEL_BUILDER(Name(TENSORFLOW_OP_NAME("Swiglu")).Device(tf::DEVICE_CPU), SwigluOp);
REGISTER_KERNEL_BUILDER(Name(TENSORFLOW_OP_NAME("SwigluGrad")).Device(tf::DEVICE_CPU), SwigluGradOp);
