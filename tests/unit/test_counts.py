"""Counts, sizes and times, as people read them: one file, two files."""

import re
from pathlib import Path

import pytest

from wheelsmith.base.errors import MatrixMistakesError, WheelsmithError
from wheelsmith.base.units import counted, show_binary_size, show_duration, show_size

ROOT = Path(__file__).parent.parent.parent
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


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (0.4, "0.4s"),
        (5, "5s"),
        (12.4, "12s"),
        (59.6, "1m"),
        (65, "1m 5s"),
        (3599.4, "59m 59s"),
        (3600, "1h"),
        (7830, "2h 10m"),
        (1054800, "12d 5h"),
    ],
)
def test_durations(seconds, text):
    assert show_duration(seconds) == text


def test_sizes():
    assert [show_size(count) for count in (999, 97_300, 12_345_678)] == ["999 B", "97.3 kB", "12.3 MB"]
    kib = (64, 1536, 1 << 20)
    assert [show_binary_size(count << 10) for count in kib] == ["64 KiB", "1.5 MiB", "1 GiB"]


def test_sizes_and_times_are_formatted_in_one_place():
    size, time = r"\{[^{}]*(>> [123]0|\*\* ?[123]0|1e[369])[^{}]*\} ?[kKMGT]i?B", r":[.0-9]*[fg]\} ?(s|minutes)\b"
    own = re.compile(f"{size}|{time}")
    found = {path.name for path in (ROOT / "wheelsmith").rglob("*.py") if own.search(path.read_text())}
    assert found <= {"units.py"}
