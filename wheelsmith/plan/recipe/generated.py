"""The files that a build adds to a kernel's source."""

from __future__ import annotations

PYPROJECT = """\
[build-system]
requires = []
build-backend = "wheelsmith.engine.backend"
"""

NOARCH_OPS = '''\
"""The operators of this kernel, which its Python code registers."""

import torch


def get_backend() -> str:
    """Name the backend that this torch was built for."""
    if hasattr(torch.backends, "tpu"):
        return "tpu"
    if hasattr(torch, "neuron"):
        return "neuron"
    if torch.version.cuda is not None:
        return "cuda"
    if torch.version.hip is not None:
        return "rocm"
    if torch.backends.mps.is_available():
        return "metal"
    if getattr(torch.version, "xpu", None) is not None:
        return "xpu"
    return "cpu"


_NAMESPACE = f"_{module}_{{get_backend()}}_{unique}"

ops = getattr(torch.ops, _NAMESPACE)


def add_op_namespace_prefix(op_name: str) -> str:
    """Give the operator's full name, e.g. for torch.library.custom_op."""
    return f"{{_NAMESPACE}}::{{op_name}}"
'''

# What kernels use of torch/all.h: tensors, factories, operators, TORCH_CHECK and TORCH_LIBRARY. The rest of it (nn,
# optim, data, serialize, jit) is more than half of what compilers spend their time on.
LIGHT_ALL = """\
#pragma once

#include <torch/types.h>
#include <torch/version.h>
"""
