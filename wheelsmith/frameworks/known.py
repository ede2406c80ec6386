"""The frameworks that there are: a further one is a module, its facts, and a line here."""

from __future__ import annotations

from functools import cache

from wheelsmith.frameworks.framework import Framework
from wheelsmith.frameworks.torch import Torch
from wheelsmith.frameworks.tvm_ffi import TvmFfi


@cache
def frameworks() -> dict[str, Framework]:
    """Return every framework by its name."""
    return {each.name: each for each in (Torch(), TvmFfi())}


def framework(name: str) -> Framework:
    """Return one by its name.

    :raises KeyError: there is none of that name.
    """
    return frameworks()[name]
