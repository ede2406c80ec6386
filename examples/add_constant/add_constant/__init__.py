"""Add a constant to a tensor.

>>> import torch, add_constant
>>> add_constant.set_constant(2.5)
>>> add_constant.add(torch.tensor([1.0]))
tensor([3.5000])
"""

import torch  # noqa: F401  # loads the libraries that the extension needs

from add_constant._C import add, get_constant, set_constant

__all__ = ["add", "get_constant", "set_constant"]
