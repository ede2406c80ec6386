"""SwiGLU for torch."""

import torch

from ._ops import add_op_namespace_prefix, ops


@torch.library.register_fake(add_op_namespace_prefix("swiglu"))
def _(gate, up):
    return torch.empty_like(gate)


@torch.library.register_fake(add_op_namespace_prefix("swiglu_backward"))
def _(gate, up, dy):
    return torch.empty_like(gate), torch.empty_like(gate)


def _save(ctx, inputs, output):
    ctx.save_for_backward(*inputs)


def _backward(ctx, dy):
    return ops.swiglu_backward(*ctx.saved_tensors, dy.contiguous())


torch.library.register_autograd(add_op_namespace_prefix("swiglu"), _backward, setup_context=_save)


def swiglu(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    """Return silu(gate) * up for two float32 tensors of one shape."""
    return ops.swiglu(gate.contiguous(), up.contiguous())
