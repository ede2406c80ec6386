"""The files that a build adds to a kernel that registers its operators with torch."""

from __future__ import annotations

OPS = '''\
"""The operators of this kernel, loaded from the compiled extension beside this file."""

import torch

from . import {namespace}  # noqa: F401

ops = torch.ops.{namespace}


def add_op_namespace_prefix(op_name: str) -> str:
    """Give the operator's full name, e.g. for torch.library.register_fake."""
    return f"{namespace}::{{op_name}}"
'''

# Kernels include this header and expect the macros; the names are an interface, the text is ours.
#
# Python.h is not needed for a module that holds nothing, and is often not installed (python3-dev). What is used of
# CPython is its stable ABI: the layout of PyModuleDef (https://docs.python.org/3/c-api/stable.html) and
# PyModuleDef_Init, in abi3 since 3.5. The names are private, so that a source that does include Python.h is not
# disturbed.
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
