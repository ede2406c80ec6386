"""Which libraries Python code of a wheel loads by itself, read from the calls and never from words."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

# What loads a library, of ctypes, cffi and torch.
CALLS = ("CDLL", "PyDLL", "LoadLibrary", "load_library", "dlopen")
_FLAGS = "setdlopenflags"
_GLOBAL = "RTLD_GLOBAL"


@dataclass(frozen=True, slots=True, kw_only=True)
class LibraryLoad:
    """One call that loads a library.

    :param library: its file name; None where the code puts it together.
    :param for_all: what is loaded afterwards sees its symbols (RTLD_GLOBAL).
    """

    library: str | None
    for_all: bool


def read_loads(source: bytes) -> frozenset[LibraryLoad]:
    """Return what a Python file loads; nothing where it cannot be parsed.

    :param source: of the file.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return frozenset()
    return frozenset(_loads(tree))


def _loads(tree: ast.Module) -> Iterator[LibraryLoad]:
    for node in _alive(tree):
        if not isinstance(node, ast.Call):
            continue
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if called == _FLAGS and _asks_for_all(node):
            yield LibraryLoad(library=None, for_all=True)
        elif called in CALLS and (node.args or node.keywords):
            first = node.args[0] if node.args else node.keywords[0].value
            if not isinstance(first, ast.Constant):
                yield LibraryLoad(library=None, for_all=_asks_for_all(node))
            elif isinstance(first.value, str):  # CDLL(None) is the process itself
                yield LibraryLoad(library=first.value.rpartition("/")[2], for_all=_asks_for_all(node))


def _asks_for_all(call: ast.Call) -> bool:
    """Say whether a call names RTLD_GLOBAL, or a mode that is put together elsewhere."""
    arguments = [*call.args, *(keyword.value for keyword in call.keywords)]
    return any(getattr(n, "attr", getattr(n, "id", None)) == _GLOBAL for a in arguments for n in ast.walk(a))


def _alive(tree: ast.Module) -> Iterator[ast.AST]:
    """Walk over everything but what stands after a condition that is never true."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        if isinstance(node, ast.If | ast.While) and isinstance(node.test, ast.Constant) and not node.test.value:
            waiting += node.orelse
        else:
            waiting += ast.iter_child_nodes(node)
