"""Counts, as people read them: one file, two files."""

import ast
import re
from pathlib import Path

import pytest

import wheelsmith
from wheelsmith.base.errors import MatrixMistakesError, WheelsmithError
from wheelsmith.base.units import counted

PRODUCT = Path(wheelsmith.__file__).parent
# Nobody is told of one of these: what is said holds for none or for several.
NEVER_ONE = {
    " clauses on ",
    " environments to ask whether torch is required",
    " files are what RECORD says",
    " files end in ",
    " kinds of headers",
    " libraries or folders to look for them",
    " lines for ",
    " lines that require torch: more than ",
    " links are more than a page shows",
    " runs laid over one another, and only the last one's state is left",
}


@pytest.mark.parametrize(
    ("number", "said"),
    [(0, "0 files"), (1, "1 file"), (2, "2 files"), (11, "11 files"), (101, "101 files")],
)
def test_one_is_singular_and_all_else_is_not(number, said):
    assert counted(number, "file") == said


def test_a_plural_may_be_another_word():
    assert [counted(number, "process", "processes") for number in (1, 2)] == ["1 process", "2 processes"]


def test_mistakes_are_counted():
    assert str(MatrixMistakesError((WheelsmithError("a"),))) == "1 mistake"


def told_lengths(path):
    """Yield what follows each ``{len(…)}`` in a module's texts."""
    for text in ast.walk(ast.parse(path.read_text())):
        if isinstance(text, ast.JoinedStr):
            for value, after in zip(text.values, text.values[1:], strict=False):
                if isinstance(value, ast.FormattedValue) and isinstance(after, ast.Constant):
                    call = value.value.left if isinstance(value.value, ast.BinOp) else value.value
                    if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "len":
                        yield after.value


def test_nothing_that_is_counted_is_said_to_be_1_files():
    modules = sorted(PRODUCT.rglob("*.py"))
    assert len(modules) > 200
    plural = re.compile(r" (?!was\b|is\b)[a-z]+s\b")
    found = {text: path.name for path in modules for text in told_lengths(path) if plural.match(text)}
    assert {text: name for text, name in found.items() if text not in NEVER_ONE} == {}
