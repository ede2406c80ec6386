"""SwiGLU for TensorFlow."""

import tensorflow as tf

from ._ops import add_op_name_prefix, ops


@tf.RegisterGradient(add_op_name_prefix("Swiglu"))
def _backward(op, dy):
    return ops.swiglu_grad(*op.inputs, dy)


def swiglu(gate: tf.Tensor, up: tf.Tensor) -> tf.Tensor:
    """Return silu(gate) * up for two float32 tensors of one shape."""
    return ops.swiglu(gate, up)
