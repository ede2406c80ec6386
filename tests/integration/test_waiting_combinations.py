"""Combinations for another architecture wait for a machine that can build them."""

import json
from dataclasses import replace
from unittest import mock

import containers
import pytest
from compiled_projects import BASE, write_project
from factory import Factory

from wheelsmith.engine.installed_python import this_machine
from wheelsmith.index.entries.state import all_completeness
from wheelsmith.index.entries.stored_states import load_states
from wheelsmith.index.storage.folder import Folder

HERE, THERE = "cpu-x86_64-linux-cp311", "cpu-aarch64-linux-cp311"
ENGINE = ("--engine", "bwrap")


@pytest.fixture
def factory(tmp_path):
    containers.wanted("bwrap")
    factory = Factory.at(tmp_path)
    write_project(tmp_path / "base", BASE, name="base", version="2")
    (tmp_path / "matrix.yaml").write_text(
        'framework: none\nkernel: {path: base}\naxes: {cuda: [cpu], python: ["3.11"], arch: [x86_64, aarch64]}\n'
    )
    return factory


def run_on_aarch64(factory, *argv):
    """Run a command as if this machine had another architecture. It must not build anything."""
    machine = replace(this_machine(), machine="aarch64")
    with mock.patch("wheelsmith.engine.bwrap.this_machine", return_value=machine):
        return factory.run_in_process(*argv, *ENGINE)


def test_one_machine_builds_its_own_and_says_what_waits(factory):
    built = factory.run("build-matrix", *ENGINE)
    assert built.returncode == 0, built.stderr
    assert "1 combination → 1 build · 0 excluded, 1 waiting" in built.stderr
    assert "1 built · 1 waiting" in built.stderr
    assert "--arch aarch64" in built.stderr
    assert {name: cell["status"] for name, cell in factory.results().items()} == {HERE: "built", THERE: "waiting"}
    summary = (factory.folder / "dist/summary.md").read_text()
    assert f"| `{THERE}` | waiting |" in summary
    (state,) = load_states(Folder(factory.folder / "dist/index")).values()
    (version,) = all_completeness(state)
    assert version.missing == (THERE,)


def test_an_architecture_can_be_selected(factory):
    planned = factory.run("plan", "--arch", "x86_64", *ENGINE)
    assert (HERE in planned.stdout, THERE in planned.stdout) == (True, False)
    nothing = factory.run("plan", "--arch", "aarch64", *ENGINE)
    assert nothing.returncode == 3
    assert f"{THERE}  waiting" in nothing.stdout


def test_two_machines_build_one_plan(factory):
    """Here the waiting combination is of this machine, so that it can be built."""
    assert factory.run("plan", "--arch", "x86_64", "--shards", "2", "--shard-plan", "own.json", *ENGINE).returncode == 0
    alone = run_on_aarch64(factory, "plan", "--only", HERE)
    assert f"{HERE}  waiting" in alone.stdout
    shards = ("--shards", "1", "--format", "github-matrix")
    planned = run_on_aarch64(factory, "plan", "--only", HERE, "--add-plan", "own.json", *shards)
    assert planned.returncode == 0, planned.stderr
    assert json.loads(planned.stdout) == {"include": [{"shard": "2/3", "number": 2, "arch": "x86_64"}]}
    built = factory.run("build-matrix", "--shard", "2/3", "--out", "out", *ENGINE)
    assert built.returncode == 0, built.stderr
    joined = factory.run("join", "out", *ENGINE)
    assert joined.returncode == 0, joined.stderr
    assert factory.hashes() == factory.hashes("out")


def test_plans_of_other_sources_are_not_joined(factory):
    own = ("--shards", "1", "--shard-plan", "own.json")
    assert factory.run("plan", "--arch", "x86_64", *own, *ENGINE).returncode == 0
    (factory.folder / "base/more.h").write_text("")
    other = run_on_aarch64(factory, "plan", "--only", HERE, "--add-plan", "own.json", "--shards", "1")
    assert other.returncode == 2
    assert "the plans of two machines differ in kernel, trees" in other.stderr


def test_a_lock_keeps_what_another_machine_locked(factory):
    assert run_on_aarch64(factory, "lock").returncode == 0
    locked = (factory.folder / "wheelsmith.lock").read_text()
    assert (HERE in locked, THERE in locked) == (False, True)
    again = factory.run("lock", *ENGINE)
    assert again.returncode == 0, again.stderr
    both = (factory.folder / "wheelsmith.lock").read_text()
    assert (HERE in both, THERE in both) == (True, True)
    assert factory.run("plan", "--locked", *ENGINE).returncode == 0
    assert run_on_aarch64(factory, "plan", "--locked").returncode == 0
