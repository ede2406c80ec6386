"""What Python code imports by name."""

from __future__ import annotations

import ast
from collections.abc import Iterator


def imported(source: bytes) -> Iterator[str]:
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
