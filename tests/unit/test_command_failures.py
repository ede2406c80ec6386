"""What a command's end comes to, in words."""

import pytest

from wheelsmith.engine import Exit, ExitReason, Limits
from wheelsmith.pipeline.failures import command_failed


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
