"""A stand-in for torch, with which a build system prepares a project's metadata.

A setup.py imports torch to describe its extensions. Its name and version do not depend on them. Any other submodule and
attribute of torch exists here, too, and can be called.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from setuptools import Extension
from setuptools.command.build_ext import build_ext

__version__ = os.environ["WHEELSMITH_TORCH"]
__path__: list[str] = []


class BuildExtension(build_ext):  # type: ignore[misc]  # setuptools has no types here
    """torch's command, which is never run here."""

    @classmethod
    def with_options(cls, **_: object) -> type[BuildExtension]:
        """Return the command."""
        return cls


def _extension(name: str, sources: list[str], *_: object, **__: object) -> Extension:
    return Extension(name, list(sources))


_KNOWN: dict[str, object] = {
    "torch.version.cuda": "13.0",
    "torch.version.hip": None,
    "torch.version.__version__": __version__,
    "torch.cuda.is_available": lambda: True,
    "torch.cuda.device_count": lambda: 1,
    "torch.cuda.get_device_capability": lambda *_: (9, 0),
    "torch.utils.cpp_extension.BuildExtension": BuildExtension,
    "torch.utils.cpp_extension.CppExtension": _extension,
    "torch.utils.cpp_extension.CUDAExtension": _extension,
    "torch.utils.cpp_extension.CUDA_HOME": None,
    "torch.utils.cpp_extension.ROCM_HOME": None,
    "torch.utils.cpp_extension.IS_HIP_EXTENSION": False,
}


class Anything(ModuleType):
    """A module or function of torch."""

    def __getattr__(self, name: str) -> object:
        """Return an attribute."""
        return find(f"{self.__name__}.{name}")

    def __call__(self, *_: object, **__: object) -> object:
        """Return this object."""
        return self


class _Finder(MetaPathFinder, Loader):
    def find_spec(self, fullname: str, *_: object) -> ModuleSpec | None:
        return ModuleSpec(fullname, self, is_package=True) if fullname.startswith("torch.") else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return Anything(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Do nothing."""


def find(name: str) -> object:
    """Return a submodule or an attribute by its whole name."""
    if name in _KNOWN:
        return _KNOWN[name]
    if name.rpartition(".")[2].startswith("__"):
        raise AttributeError(name)
    return import_module(name)


def __getattr__(name: str) -> Any:
    return find(f"torch.{name}")


sys.meta_path.append(_Finder())
