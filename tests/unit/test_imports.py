"""Whose name Python code imports."""

import pytest

from wheelsmith.plan.recipe.static_setup_metadata import may_import


@pytest.mark.parametrize(
    ("source", "answer"),
    [
        (b"import tiny", True),
        (b"import os, tiny.sub as x", True),
        (b"def f():\n    from tiny.sub import x\n", True),
        (b"from . import tiny", False),
        (b"import tinyer", False),
        (b"# import tiny", False),
        (b"no Python, but tiny", False),
    ],
)
def test_whose_name_is_imported(source, answer):
    assert may_import(source, "tiny") is answer


def test_code_that_would_take_gigabytes_to_parse_is_not_parsed():
    assert may_import(b"a\n" * 10**6 + b"tiny", "tiny")
    assert not may_import(b"a\n" * 10**6, "tiny")
