"""The house keeps its own rules."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
MODULES = sorted((ROOT / "wheelsmith").rglob("*.py"))


def test_a_room_imports_only_from_lower_floors():
    command = [Path(sys.executable).parent / "lint-imports", "--no-cache"]
    answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert answer.returncode == 0, answer.stdout


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(ROOT)))
def test_modules_and_functions_are_small(path):
    text = path.read_text()
    assert text.count("\n") <= 360
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            assert node.end_lineno - node.lineno < 62, f"{node.name} is long"
