"""What a supervised process says is heard, whenever it says it."""

import os
import selectors
import time
from threading import Event

import pytest

from wheelsmith.engine import ExitReason, Limits
from wheelsmith.engine.process_tree import ProcessTree
from wheelsmith.engine.processes import SupervisedProcess


@pytest.fixture
def late(monkeypatch):
    """Come from every look at the pipe so late that the process said its words and ended meanwhile."""

    class Late(selectors.DefaultSelector):
        def select(self, timeout=None):
            if timeout:
                time.sleep(0.3)
                return []
            return super().select(timeout)

    monkeypatch.setattr(selectors, "DefaultSelector", Late)


def run(script, **limits):
    lines = []
    held = Limits(**limits)
    process = SupervisedProcess(
        argv=("/bin/sh", "-c", script),
        env=dict(os.environ),
        cwd="/",
        limits=held,
        folders=(),
        group=ProcessTree(limits=held),
    )
    return process.run(lines.append, Event()), lines


def test_the_last_words_of_a_process_are_heard(late):
    ended, lines = run("echo one; echo two; printf three")
    assert (ended.reason, lines) == (ExitReason.EXITED, ["one", "two", "three"])


def test_last_words_count_too(late):
    assert run("echo one; echo two", output=5)[0].reason is ExitReason.TOO_MUCH_OUTPUT


def test_one_that_is_left_behind_is_not_waited_for(late):
    ended, lines = run("echo one; sleep 60 & exit 3")
    assert (ended.code, lines) == (3, ["one"])
