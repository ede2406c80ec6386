"""What a command's end comes to, in words."""

import pytest

from wheelsmith.engine import Exit, ExitReason, Limits
from wheelsmith.pipeline.failures import command_failed, lacks_declaration


@pytest.mark.parametrize(
    ("code", "line"),
    [
        (1, "as: out of memory allocating 2800000001 bytes after a total of 0 bytes"),
        (134, "terminate called without an active exception"),
    ],
)
def test_where_memory_may_have_been_refused_the_remedy_says_so(code, line):
    """An ordinary user's compiler gets no more than the limit, and ends in its own way."""
    exit_ = Exit(reason=ExitReason.EXITED, code=code, seconds=1.0)
    failure = command_failed("compile", "the compiler", exit_, Limits(memory=2**20), (line,)).failure
    assert failure.message == f"the compiler ended with exit code {code}"
    assert failure.remedy.startswith("if memory ran out: raise engine.memory")


def test_of_another_mistake_no_memory_is_blamed():
    exit_ = Exit(reason=ExitReason.EXITED, code=1, seconds=1.0)
    failure = command_failed("compile", "the compiler", exit_, Limits(), ("a.cpp:1: error: expected ';'",)).failure
    assert failure.remedy is None


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ('/work/src/a.cu(7): error: identifier "at" is undefined', True),
        ('/work/src/a.cu(7): error: namespace "torch" has no member "zeros_like"', True),
        ("a.cpp:3:5: error: 'Tensor' is not a member of 'at'", True),
        ("a.cpp:3:5: error: 'foo' was not declared in this scope; did you mean 'fool'?", True),
        ("a.cpp:3:5: error: invalid use of incomplete type 'class c10::Scalar'", True),
        ("a.cpp:3:5: error: expected ';' before '}' token", False),
        ("a.cpp:3:5: warning: 'x' was not declared", False),
        ('/work/src/a.cu(7): error: expected a ";"', False),
    ],
)
def test_a_missing_declaration_is_known(line, expected):
    assert lacks_declaration(["", line]) is expected
