"""Parameters of one test of which the quick tier runs a sample."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

WHY = "the same property in other places; a sample of them is quick"


def sampled(values: Iterable[Any], *quick: Any) -> list[Any]:
    """Return every value as a parameter of a test; all but the quick ones wait for a release."""
    every = list(values)
    assert all(value in every for value in quick), quick
    return [value if value in quick else _released(value) for value in every]


def _released(value: Any) -> Any:
    arguments = value if isinstance(value, tuple) else (value,)
    return pytest.param(*arguments, marks=pytest.mark.release(WHY))
