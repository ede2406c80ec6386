"""tvm-ffi: an ABI for kernels that is independent of the torch and Python versions (https://tvm.apache.org/ffi/)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from types import MappingProxyType

from packaging.version import Version

from wheelsmith.frameworks.framework import Exports, Framework, LoaderInputs, Release, read_releases

# Kernels call the functions of kernel-builder's file of this name. The names are its interface; the text is our own.
_OPS = '''\
"""The functions of this kernel, loaded from the compiled library beside this file."""

from importlib.util import find_spec
from pathlib import Path

import tvm_ffi

has_jax = bool(find_spec("jax") and find_spec("jax_tvm_ffi"))
has_torch = bool(find_spec("torch"))

ops = tvm_ffi.load_module(str(Path(__file__).parent / "{namespace}.so"))


def torch_add_op_namespace_prefix(op_name: str) -> str:
    """Return the full name of an operator of torch, e.g. for torch.library.custom_op."""
    return f"{namespace}::{{op_name}}"


def jax_add_ffi_target_name_prefix(name: str) -> str:
    """Return the full name of an FFI target of JAX."""
    return f"{namespace}.{{name}}"


def jax_register_ffi_target(name: str, *args, **kwargs):
    """Register an FFI target with JAX, where it is there."""
    if has_jax:
        from jax_tvm_ffi import register_ffi_target

        return register_ffi_target(jax_add_ffi_target_name_prefix(name), *args, **kwargs)


def jax_ffi_call(name: str, *args, **kwargs):
    """Call an FFI target through JAX."""
    if not has_jax:
        raise RuntimeError("jax_ffi_call needs jax and jax-tvm-ffi")
    from jax.ffi import ffi_call

    return ffi_call(jax_add_ffi_target_name_prefix(name), *args, **kwargs)
'''


@dataclass(frozen=True, slots=True, kw_only=True)
class TvmFfiRelease(Release):
    """A minor release of tvm-ffi.

    :param library: the library that its kernels link against.
    :param versions: all its patch releases; a wheel for the minor release may be installed with any of them.
    :param exports: symbol of the library → the first version that exports it.
    """

    library: str
    versions: tuple[str, ...]
    exports: dict[str, str]


@cache
def tvm_ffi_releases() -> dict[str, TvmFfiRelease]:
    """Return every known release by its ``major.minor``, oldest first."""
    return read_releases("tvm_ffi.json", TvmFfiRelease)


@cache
def _exports() -> tuple[Exports, ...]:
    """Return the library's exports, of all releases together."""
    releases = tvm_ffi_releases().values()
    since: dict[str, Version] = {}
    for release in reversed(releases):
        since |= {symbol: Version(first) for symbol, first in release.exports.items()}
    versions = tuple(Version(version) for release in releases for version in release.versions)
    return tuple(
        Exports(library=library, versions=versions, since=since) for library in {each.library for each in releases}
    )


class TvmFfi(Framework):
    """tvm-ffi, which loads a kernel's library by its path."""

    name = "tvm-ffi"
    project = "apache-tvm-ffi"
    packages = "tvm-ffi-ext"
    headers = "tvm_ffi/include/"
    on_hub = True
    test_requirements = ("numpy",)
    # jax-tvm-ffi 0.1.3 registers functions with the FFI of jaxlib 0.9.1, although its metadata admits older ones.
    extras = MappingProxyType({"jax": ("jax-tvm-ffi>=0.1.3", "jaxlib>=0.9.1")})

    def releases(self) -> dict[str, TvmFfiRelease]:
        """Return every known release."""
        return tvm_ffi_releases()

    def libraries(self, backend: str) -> tuple[str, ...]:
        """Return the library that importing tvm_ffi loads."""
        return ("libtvm_ffi.so",)

    def files(self, of: LoaderInputs) -> dict[str, str]:
        """Return the module that loads the kernel's functions."""
        return {f"{of.package}/_ops.py": of.fill(_OPS)}

    def exports(self) -> tuple[Exports, ...]:
        """Return the exports of libtvm_ffi.so."""
        return _exports()
