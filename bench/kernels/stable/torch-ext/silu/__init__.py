"""SiLU for CUDA, through torch's stable ABI."""

import torch

from ._ops import ops

__all__ = ["silu"]


def silu(x: torch.Tensor) -> torch.Tensor:
    """Return ``x * sigmoid(x)``.

    :param x: contiguous, float32 or float16.
    """
    return ops.silu(x)
