"""What doctor says of SECURITY.md's promises turns with the machine."""

from pathlib import Path

import pytest

from wheelsmith.engine import Exit, ExitReason, run_selftest
from wheelsmith.engine.cgroup import ControlGroup, NoGroupError
from wheelsmith.engine.sandbox_selftest import BOUNDED, DIES

SECURITY = (Path(__file__).parent.parent.parent / "SECURITY.md").read_text()

OF_WHEELSMITH = {
    "has its output read within the same limits",
    "cannot redirect wheelsmith to other files by a link",
}


class Machine:
    """An engine that answers what it is told to.

    :param inside: what the trial prints.
    :param reason: of every command that uses too much.
    """

    name = "fake"
    has_images = False
    isolates = True
    starts_fast = True

    def __init__(self, inside="{}", reason=ExitReason.TIMEOUT):
        self.inside, self.reason = inside, reason

    def run(self, command, on_line, cancel):
        if "-c" not in command.argv:
            on_line(self.inside)
            return Exit(reason=ExitReason.EXITED, code=0, seconds=0.1)
        return Exit(reason=self.reason, code=0, seconds=0.1)


def said_of(engine, monkeypatch, reason=None):
    """What is said of an engine, promise by promise, where control groups cannot be made for this reason."""

    def make_group(limits):
        if reason:
            raise NoGroupError(reason)
        return ControlGroup(folders=(), limits=limits)

    monkeypatch.setattr("wheelsmith.engine.sandbox_selftest.make_group", make_group)
    monkeypatch.setattr("wheelsmith.engine.sandbox_selftest._HOLDER", "")
    return {promise.what: promise for promise in run_selftest(engine, None)}


HELD = '{"network": [], "files": [], "environment": [], "calls": [], "host": []}'


def test_every_promise_is_one_of_those_that_security_md_gives(monkeypatch):
    said = said_of(Machine(HELD), monkeypatch)
    engines = SECURITY.partition("## Containment of builds")[2]
    rows = {line.split("|")[1].strip() for line in engines.splitlines() if line.startswith("| ")}
    assert set(said) == rows - {"", "---", *OF_WHEELSMITH}


def test_what_was_refused_holds(monkeypatch):
    said = said_of(Machine(HELD), monkeypatch)
    assert [what for what, promise in said.items() if not promise.holds] == [DIES]  # nothing was started to be killed
    assert "by control groups" in said[BOUNDED].found


@pytest.mark.parametrize("part", ["network", "files", "environment", "calls", "host"])
def test_what_worked_inside_does_not_hold(part, monkeypatch):
    said = said_of(Machine(HELD.replace(f'"{part}": []', f'"{part}": ["the moon can be reached"]')), monkeypatch)
    (broken,) = (promise for what, promise in said.items() if not promise.holds and what != DIES)
    assert broken.found == "the moon can be reached"


@pytest.mark.parametrize("words", ["", "python3: not found", "[]", "null", "{}"])
def test_what_could_not_be_tried_does_not_hold(words, monkeypatch):
    said = said_of(Machine(words), monkeypatch)
    assert sum(not promise.holds and "could not be tested" in promise.found for promise in said.values()) == 5 + 1


def test_what_uses_too_much_and_ends_well_is_not_bounded(monkeypatch):
    said = said_of(Machine(HELD, ExitReason.EXITED), monkeypatch)
    assert not said[BOUNDED].holds
    assert said[BOUNDED].found == "not limited: memory, processes, time, output, disk"


def test_without_control_groups_it_says_what_bounds_memory_and_why(monkeypatch):
    reason = "no control group can be created in /sys/fs/cgroup: Permission denied"
    said = said_of(Machine(HELD), monkeypatch, reason)
    assert said[BOUNDED].holds
    assert "ten times a second" in said[BOUNDED].found
    assert said[BOUNDED].found.endswith(reason)
