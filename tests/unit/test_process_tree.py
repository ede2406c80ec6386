"""How a tree of processes is held where no control group can be made."""

import os
import subprocess

import pytest

from wheelsmith.engine import Limits, process_tree
from wheelsmith.engine.process_tree import ProcessTree, process_limit, shared_process_limit

SLEEPERS = "for n in 1 2 3 4 5 6 7 8; do sleep 60 & done; echo up; wait"


@pytest.fixture
def family():
    """A shell and what it started, in a session of its own."""
    with subprocess.Popen(["sh", "-c", SLEEPERS], stdout=subprocess.PIPE, start_new_session=True) as process:
        process.stdout.readline()
        yield process
        ProcessTree(limits=Limits()).kill()
        for pid in process_tree.processes_below((process.pid,)):
            os.kill(pid, 9)


def test_what_nobody_holds_is_noticed_by_what_is_left(family, monkeypatch):
    """Shared memory behind one mapped page is in no process's account."""
    left = [20 * 2**30, 2**30 + 1, 2**30 - 1]
    monkeypatch.setattr(process_tree, "available_memory", lambda: left.pop(0))
    tree = ProcessTree(limits=Limits(memory=2**30))
    assert tree.watch(family.pid)
    tree._next_time = 0.0
    assert not tree.watch(family.pid)
    assert tree.out_of_memory()


def test_parents_are_killed_before_their_children(family, monkeypatch):
    """Whoever is told that a child ended could start another one."""
    killed = []
    tree = ProcessTree(limits=Limits())
    tree.watch(family.pid)
    monkeypatch.setattr(os, "kill", lambda pid, signal: killed.append(pid))
    tree.kill()
    monkeypatch.undo()
    assert killed[0] == family.pid
    assert len(killed) == 9


@pytest.mark.parametrize(
    ("release", "apart"),
    [("5.14.0-570.el9.x86_64", True), ("6.18.44-fc", True), ("6.1.0-13-amd64", True), ("5.10.0-28-amd64", False)],
)
def test_older_kernels_count_all_of_a_users_processes(release, apart):
    limits = Limits(pids=64)
    assert (process_limit(limits, release) == 64) is apart
    assert shared_process_limit(limits) > 64
