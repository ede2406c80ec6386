"""Elementwise gates for CUDA: gelu, relu_squared, silu and softplus."""

import torch

from ._ops import ops

__all__ = ["gelu", "relu_squared", "silu", "softplus"]


def gelu(x: torch.Tensor) -> torch.Tensor:
    """Return ``x * Phi(x)``, Phi being the normal distribution."""
    return _mapped(ops.gelu, x)


def relu_squared(x: torch.Tensor) -> torch.Tensor:
    """Return ``max(x, 0) ** 2``."""
    return _mapped(ops.relu_squared, x)


def silu(x: torch.Tensor) -> torch.Tensor:
    """Return ``x * sigmoid(x)``."""
    return _mapped(ops.silu, x)


def softplus(x: torch.Tensor) -> torch.Tensor:
    """Return ``log(1 + exp(x))``."""
    return _mapped(ops.softplus, x)


def _mapped(operator, x: torch.Tensor) -> torch.Tensor:
    output = torch.empty_like(x)
    operator(output, x)
    return output
