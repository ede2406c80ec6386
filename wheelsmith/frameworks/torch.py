"""torch: releases, compatibility with CUDA, and the files and flags that kernels need."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from wheelsmith.base.files import default_cache, read_bounded
from wheelsmith.base.json_dataclass import read_json
from wheelsmith.base.units import is_prerelease, listed, numbers
from wheelsmith.frameworks.framework import Framework, LoaderInputs, Release, read_releases
from wheelsmith.model import CUDA, TORCH, Cell, PrefixId
from wheelsmith.platforms import platforms

OPS = '''\
"""The operators of this kernel, loaded from the compiled extension beside this file."""

import torch

from . import {namespace}  # noqa: F401

ops = torch.ops.{namespace}


def add_op_namespace_prefix(op_name: str) -> str:
    """Give the operator's full name, e.g. for torch.library.register_fake."""
    return f"{namespace}::{{op_name}}"
'''

# Kernels include this header and use its macros. The names are kernel-builder's interface; the text is our own.
#
# An empty module does not need Python.h, which often is not installed (python3-dev). The header uses two parts of
# CPython's stable ABI: the layout of PyModuleDef (https://docs.python.org/3/c-api/stable.html) and PyModuleDef_Init,
# in abi3 since 3.5. Its names are private, so they do not conflict with Python.h in sources that include it.
REGISTRATION = """\
#pragma once

// Names that expand their arguments first: a kernel passes TORCH_EXTENSION_NAME, itself a macro.
#define TORCH_LIBRARY_EXPAND(NAME, MODULE) TORCH_LIBRARY(NAME, MODULE)
#define TORCH_LIBRARY_IMPL_EXPAND(NAME, DEVICE, MODULE) TORCH_LIBRARY_IMPL(NAME, DEVICE, MODULE)
#define STABLE_TORCH_LIBRARY_EXPAND(NAME, MODULE) STABLE_TORCH_LIBRARY(NAME, MODULE)
#define STABLE_TORCH_LIBRARY_IMPL_EXPAND(NAME, DEVICE, MODULE) STABLE_TORCH_LIBRARY_IMPL(NAME, DEVICE, MODULE)

namespace wheelsmith_module {

// An empty module, as CPython's stable ABI lays it out.
struct Definition {
  struct {
    __PTRDIFF_TYPE__ references;
    void *type;
    void *initialise;
    __PTRDIFF_TYPE__ index;
    void *copy;
  } base;
  const char *name;
  const char *documentation;
  __PTRDIFF_TYPE__ state_size;
  void *methods;
  void *slots;
  void *traverse;
  void *clear;
  void *release;
};

extern "C" void *wheelsmith_module_init(Definition *) __asm__("PyModuleDef_Init");

}  // namespace wheelsmith_module

#define WHEELSMITH_TEXT(NAME) #NAME
#define WHEELSMITH_MODULE(NAME)                                                                      \\
  extern "C" __attribute__((visibility("default"))) void *PyInit_##NAME(void) {                      \\
    static wheelsmith_module::Definition definition = {                                              \\
        {1, nullptr, nullptr, 0, nullptr}, WHEELSMITH_TEXT(NAME), nullptr, 0, nullptr, nullptr,      \\
        nullptr, nullptr, nullptr};                                                                  \\
    return wheelsmith_module::wheelsmith_module_init(&definition);                                   \\
  }

// Lets Python import the library, whose operators register themselves as it is loaded.
#define REGISTER_EXTENSION(NAME) WHEELSMITH_MODULE(NAME)
"""


# Backend → the macros of torch's own build for it, and the libraries that only this build has.
_BACKEND_MACROS = {
    "cuda": ("-DUSE_CUDA=1",),
    "rocm": ("-DUSE_ROCM=1", "-D__HIP_PLATFORM_AMD__=1", "-DHIPBLAS_V2"),
}
_BACKEND_LIBRARIES = {
    "cuda": ("libtorch_cuda.so", "libc10_cuda.so"),
    "rocm": ("libtorch_hip.so", "libc10_hip.so"),
}
HIPIFIED = "torch-rocm"  # the kind of a folder with headers for ROCm
HIPIFY = "hipify"  # the folder in it with torch's hipify
_MAX_FACTS = 1 << 16  # bytes of the facts about one build
_PATCHES = range(10)  # patch numbers to try; no torch release has had more than three patches


@dataclass(frozen=True, slots=True, kw_only=True)
class TorchRelease(Release):
    """A torch release and the properties of its builds.

    :param cxx_std: kernel-builder's choice, 20 from torch 2.12 on.
    :param least_cxx_std: the oldest C++ standard that its ATen/ATen.h accepts.
    :param cxx11_abi: CPU architecture → True if its wheel has the C++11 ABI. Without it, ``std::string`` has other
        symbols, and extensions must be compiled without it too.
    :param cxx11_abi_cuda: CUDA releases whose builds have the C++11 ABI on every architecture.
    :param cuda: every CUDA ``major.minor`` that this release was published for.
    :param cuda_source: the source of ``cuda``; ``source`` is the source of the other fields.
    :param platforms: other GPU platform → the toolkits that this release was published for; empty if unknown.
    :param without_cuda: CPU architectures whose wheel contains a CPU build.
    """

    cxx11_abi: dict[str, bool]
    cuda: tuple[str, ...]
    cuda_source: str
    cuda_date: str
    cxx11_abi_cuda: tuple[str, ...] = ()
    platforms: dict[str, tuple[str, ...]] = field(default_factory=dict)
    platforms_source: str = ""
    without_cuda: tuple[str, ...] = ()
    least_cxx_std: int = 17

    def has_cxx11_abi(self, arch: str, cuda: str | None) -> bool:
        """Return True if the build for an architecture and CUDA (None: CPU build) has the C++11 ABI."""
        return self.cxx11_abi.get(arch, True) or cuda in self.cxx11_abi_cuda

    def compatible_cuda(self, cuda: str) -> tuple[str, ...]:
        """Return the CUDA versions of its builds that run code of ``cuda``: same major, not older, oldest first.

        The rule is the Hub loader's.
        """
        least = numbers(cuda)
        return tuple(built for built in self.cuda if numbers(built)[0] == least[0] and numbers(built) >= least)


@cache
def torch_releases() -> dict[str, TorchRelease]:
    """Return every known torch release by its ``major.minor``, oldest first."""
    return read_releases("torch.json", TorchRelease)


def facts_folder() -> Path:
    """Return the folder in the cache with the facts about pre-release builds."""
    return default_cache() / "torch-facts"


def facts_path(build: str, arch: str, ending: str) -> Path:
    """Return the path of the facts about a pre-release build, which planning writes into the cache.

    :param ending: ``.json`` for an entry as in torch.json, ``.bin`` for the table of its symbols.
    """
    return facts_folder() / f"{build}-{arch}{ending}"


def read_prerelease_facts(build: str, arch: str) -> TorchRelease | None:
    """Return the facts about a pre-release build such as ``2.16.0rc2+cu130``, or None if the cache has none."""
    try:
        return TorchRelease.from_json(read_json(read_bounded(facts_path(build, arch, ".json"), _MAX_FACTS)))
    except (OSError, ValueError):
        return None


def why_incompatible(torch: TorchRelease, cuda: str) -> str | None:
    """Return the reason why a kernel built with CUDA ``cuda`` cannot serve ``torch``, or None."""
    if torch.compatible_cuda(cuda):
        return None
    return (
        f"torch {torch.minor} was built with CUDA {listed(torch.cuda)}; a kernel built with CUDA {cuda} "
        f"needs a torch with the same CUDA major and the same or a newer minor"
    )


def patch_releases(release: str) -> tuple[str, ...]:
    """Return the possible versions of a torch release: ``2.12.0``, ``2.12.1`` and so on for ``2.12``.

    A pre-release is its only version.
    """
    if is_prerelease(release):
        return (release,)
    return tuple(f"{release}.{patch}" for patch in _PATCHES)


def _why_no_other_build(torch: TorchRelease, cell: Cell) -> str | None:
    """Return the reason why torch has no build for a cell with another platform than CUDA, or None."""
    title, known = platforms()[cell.platform].title, torch.platforms.get(cell.platform, ())
    if cell.arch != "x86_64":
        return f"torch's builds for {title} are for x86_64, not for {cell.arch}"
    if not known:
        others = [minor for minor, each in torch_releases().items() if cell.platform in each.platforms]
        there = f"it knows {title} for torch {others[0]} to {others[-1]}"
        return f"wheelsmith does not know which {title} torch {torch.minor} was built with; {there}"
    if cell.toolkit in known:
        return None
    return f"torch {torch.minor} was built with {title} {listed(known)}; a kernel needs the same release"


class Torch(Framework):
    """torch 2.6 and newer, and its pre-releases."""

    name = TORCH
    project = "torch"
    packages = "torch-ext"
    headers = "torch/include/"
    include = ("include", "include/torch/csrc/api/include")
    suffix = ".abi3.so"
    tags = ("cp39", "abi3")
    limited_api = "0x03090000"
    builds_per_compute = True
    has_prereleases = True
    on_hub = True
    has_stable_abi = True
    loads_cuda = True
    platforms = (CUDA, "rocm", "xpu")

    def releases(self) -> dict[str, TorchRelease]:
        """Return every known release."""
        return torch_releases()

    def release(self, name: str, arch: str, compute: str) -> TorchRelease | None:
        """Return a release, or a build of a pre-release whose facts are in the cache."""
        if is_prerelease(name):
            return read_prerelease_facts(f"{name}+{compute}", arch)
        return torch_releases().get(name)

    def find_version(self, version: str, arch: str) -> Release | None:
        """Return the release with this version, or the build of a pre-release, ``2.16.0rc2+cu130``."""
        return super().find_version(version, arch) or read_prerelease_facts(version, arch)

    def prefix(self, release: Release, arch: str, backend: str = "") -> PrefixId:
        """Return the ID of the folder with a release's headers, which differ for ROCm.

        torch's builds for ROCm are not on PyPI. Their headers are those of the CUDA build, translated by its hipify.
        """
        prefix = super().prefix(release, arch)
        return replace(prefix, kind=HIPIFIED) if backend == "rocm" else prefix

    def cxx11_abi(self, release: str, arch: str, cuda: str | None) -> bool | None:
        """Return True if a build has the C++11 ABI.

        Unknown releases have it, because they are newer than the last one without it.
        """
        known = torch_releases().get(release)
        return known is None or known.has_cxx11_abi(arch, cuda)

    def defines(self, namespace: str, backend: str, stable_abi: str | None) -> tuple[str, ...]:
        """Return kernel-builder's macros."""
        name, kind = super().defines(namespace, backend, stable_abi)
        found = [name, f"-DPy_LIMITED_API={self.limited_api}", kind]
        found += _BACKEND_MACROS.get(backend, ())
        if stable_abi:
            major, minor = numbers(stable_abi)
            found.append(f"-DTORCH_TARGET_VERSION={(major << 56) | (minor << 48):#018x}")
        return tuple(found)

    def libraries(self, backend: str) -> tuple[str, ...]:
        """Return the libraries that an extension must link by name, because torch loads them privately."""
        return ("libtorch.so", "libtorch_cpu.so", "libc10.so", *_BACKEND_LIBRARIES.get(backend, ()))

    def files(self, of: LoaderInputs) -> dict[str, str]:
        """Return the header that registers operators, and the module that loads them."""
        return {"registration.h": REGISTRATION, f"{of.package}/_ops.py": of.fill(OPS)}

    def why_incompatible(self, cell: Cell, *, any_minor: bool) -> str | None:
        """Return the reason why torch's own builds cannot serve a cell, or None."""
        release = self.release(cell.release, cell.arch, cell.compute)
        if cell.toolkit is None or release is None:
            return None
        if cell.platform != CUDA:
            return _why_no_other_build(release, cell)
        if cell.cxx11_abi and not release.cxx11_abi[cell.arch]:
            return (
                f"torch {cell.release} for CUDA {cell.toolkit} has the C++11 ABI, but wheelsmith knows only the "
                f"libraries of the {cell.arch} wheel without it, so it could not check the result"
            )
        if cell.arch in release.without_cuda:
            return (
                f"PyPI's torch {cell.release} for {cell.arch} is a CPU build, so wheelsmith has neither CUDA headers "
                f"to compile with nor CUDA libraries to check against"
            )
        same_major = any(numbers(built)[0] == numbers(cell.toolkit)[0] for built in release.cuda)
        return None if same_major and any_minor else why_incompatible(release, cell.toolkit)
