"""RMS normalisation for CUDA."""

import torch

from ._ops import ops

__all__ = ["rms_norm"]


def rms_norm(x: torch.Tensor, weight: torch.Tensor, epsilon: float = 1e-6) -> torch.Tensor:
    """Divide each row by the root of its mean square and multiply it by ``weight``.

    :param x: contiguous, ``(..., columns)``.
    :param weight: ``(columns,)``, of the same type and on the same device.
    """
    return ops.rms_norm(x, weight, epsilon)
