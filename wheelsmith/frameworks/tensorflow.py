"""TensorFlow: custom operators in C++ for one minor release, or in C for every release from a floor on.

The C++ interface changes with each minor release, and its symbols contain the namespace of a release of abseil. The C
interface (tensorflow/c) is stable, but has operators for CPUs only.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from wheelsmith.base.files import read_facts
from wheelsmith.base.units import numbers
from wheelsmith.frameworks.framework import Exports, Framework, LoaderInputs, Release, read_releases
from wheelsmith.model import Cell
from wheelsmith.platforms import CPU

_LIBRARY = "libtensorflow_framework.so.2"
# TensorFlow ignores an operator whose name another library has registered, so that each build needs its own names.
_REGISTRATION = """\
#pragma once

#define WHEELSMITH_STRING_(NAME) #NAME
#define WHEELSMITH_STRING(NAME) WHEELSMITH_STRING_(NAME)

// The full name of an operator, e.g. TENSORFLOW_OP_NAME("Scale"), which no other build uses.
#define TENSORFLOW_OP_NAME(NAME) WHEELSMITH_STRING(TENSORFLOW_EXTENSION_NAME) NAME
"""
_OPS = '''\
"""The operators of this kernel for TensorFlow, from the compiled library beside this file."""

import re
from pathlib import Path
from types import SimpleNamespace

import tensorflow

_installed = tuple(int(part) for part in tensorflow.__version__.split(".")[:2])
if _installed {differs} {numbers}:
    raise ImportError(f"this build of {package} needs TensorFlow {oldest}{newer}, not {{tensorflow.__version__}}")

_PREFIX = "{prefix}"
_library = tensorflow.load_op_library(str(Path(__file__).with_name("{namespace}.so")))


def add_op_name_prefix(name):
    """Return the full name of an operator, e.g. for tensorflow.RegisterGradient."""
    return _PREFIX + name


def _named_functions():
    """Yield each operator's short name in snake case, and the function that calls it."""
    functions = {{name.replace("_", ""): name for name in dir(_library) if name.islower()}}
    for operator in (name for name in dir(_library) if name.startswith(_PREFIX)):
        short = re.sub("(?<=[a-z0-9])(?=[A-Z])", "_", operator[len(_PREFIX):])
        yield short.lower(), getattr(_library, functions[operator.lower()])


ops = SimpleNamespace(**dict(_named_functions()))
'''
_ABSEIL = re.compile(r"lts_\d{8}")
# The namespaces tensorflow, tsl, absl, google::protobuf and Eigen in mangled names.
_CXX = re.compile(r"_Z.*(10tensorflow|3tsl|4absl|6google8protobuf|5Eigen)")


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorflowRelease(Release):
    """A minor release of TensorFlow.

    :param abseil: the inline namespace of abseil in its symbols, e.g. ``lts_20250814``.
    :param cuda: the CUDA release that the wheel for GPUs was built for, e.g. ``12.5``.
    """

    abseil: str
    cuda: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorflowExports(Exports):
    """The symbols of libtensorflow_framework: the C functions one by one, those of C++ by their namespace.

    :param until: symbol → the last version that exports it; the newest one is left out.
    :param abseil: version → the inline namespace of abseil in its symbols.
    """

    until: Mapping[str, Version]
    abseil: Mapping[Version, str]

    def has(self, symbol: str) -> bool:
        """Return True if some version exports a symbol, or if it is in a namespace of TensorFlow."""
        return symbol in self.since or _CXX.match(symbol) is not None

    def versions_without(self, symbol: str, allowed: SpecifierSet) -> tuple[str, ...]:
        """Return the allowed versions that do not export a symbol."""
        versions = tuple(allowed.filter(self.versions, prereleases=True))
        if symbol in self.since:
            last = self.until.get(symbol, self.versions[-1])
            return tuple(str(version) for version in versions if not self.since[symbol] <= version <= last)
        named = set(_ABSEIL.findall(symbol))
        return tuple(str(version) for version in versions if named - {self.abseil[version]})


@cache
def tensorflow_releases() -> dict[str, TensorflowRelease]:
    """Return every known release by its ``major.minor``, oldest first."""
    return read_releases("tensorflow.json", TensorflowRelease)


@cache
def _exports() -> TensorflowExports:
    functions = read_facts(__package__, "tensorflow.json")["functions"]
    version_of = {minor: Version(release.version) for minor, release in tensorflow_releases().items()}
    return TensorflowExports(
        library=_LIBRARY,
        versions=tuple(version_of.values()),
        since={name: version_of[first] for name, (first, _) in functions.items()},
        until={name: version_of[last] for name, (_, last) in functions.items() if last},
        abseil={version_of[minor]: release.abseil for minor, release in tensorflow_releases().items()},
    )


class TensorFlow(Framework):
    """TensorFlow, which loads a kernel's library by its path."""

    name = "tensorflow"
    project = "tensorflow"
    packages = "tensorflow-ext"
    headers = "tensorflow/include/"
    has_stable_abi = True
    substitutes = ("tensorflow-cpu",)

    def releases(self) -> dict[str, TensorflowRelease]:
        """Return every known release."""
        return tensorflow_releases()

    def defines(self, namespace: str, backend: str, stable_abi: str | None) -> tuple[str, ...]:
        """Return macros like those of torch's kernels, and the alignment of Eigen's arrays in TensorFlow's wheels."""
        of_cuda = ("-DEIGEN_USE_GPU",) if backend != CPU else ()
        usual = super().defines(_operator_prefix(namespace), backend, stable_abi)
        return *usual, "-DEIGEN_MAX_ALIGN_BYTES=64", *of_cuda

    def libraries(self, backend: str) -> tuple[str, ...]:
        """Return the library that importing tensorflow loads."""
        return (_LIBRARY,)

    def files(self, of: LoaderInputs) -> dict[str, str]:
        """Return the header that names operators, and the module that loads them."""
        kind = {"differs": "<", "newer": " or newer"} if of.floor else {"differs": "!=", "newer": ""}
        text = of.fill(_OPS, prefix=_operator_prefix(of.namespace), **kind)
        return {"registration.h": _REGISTRATION, f"{of.package}/_ops.py": text}

    def exports(self) -> tuple[Exports, ...]:
        """Return the exports of libtensorflow_framework."""
        return (_exports(),)

    def why_incompatible(self, cell: Cell, *, any_minor: bool) -> str | None:
        """Return the reason if TensorFlow was built for another major version of CUDA."""
        built = tensorflow_releases()[cell.release].cuda
        if cell.toolkit is None or numbers(built)[0] == numbers(cell.toolkit)[0]:
            return None
        return f"TensorFlow {cell.release} was built with CUDA {built}; a kernel needs the same major version"


def _operator_prefix(namespace: str) -> str:
    """Return the prefix of a build's operators. Names of operators begin with a capital letter."""
    return "".join(part.capitalize() for part in namespace.split("_"))
