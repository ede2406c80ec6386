"""MindSpore: C functions that its custom operators call ("aot" in mindspore.ops.Custom).

Such a function has one fixed signature and needs no headers, so a library serves every release. MindSpore's plugins for
NVIDIA GPUs are for CUDA 11, and wheelsmith has only newer toolkits. All wheels are therefore for CPUs.
"""

from __future__ import annotations

from functools import cache

from wheelsmith.frameworks.framework import Framework, LoaderInputs, Release, read_releases
from wheelsmith.model import Cell

# MindSpore opens the library when an operator is launched for the first time, so importing it proves nothing.
_OPS = '''\
"""The functions of this kernel for MindSpore, from the compiled library beside this file."""

from pathlib import Path

import mindspore
from mindspore import ops

if tuple(int(part) for part in mindspore.__version__.split(".")[:2]) < {numbers}:
    raise ImportError(f"this build of {package} needs MindSpore {oldest} or newer, not {{mindspore.__version__}}")

_LIBRARY = str(Path(__file__).with_name("{namespace}.so"))
if ":" in _LIBRARY:
    raise ImportError(f"MindSpore opens no library whose path has a colon: {{_LIBRARY}}")

FUNCTIONS = {functions}


def custom(function, out_shape, out_dtype, **options):
    """Return mindspore.ops.Custom for a function of this kernel. Call it in the __init__ of a Cell."""
    if function not in FUNCTIONS:
        raise ValueError(f"{package} has no function {{function}}; it has {{', '.join(FUNCTIONS)}}")
    return ops.Custom(f"{{_LIBRARY}}:{{function}}", out_shape, out_dtype, func_type="aot", **options)
'''


@cache
def mindspore_releases() -> dict[str, Release]:
    """Return every known release by its ``major.minor``, oldest first."""
    return read_releases("mindspore.json", Release)


class MindSpore(Framework):
    """MindSpore 2.7 and newer, which opens a kernel's library by its path."""

    name = "mindspore"
    project = "mindspore"
    packages = "mindspore-ext"
    headers = ""
    include = ()
    has_stable_abi = True
    calls_functions = True
    # MindSpore 2.10 admits NumPy 2, but was compiled for NumPy 1 and fails with 2.
    test_requirements = ("numpy<2",)

    def releases(self) -> dict[str, Release]:
        """Return every known release."""
        return mindspore_releases()

    def floor(self, declared: str | None, cell: Cell) -> str:
        """Return the release in build.toml, or the oldest known one."""
        return declared or next(iter(mindspore_releases()))

    def files(self, of: LoaderInputs) -> dict[str, str]:
        """Return the module that makes operators of the functions."""
        return {f"{of.package}/_ops.py": of.fill(_OPS)}

    def why_incompatible(self, cell: Cell, *, any_minor: bool) -> str | None:
        """Return the reason that there are no wheels for GPUs."""
        if cell.toolkit is None:
            return None
        return f"MindSpore {cell.release} runs operators on NVIDIA GPUs with CUDA 11 only"
