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

# What configure would write of a machine, as far as the stable ABI asks for it. The sizes are those of the machine that
# is compiled for. Macros of CPython's read its structures without naming a symbol, so that no check of the binary could
# tell who uses what another Python has otherwise.
PYCONFIG = """\
#pragma once

#if !defined(Py_LIMITED_API) || Py_LIMITED_API + 0 > {0}
#error "the wheel is for every Python from that of its tag on: Py_LIMITED_API must stay {0}, or be older"
#endif

#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif

#define SIZEOF_SHORT __SIZEOF_SHORT__
#define SIZEOF_INT __SIZEOF_INT__
#define SIZEOF_LONG __SIZEOF_LONG__
#define SIZEOF_LONG_LONG __SIZEOF_LONG_LONG__
#define SIZEOF_SIZE_T __SIZEOF_SIZE_T__
#define SIZEOF_VOID_P __SIZEOF_POINTER__
#define SIZEOF_WCHAR_T __SIZEOF_WCHAR_T__
"""
