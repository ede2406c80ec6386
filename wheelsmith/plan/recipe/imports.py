"""What Python code imports by name."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator

from wheelsmith.base.parse_cost import parsing_cost

_MOST_CODE = 120_000  # of what a file costs to parse


def may_import(source: bytes, module: str) -> bool:
    """Return whether code imports a module by its name, or is too long to be sure of it."""
    if module.encode() not in source:
        return False
    return _is_long(source) or module in _imported(source)


def parse_code(source: bytes) -> ast.Module | None:
    """Return the tree of a file of Python; None of what is none, or is longer than anybody writes."""
    if _is_long(source):
        return None
    try:
        with warnings.catch_warnings(action="ignore"):  # of escapes that are none: whoever wrote it may want to know
            return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None  # whoever runs it will be told


def _is_long(source: bytes) -> bool:
    return parsing_cost(source) > _MOST_CODE


def _imported(source: bytes) -> Iterator[str]:
    """Yield the top of every absolute import: ``a`` of ``import a.b`` and ``from a import c``."""
    tree = parse_code(source)
    for node in ast.walk(tree) if tree else ():
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            yield node.module.split(".")[0]
