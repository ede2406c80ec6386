"""What the house asks of its worker is there."""

import ast
from importlib import import_module
from pathlib import Path

import pytest

MODULES = (Path(__file__).parent.parent.parent / "wheelsmith").rglob("*.py")
OPERATIONS = sorted(
    {
        node.value
        for path in MODULES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith("wheelsmith.")
        if ":" in node.value and node.value.replace(":", "").replace(".", "").isidentifier()
    }
)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_an_operation_is_a_function(operation):
    module, _, name = operation.partition(":")
    assert callable(getattr(import_module(module), name))
