"""Find the shared libraries that Python code of a wheel loads by itself."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

# Functions of ctypes, cffi and torch that load a library.
CALLS = ("CDLL", "PyDLL", "LoadLibrary", "load_library", "dlopen")
_FLAGS = "setdlopenflags"
_GLOBAL = "RTLD_GLOBAL"


@dataclass(frozen=True, slots=True, kw_only=True)
class LibraryLoad:
    """A call that loads a library.

    :param library: its file name; None if it is no literal.
    :param for_all: libraries that are loaded later see its symbols (RTLD_GLOBAL).
    """

    library: str | None
    for_all: bool


def read_loads(source: bytes) -> frozenset[LibraryLoad]:
    """Return the calls of a Python file; none if it cannot be parsed."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return frozenset()
    return frozenset(_loads(tree))


def _loads(tree: ast.Module) -> Iterator[LibraryLoad]:
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        called = getattr(node.func, "attr", getattr(node.func, "id", ""))
        arguments = [*node.args, *(keyword.value for keyword in node.keywords)]
        for_all = any(_GLOBAL in (getattr(n, "attr", ""), getattr(n, "id", "")) for a in arguments for n in ast.walk(a))
        if called == _FLAGS and for_all:
            yield LibraryLoad(library=None, for_all=True)
        elif called in CALLS and arguments:
            first = arguments[0].value if isinstance(arguments[0], ast.Constant) else ...
            if isinstance(first, str):
                yield LibraryLoad(library=first.rpartition("/")[2], for_all=for_all)
            elif first is not None:  # CDLL(None) is the process itself
                yield LibraryLoad(library=None, for_all=for_all)
