"""The two loops over cells that users write themselves: the usual one and the careful one."""

from __future__ import annotations

import contextlib
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from bench.cost import Cost
from bench.grid import CAPABILITIES, Cell
from bench.usual_project import lay_out
from bench.workshop import CORES, KERNELS, Workshop, cuda_home, empty_folder
from wheelsmith.base.errors import WheelsmithError
from wheelsmith.frameworks import torch_releases
from wheelsmith.platforms import cuda_toolkits

_MAKE_ENVIRONMENT = """
set -e
"$0" -m venv "$1"
"$1/bin/pip" install "torch==$2.*" setuptools wheel ninja
"""


@contextlib.contextmanager
def environment(workshop: Workshop, torch: str) -> Iterator[tuple[Path, Cost]]:
    """Make a virtual environment with torch, and yield its folder and cost. Remove it after the block."""
    with empty_folder(workshop.folder / "environment") as folder:
        argv = ("sh", "-c", _MAKE_ENVIRONMENT, sys.executable, str(folder), torch)
        yield folder, workshop.measure(argv, workshop.folder, {})


def build_usual(workshop: Workshop, kernel: str, cell: Cell, python: Path) -> Cost:
    """Build a cell with pip and torch's cpp_extension.

    :param python: the folder of the environment.
    """
    home = cuda_home(cell.cuda)
    return _pip_wheel(workshop, kernel, cell, python, {"CUDA_HOME": str(home)})


def build_careful(workshop: Workshop, kernel: str, cell: Cell, python: Path, ccache: Path) -> Cost:
    """Build a cell like the usual loop, but with ccache.

    :param ccache: the cache after the previous cell. It is replaced at the end, so an interrupted cell does not change
        it.
    """
    require_ccache()
    home = cuda_home(cell.cuda)
    with empty_folder(workshop.folder / "ccache") as used:
        if ccache.is_dir():
            shutil.copytree(ccache, used, dirs_exist_ok=True)
        variables = {
            "CUDA_HOME": str(home),
            "CXX": str(_ccache_as_compiler(workshop)),
            "PYTORCH_NVCC": f"ccache {home}/bin/nvcc",
            "CCACHE_DIR": str(used),
        }
        cost = _pip_wheel(workshop, kernel, cell, python, variables)
        fresh = ccache.with_name(f"{ccache.name}.new")
        shutil.rmtree(fresh, ignore_errors=True)
        shutil.copytree(used, fresh)
        shutil.rmtree(ccache, ignore_errors=True)
        fresh.rename(ccache)
    return cost


def _ccache_as_compiler(workshop: Workshop) -> Path:
    """Return a link named g++ to ccache, since cpp_extension does not accept ``ccache g++`` as a compiler.

    The link is not in PATH, because nvcc would use it too, for temporary files that are never in the cache.
    """
    path = workshop.folder / "through-ccache" / "g++"
    if not path.is_symlink():
        path.parent.mkdir()
        path.symlink_to(str(shutil.which("ccache")))
    return path


def require_ccache() -> None:
    """Raise if ccache is not installed."""
    if not shutil.which("ccache"):
        raise WheelsmithError("the careful loop needs ccache", remedy="apt-get install ccache, or --ways usual,ours")


def _cxx_std(cell: Cell) -> int:
    """Return the C++ standard that wheelsmith uses. Some pairs of torch and CUDA do not compile with an older one."""
    return max(torch_releases()[cell.torch].cxx_std, cuda_toolkits()[cell.cuda].cxx_std)


def _pip_wheel(workshop: Workshop, kernel: str, cell: Cell, python: Path, variables: dict[str, str]) -> Cost:
    # All cells use the same path, since ccache distinguishes folders.
    with empty_folder(workshop.folder / "project") as folder:
        lay_out(KERNELS / kernel, folder / kernel, _cxx_std(cell))
        cost = workshop.measure(
            (
                *(str(python / "bin" / "python"), "-m", "pip", "wheel", "--no-build-isolation", "--no-deps"),
                *("--no-cache-dir", "--wheel-dir", str(folder / "wheels"), "."),
            ),
            folder / kernel,
            {
                "PATH": f"{python}/bin:{workshop.environment['PATH']}",
                "MAX_JOBS": str(CORES),
                "TORCH_CUDA_ARCH_LIST": ";".join(CAPABILITIES),
                **variables,
            },
        )
        if len(list((folder / "wheels").glob("*.whl"))) != 1:
            raise WheelsmithError(f"pip built no wheel of {kernel}", remedy="run it again")
    return cost
