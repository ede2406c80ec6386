"""RGB images to grey ones, as a torch operator for CPU and CUDA."""

import torch

from ._ops import add_op_namespace_prefix, ops

__all__ = ["img2gray"]


def img2gray(image: torch.Tensor) -> torch.Tensor:
    """Give the luma of an image, 0.299 R + 0.587 G + 0.114 B.

    Works under ``torch.compile(fullgraph=True)``. It has no gradient.

    :param image: ``(..., 3)``, uint8 or float32. Bytes are rounded to nearest.
    :returns: ``(...)``, of the same type and on the same device.
    """
    return ops.img2gray(image)


@torch.library.register_fake(add_op_namespace_prefix("img2gray"))
def _fake(image: torch.Tensor) -> torch.Tensor:
    torch._check(image.shape[-1] == 3, lambda: "img2gray: the last dimension must hold R, G and B")
    return image.new_empty(image.shape[:-1])
