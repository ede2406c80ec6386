"""The list of known frameworks.

To add a framework, write a module and a facts file, and add it here.
"""

from __future__ import annotations

from functools import cache

from wheelsmith.frameworks.framework import Framework
from wheelsmith.frameworks.torch import Torch
from wheelsmith.frameworks.tvm_ffi import TvmFfi


@cache
def frameworks() -> dict[str, Framework]:
    """Return every framework by name."""
    return {each.name: each for each in (Torch(), TvmFfi())}


def framework(name: str) -> Framework:
    """Return a framework by name.

    :raises KeyError: the name is unknown.
    """
    return frameworks()[name]
