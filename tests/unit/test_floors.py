"""The house keeps its own rules."""

import ast
import re
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

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


def drawn_floors(picture: str) -> list[list[str]]:
    """Return the floors of a drawing from the top: each of its lines is an arrow between two neighbours."""
    arrows = [line.strip().split(" --> ") for line in picture.splitlines() if "-->" in line]
    assert [below for _, below in arrows[:-1]] == [above for above, _ in arrows[1:]]
    return [sorted(floor.split(" & ")) for floor in (arrows[0][0], *(below for _, below in arrows))]


def test_the_drawings_of_the_rooms_are_right():
    """The drawings and tables of architecture.md show the floors that the contract keeps."""
    text = (ROOT / "docs" / "explanation" / "architecture.md").read_text()
    drawn = [drawn_floors(picture) for picture in re.findall(r"```mermaid\nflowchart TD\n(.*?)```", text, re.DOTALL)]
    assert drawn == [floors("wheelsmith")[1:], floors("wheelsmith.index")]  # __main__ is no room
    tables = [re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) for table in text.split("| package |")[1:]]
    assert [sorted(rooms) for rooms in tables] == [sorted(room for floor in each for room in floor) for each in drawn]


def test_there_are_few_doors():
    doors = [path for path in (ROOT / "wheelsmith").iterdir() if not path.name.startswith(("_", "py.typed"))]
    assert len(doors) <= 17


def functions() -> Iterator[tuple[Path, ast.FunctionDef]]:
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef):
                yield path.relative_to(ROOT), node


def test_modules_and_functions_are_small():
    assert [str(path) for path in MODULES if path.read_text().count("\n") > 500] == []
    assert [(str(path), node.name) for path, node in functions() if node.end_lineno - node.lineno >= 62] == []


def test_docstrings_say_return_only_where_something_is_returned():
    nothing = (
        each for each in functions() if isinstance(each[1].returns, ast.Constant) and each[1].returns.value is None
    )
    assert [
        (str(path), node.name) for path, node in nothing if (ast.get_docstring(node) or "").startswith("Return")
    ] == []


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
