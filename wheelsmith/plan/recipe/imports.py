"""What Python code imports by name."""

from __future__ import annotations

import ast
import string
from collections.abc import Iterator

# Signs that are no letters, of a file that is parsed: each may become a kilobyte of tree.
_MOST_CODE = 120_000
_LETTERS = (string.ascii_letters + string.digits + "_ \t\r").encode()


def may_import(source: bytes, module: str) -> bool:
    """Return whether code imports a module by its name, or is too long to be sure of it."""
    if module.encode() not in source:
        return False
    return len(source.translate(None, _LETTERS)) > _MOST_CODE or module in _imported(source)


def _imported(source: bytes) -> Iterator[str]:
    """Yield the top of every absolute import: ``a`` of ``import a.b`` and ``from a import c``; nothing of no Python."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return  # whoever imports it will be told
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            yield node.module.split(".")[0]
