"""The list of known frameworks.

To add a framework, write a module and a facts file, and add it here.
"""

from __future__ import annotations

from functools import cache

from wheelsmith.frameworks.framework import Framework
from wheelsmith.frameworks.jax import Jax
from wheelsmith.frameworks.mindspore import MindSpore
from wheelsmith.frameworks.no_framework import NoFramework
from wheelsmith.frameworks.tensorflow import TensorFlow
from wheelsmith.frameworks.torch import Torch
from wheelsmith.frameworks.tvm_ffi import TvmFfi
from wheelsmith.model import NO_FRAMEWORK


@cache
def frameworks() -> dict[str, Framework]:
    """Return every framework by name, without ``none``."""
    return {each.name: each for each in (Torch(), TvmFfi(), Jax(), TensorFlow(), MindSpore())}


@cache
def framework(name: str) -> Framework:
    """Return a framework by name, or the absence of one.

    :raises KeyError: the name is unknown.
    """
    return NoFramework() if name == NO_FRAMEWORK else frameworks()[name]
