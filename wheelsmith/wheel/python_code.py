"""Read a wheel's Python code: the libraries it loads, and the namespaces of Hub kernels' operators.

Like the check of huggingface/kernels (``nix-builder/pkgs/torch-ops-check``), this reads literal names only. It does
not evaluate names that the code computes.
"""

from __future__ import annotations

import ast
import mmap
import posixpath
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import BinaryIO

_PREFIX = "add_op_namespace_prefix"
# Functions of torch.library with an operator's name as first argument, and the modules that code calls them from.
_REGISTERING = frozenset(
    {"custom_op", "define", "register_fake", "register_kernel", "register_torch_dispatch", "register_vmap", "triton_op"}
)
_MODULES = ("", "library", "torch.library")
_KINDS = ("DEF", "FRAGMENT")  # of a Library; IMPL implements operators that others define
# ``_<kernel>_<backend>_<revision>``, which kernel-builder writes now, or ``_<kernel>_<revision>``, its earlier form.
_UNIQUE_NAMESPACE = re.compile(r"_\w+_\w+", re.ASCII)
# Symbols from the macros of torch/library.h: length of the name, macro, namespace.
_MACROS = re.compile(rb"(\d{1,4})((?:STABLE_)?TORCH_LIBRARY_(?:FRAGMENT_)?(?:static_)?init_)(\w{1,4096})")
# Functions of ctypes, cffi and torch that load a library.
CALLS = ("CDLL", "PyDLL", "LoadLibrary", "load_library", "dlopen")
_FLAGS = "setdlopenflags"
_GLOBAL = "RTLD_GLOBAL"


@dataclass(frozen=True, slots=True, kw_only=True)
class HubKernel:
    """A package whose ``_ops`` module has ``add_op_namespace_prefix``.

    :param folder: path of the package in the wheel.
    :param namespace: the kernel's namespace, which ``_ops`` assigns; None if the code computes it.
    """

    folder: str
    namespace: str | None

    def is_unique(self, namespace: str) -> bool:
        """Return True if no other kernel has this namespace."""
        return _UNIQUE_NAMESPACE.fullmatch(namespace) is not None and self.namespace in {None, namespace}

    def contains(self, path: str) -> bool:
        """Return True if a file belongs to the kernel."""
        return path.startswith(f"{self.folder}/") or not self.folder


def parse(source: bytes) -> ast.Module | None:
    """Return the syntax tree of a Python file, or None if it cannot be parsed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return ast.parse(source)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None


def is_ops_module(path: str) -> bool:
    """Return True if a path in a wheel is that of a module called ``_ops``."""
    return posixpath.basename(path.replace("_ops/__init__.py", "_ops.py")) == "_ops.py"


def hub_kernels(modules: Iterable[tuple[str, ast.Module]]) -> Iterator[HubKernel]:
    """Yield the Hub kernels among modules called ``_ops``.

    :param modules: path in the wheel and syntax tree of each module.
    """
    for path, tree in modules:
        assigned = _assignments(tree)
        functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
        if _PREFIX in functions | assigned.keys():
            module, _, namespace = _dotted_name(assigned.get("ops")).rpartition(".")
            folder = posixpath.dirname(path.replace("_ops/__init__.py", "_ops.py"))
            yield HubKernel(folder=folder, namespace=namespace if module == "torch.ops" else None)


def registrations(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the line and the namespace of each operator registration with a literal namespace."""
    constants = _assignments(tree)
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not node.args:
            continue
        module, _, function = _dotted_name(node.func).rpartition(".")
        values = [getattr(value, "value", None) for value in (*node.args, *(item.value for item in node.keywords))]
        registers = function in _REGISTERING or (function == "Library" and any(kind in values for kind in _KINDS))
        if module in _MODULES and registers and (namespace := _namespace(node.args[0], constants)):
            yield node.lineno, namespace


def registered_namespaces(file: BinaryIO) -> set[str]:
    """Return the namespaces in which an ELF file registers operators; none if its symbols were stripped."""
    found = set()
    with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        for match in _MACROS.finditer(content):
            name = match[3][: int(match[1]) - len(match[2])].decode("ascii", "replace")
            # The macro appends a counter to the name of a fragment.
            found.add(re.sub(r"_\d+$", "", name) if b"FRAGMENT" in match[2] else name)
    return found - {""}


def _assignments(tree: ast.Module) -> dict[str, ast.expr]:
    """Return the last value that a module assigns to each name."""
    assignments = (node for node in tree.body if isinstance(node, ast.Assign))
    return {_dotted_name(target): node.value for node in assignments for target in node.targets}


def _namespace(node: ast.expr, constants: Mapping[str, ast.expr]) -> str:
    """Return the namespace in an operator's name, or an empty string if the code computes it."""
    match node:
        case ast.Constant(value=str(text)):
            return text.partition("::")[0]
        case ast.Name(id=name) if isinstance(constants.get(name), ast.Constant):
            return _namespace(constants[name], {})
        case ast.JoinedStr(values=[ast.Constant(value=str(text)), *_]) if "::" in text:
            return text.partition("::")[0]
        case ast.JoinedStr(values=[ast.FormattedValue(value=value), ast.Constant(value=str(text)), *_]):
            return _namespace(value, constants) if text.startswith("::") else ""
    return ""


def _dotted_name(node: ast.expr | None) -> str:
    """Return a dotted name, e.g. ``torch.library.define``; ``?`` for any other expression."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=value, attr=name):
            return f"{_dotted_name(value)}.{name}"
    return "?"


@dataclass(frozen=True, slots=True, kw_only=True)
class LibraryLoad:
    """A call that loads a library.

    :param library: file name of the library; None if it is not a literal.
    :param is_global: True if libraries that are loaded later can use its symbols (RTLD_GLOBAL).
    """

    library: str | None
    is_global: bool


def read_loads(source: bytes) -> frozenset[LibraryLoad]:
    """Return the calls in a Python file that load libraries; none if the file cannot be parsed."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return frozenset()
    return frozenset(_find_loads(tree))


def _find_loads(tree: ast.Module) -> Iterator[LibraryLoad]:
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        called = getattr(node.func, "attr", getattr(node.func, "id", ""))
        arguments = [*node.args, *(keyword.value for keyword in node.keywords)]
        is_global = any(
            _GLOBAL in (getattr(n, "attr", ""), getattr(n, "id", "")) for a in arguments for n in ast.walk(a)
        )
        if called == _FLAGS and is_global:
            yield LibraryLoad(library=None, is_global=True)
        elif called in CALLS and arguments:
            first = arguments[0].value if isinstance(arguments[0], ast.Constant) else ...
            if isinstance(first, str):
                yield LibraryLoad(library=first.rpartition("/")[2], is_global=is_global)
            elif first is not None:  # CDLL(None) is the process itself
                yield LibraryLoad(library=None, is_global=is_global)
