"""The house keeps its own rules."""

import ast
import re
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
MODULES = sorted((ROOT / "wheelsmith").rglob("*.py"))


def test_a_room_imports_only_from_lower_floors():
    command = [Path(sys.executable).parent / "lint-imports", "--no-cache"]
    answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert answer.returncode == 0, answer.stdout


def floors(container: str) -> list[list[str]]:
    """Return the rooms of a package, floor by floor from the top."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (layers,) = (each["layers"] for each in contracts if each.get("containers") == [container])
    return [sorted(layer.split(" | ")) for layer in layers]


def test_the_picture_of_the_rooms_is_right():
    """What architecture.md draws, and its tables, are the floors that the contract keeps."""
    text = (ROOT / "docs" / "explanation" / "architecture.md").read_text()
    whole, index = re.findall(r"^(?:index:  )?(\w+(?: (?:→|\|) \w+)+)$", text, re.MULTILINE)
    drawn = [[sorted(floor.split(" | ")) for floor in line.split(" → ")] for line in (whole, index)]
    assert drawn == [floors("wheelsmith")[1:], floors("wheelsmith.index")]  # __main__ is no room
    tables = [
        [re.findall(r"`(\w+)`", row.split("|")[2]) for row in table.splitlines() if row.startswith("|") and "`" in row]
        for table in text.split("| floor | room |")[1:]
    ]
    for lines, table in zip(drawn, tables, strict=True):
        assert sorted(room for floor in lines for room in floor) == sorted(room for row in table for room in row)


def test_there_are_few_doors():
    doors = [path for path in (ROOT / "wheelsmith").iterdir() if not path.name.startswith(("_", "py.typed"))]
    assert len(doors) <= 17


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(ROOT)))
def test_modules_and_functions_are_small(path):
    text = path.read_text()
    assert text.count("\n") <= 500
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            assert node.end_lineno - node.lineno < 62, f"{node.name} is long"


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(ROOT)))
def test_what_returns_nothing_does_not_say_that_it_returns(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef) and isinstance(node.returns, ast.Constant) and node.returns.value is None:
            assert not (ast.get_docstring(node) or "").startswith("Return"), f"{node.name} returns None"


def test_two_classes_never_share_a_name():
    names = [
        (node.name, path.relative_to(ROOT))
        for path in MODULES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef)
    ]
    twice = {name for name, count in Counter(name for name, _ in names).items() if count > 1}
    assert [(name, str(path)) for name, path in names if name in twice] == []


def test_two_files_of_tests_never_share_a_name():
    """pytest takes one of them for the other, and none of all tests is collected."""
    names = Counter(path.name for path in (ROOT / "tests").rglob("test_*.py"))
    assert [name for name, count in names.items() if count > 1] == []
