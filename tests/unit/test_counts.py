"""Counts, as people read them: one file, two files."""

import pytest

from wheelsmith.base.errors import MatrixMistakesError, WheelsmithError
from wheelsmith.base.units import counted

# Nobody is told of one of these: what is said holds for none or for several.


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
