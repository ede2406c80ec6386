"""JAX: handlers that XLA calls through its FFI (https://docs.jax.dev/en/latest/ffi.html).

The FFI is a C interface. XLA calls a handler that was compiled with the headers of an older jaxlib, and refuses one
with newer headers. A wheel is therefore compiled with the headers of the oldest jaxlib that it supports.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import resources
from types import MappingProxyType

from packaging.version import Version

from wheelsmith.base.files import read_facts
from wheelsmith.base.units import numbers
from wheelsmith.frameworks.framework import Framework, LoaderInputs, Release, read_releases
from wheelsmith.model import CUDA, Cell
from wheelsmith.platforms import platform_of

# XLA refuses a handler with a newer FFI, and a handler that was registered before XLA was used disables the whole
# platform. The loader therefore compares the versions first.
_OPS = '''\
"""The functions of this kernel for JAX, from the compiled library beside this file."""

import ctypes
from pathlib import Path

import jax
import jaxlib

if tuple(int(part) for part in jaxlib.__version__.split(".")[:2]) < {numbers}:
    raise ImportError(f"this build of {package} needs jaxlib {oldest} or newer, not {{jaxlib.__version__}}")

ops = ctypes.CDLL(str(Path(__file__).with_name("{namespace}.so")))


def add_ffi_target_name_prefix(name):
    """Return the name under which a function is registered with JAX, which no other build uses."""
    return f"{namespace}.{{name}}"


for _name in {functions}:
    jax.ffi.register_ffi_target(
        add_ffi_target_name_prefix(_name), jax.ffi.pycapsule(getattr(ops, _name)), platform="{platform}"
    )


def ffi_call(name, result_shape_dtypes, **options):
    """Return jax.ffi.ffi_call for a function of this kernel."""
    return jax.ffi.ffi_call(add_ffi_target_name_prefix(name), result_shape_dtypes, **options)
'''
_CHECKER = "check_jax_handlers.py"
_PLATFORMS = {"cuda": "CUDA", "rocm": "ROCM"}  # backend → XLA's name of it


@dataclass(frozen=True, slots=True, kw_only=True)
class JaxRelease(Release):
    """A minor release of jaxlib, with the headers of its first patch release.

    :param ffi: the version of XLA's FFI in its headers, e.g. ``0.1``.
    """

    ffi: str


@cache
def jax_releases() -> dict[str, JaxRelease]:
    """Return every known release by its ``major.minor``, oldest first."""
    return read_releases("jax.json", JaxRelease)


@cache
def _check_script() -> str:
    return resources.files(__package__).joinpath(_CHECKER).read_text(encoding="utf-8")


@cache
def _plugins() -> dict[str, str]:
    """Return the major version of CUDA → the first release of jaxlib's plugin for it."""
    return dict(read_facts(__package__, "jax.json")["plugins"])


class Jax(Framework):
    """JAX, which calls a kernel's functions through XLA."""

    name = "jax"
    project = "jaxlib"
    packages = "jax-ext"
    headers = "jaxlib/include/"
    has_stable_abi = True
    calls_functions = True
    test_requirements = ("jax",)
    plugins = MappingProxyType({"jax-cuda12-plugin": "cu12", "jax-cuda13-plugin": "cu13"})

    def releases(self) -> dict[str, JaxRelease]:
        """Return every known release."""
        return jax_releases()

    def floor(self, declared: str | None, cell: Cell) -> str:
        """Return the release in build.toml or the oldest known one, or a newer one if the plugin for CUDA is newer."""
        oldest = declared or next(iter(jax_releases()))
        plugin = _first_plugin(cell.compute)
        return max(oldest, _minor(plugin), key=Version) if plugin else oldest

    def files(self, of: LoaderInputs) -> dict[str, str]:
        """Return the module that registers the functions, and the script that checks them."""
        text = of.fill(_OPS, platform=_PLATFORMS.get(of.backend, of.backend))
        return {f"{of.package}/_ops.py": text, _CHECKER: _check_script()}

    def check_command(self, of: LoaderInputs, library: str, output: str) -> tuple[str, ...]:
        """Return the command that asks each function for its version of the FFI."""
        return (f"src/{self.packages}/{_CHECKER}", library, output, jax_releases()[str(of.floor)].ffi, *of.functions)

    def why_incompatible(self, cell: Cell, *, any_minor: bool) -> str | None:
        """Return the reason if JAX has no plugin for a cell's CUDA."""
        if cell.toolkit is None:
            return None
        plugin = _first_plugin(cell.compute)
        if plugin is None:
            return f"JAX has no plugin for {cell.compute}; it has some for CUDA {' and '.join(_plugins())}"
        if Version(cell.release) < Version(_minor(plugin)):
            return f"JAX's first plugin for CUDA {numbers(cell.toolkit)[0]} is {plugin}"
        return None

    def stable_requirements(self, floor: str, compute: str) -> tuple[str, ...]:
        """Return the requirements: jax and jaxlib, whose releases may differ, and the plugin for CUDA."""
        required, plugin = (f"jax>={floor}", f"jaxlib>={floor}"), _first_plugin(compute)
        if plugin is None:
            return required
        return (*required, f"jax-cuda{compute[2:4]}-plugin>={max(plugin, floor, key=Version)}")


def _first_plugin(compute: str) -> str | None:
    """Return the first release of the plugin for a compute platform such as ``cu130``; None if there is none."""
    found = platform_of(compute)
    return _plugins().get(str(numbers(found[1])[0])) if found and found[0].name == CUDA else None


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])
