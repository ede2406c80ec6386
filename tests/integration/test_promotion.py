"""Promotion from one channel of an index to another: all wheels of a version, or none."""

import json
from dataclasses import replace

import pytest
from memory_storage import Memory
from wheels import make_wheel, offer

from wheelsmith.base.errors import PackageIndexError
from wheelsmith.index.entries.entry import CellWithoutWheel, NoWheel, PlannedVersion, WheelOutcome, WheelTest
from wheelsmith.index.entries.state import record_test, remove, yank
from wheelsmith.index.publish.promote import Promotion, RequiredOutcome, promote
from wheelsmith.index.publish.verify import verify
from wheelsmith.index.publish.writer import Index
from wheelsmith.index.storage.folder import Folder
from wheelsmith.model import Cell

pytestmark = pytest.mark.usefixtures("in_process_worker")

NOW = "2026-01-02T03:04:05Z"
CPU = Cell(release="2.9", toolkit=None, arch="x86_64")
CUDA = Cell(release="2.9", toolkit="13.0", arch="x86_64")
WHEELS = {CPU.id: "kernel-1+cpu.torch2.9-py3-none-any.whl", CUDA.id: "kernel-1+cu130.torch2.9-py3-none-any.whl"}
ASKED = Promotion(project="kernel", version="1")


def fill(storage, folder, version="1", cells=(CPU, CUDA), planned=(CPU, CUDA), answers=()):
    """Publish the wheels of a version."""
    offers = [offer(make_wheel(folder, "kernel", f"{version}+{each.compute}.torch2.9"), each) for each in cells]
    plan = PlannedVersion(version=version, cells=tuple(sorted(each.id for each in planned)))
    plans = {"kernel": (plan,)} if planned else {}
    Index(storage).add(offers, upload_time=NOW, answers={"kernel": answers}, planned=plans)


@pytest.fixture
def channels(tmp_path):
    """Two folders; the first has a version that is whole."""
    nightly, stable = Folder(tmp_path / "index/nightly"), Folder(tmp_path / "index/stable")
    fill(nightly, tmp_path / "made")
    return nightly, stable


def names(storage):
    return [entry.filename for entry in Index(storage).entries("kernel")]


def say_tested(storage, outcome, chosen="1"):
    test = WheelTest(outcome=outcome, where="H200")
    Index(storage).change("kernel", lambda state: record_test(state, chosen, test))


def refused(channels, asked, reason):
    nightly, stable = channels
    with pytest.raises(PackageIndexError, match=reason):
        promote(nightly, stable, asked, stable.name)
    assert names(stable) == []
    assert not list(stable.listing("simple/"))


def test_a_version_goes_on_whole_with_what_is_said_of_it(channels):
    nightly, stable = channels
    say_tested(nightly, WheelOutcome.PASSED)
    promoted = promote(nightly, stable, ASKED, stable.name)
    assert [entry.filename for entry in promoted.new] == names(nightly) == names(stable)
    before, after = Index(nightly).known("kernel"), Index(stable).known("kernel")
    assert [replace(entry, upload_time=NOW) for entry in after.entries] == list(before.entries)
    assert after.planned == before.planned
    assert verify(stable) == ()
    assert verify(nightly) == ()


def test_promoted_again_it_takes_what_was_tested_since(channels):
    nightly, stable = channels
    promote(nightly, stable, ASKED, stable.name)
    say_tested(nightly, WheelOutcome.PASSED)
    again = promote(nightly, stable, replace(ASKED, tests=RequiredOutcome.PASSED), stable.name)
    assert (again.new, len(again.known)) == ((), 2)
    assert {entry.outcome for entry in Index(stable).entries("kernel")} == {WheelOutcome.PASSED}


def test_promoted_again_a_wheel_serves_what_it_serves_by_now(channels, tmp_path):
    nightly, stable = channels
    promote(nightly, stable, ASKED, stable.name)
    more = replace(CPU, release="2.10")
    Index(nightly).add([offer(make_wheel(tmp_path / "made", "kernel", "1+cpu.torch2.9"), more)], upload_time=NOW)
    promote(nightly, stable, ASKED, stable.name)
    cells = [[cell.id for cell in Index(each).known("kernel").entries[0].cells] for each in channels]
    assert cells[0] == cells[1] == sorted([CPU.id, more.id])


@pytest.mark.parametrize("left", [None, b"half of it"])
def test_promoted_again_it_brings_a_file_that_the_target_has_lost(channels, left):
    nightly, stable = channels
    promote(nightly, stable, ASKED, stable.name)
    lost = Index(stable).known("kernel").entries[0]
    if left is None:
        stable.delete(lost.path)
    else:
        stable.put(lost.path, left)
    assert verify(stable) != ()
    again = promote(nightly, stable, ASKED, stable.name)
    assert ([entry.filename for entry in again.new], len(again.known)) == ([lost.filename], 1)
    assert Index(stable).known("kernel").entries[0] == lost
    assert verify(stable) == ()


def test_other_versions_stay(channels, tmp_path):
    nightly, stable = channels
    fill(nightly, tmp_path / "made", version="2", cells=[CPU])
    promote(nightly, stable, ASKED, stable.name)
    assert names(stable) == list(WHEELS.values())
    refused((nightly, Folder(tmp_path / "other")), replace(ASKED, version="2"), f"without a wheel: {CUDA.id}")


@pytest.mark.parametrize("incomplete", [False, True])
def test_a_version_with_a_failed_cell_is_promoted_only_where_that_is_asked_for(tmp_path, incomplete):
    channels = Folder(tmp_path / "nightly"), Folder(tmp_path / "stable")
    failed = CellWithoutWheel(cell=CUDA, version="1", status=NoWheel.FAILED, reason="compile: failed")
    fill(channels[0], tmp_path / "made", cells=[CPU], answers=[failed])
    asked = replace(ASKED, incomplete=incomplete)
    if not incomplete:
        refused(channels, asked, f"without a wheel: {CUDA.id}")
        return
    promote(*channels, asked, channels[1].name)
    # The page of the channel says so, too.
    assert "Not complete" in channels[1].read("projects/kernel/index.html").data.decode()


def test_what_nobody_planned_is_not_known_to_be_whole(tmp_path):
    channels = Folder(tmp_path / "nightly"), Folder(tmp_path / "stable")
    fill(channels[0], tmp_path / "made", planned=())
    refused(channels, ASKED, "its planned combinations are not known")


@pytest.mark.parametrize(
    ("require", "outcome", "goes"),
    [
        (RequiredOutcome.NOT_FAILED, None, True),
        (RequiredOutcome.NOT_FAILED, WheelOutcome.FLAKY, True),
        (RequiredOutcome.NOT_FAILED, WheelOutcome.FAILED, False),
        (RequiredOutcome.TESTED, None, False),
        (RequiredOutcome.TESTED, WheelOutcome.FLAKY, True),
        (RequiredOutcome.TESTED, WheelOutcome.FAILED, False),
        (RequiredOutcome.PASSED, WheelOutcome.PASSED, True),
        (RequiredOutcome.PASSED, WheelOutcome.FLAKY, False),
        (RequiredOutcome.NOTHING, WheelOutcome.FAILED, True),
    ],
)
def test_one_wheel_decides_whether_all_go(channels, require, outcome, goes):
    nightly, stable = channels
    say_tested(nightly, WheelOutcome.PASSED, WHEELS[CPU.id])
    if outcome:
        say_tested(nightly, outcome, WHEELS[CUDA.id])
    asked = replace(ASKED, tests=require)
    if goes:
        assert len(promote(nightly, stable, asked, stable.name).new) == 2
    else:
        refused(channels, asked, f"{outcome or WheelOutcome.UNTESTED}: {WHEELS[CUDA.id].replace('+', '.')}")


def test_a_yanked_wheel_holds_it_back(channels):
    Index(channels[0]).change("kernel", lambda state: yank(state, WHEELS[CPU.id], "bad"))
    refused(channels, replace(ASKED, incomplete=True), "yanked: kernel-1")


def test_a_wheel_that_is_not_what_its_state_says_is_refused(channels):
    nightly = channels[0]
    path = Index(nightly).entries("kernel")[0].path
    nightly.put(path.rpartition("/")[0] + "/x", b"")
    (nightly._root / path).write_bytes(b"other")
    refused(channels, ASKED, "cannot be published|not the file")


def test_a_name_with_other_bytes_is_refused(channels, tmp_path):
    nightly, stable = channels
    other = make_wheel(tmp_path / "other", "kernel", "1+cpu.torch2.9", files={"more.py": b""})
    Index(stable).add([offer(other, CPU)], upload_time=NOW)
    before = Index(stable).known("kernel")
    with pytest.raises(PackageIndexError, match="other bytes"):
        promote(nightly, stable, ASKED, stable.name)
    assert Index(stable).known("kernel") == before


class Changing:
    """A storage that somebody changes once its wheels were read."""

    def __init__(self, storage, change):
        self._storage, self._change = storage, change

    def __getattr__(self, name):
        return getattr(self._storage, name)

    def read(self, key):
        found = self._storage.read(key)
        if key.endswith(".whl") and self._change:
            change, self._change = self._change, None
            change(self._storage)
        return found


@pytest.mark.parametrize("outcome", [WheelOutcome.PASSED, WheelOutcome.FAILED])
def test_what_changes_meanwhile_is_not_promoted_as_it_was(channels, outcome):
    nightly, stable = channels
    refused(
        (Changing(nightly, lambda storage: say_tested(storage, outcome)), stable), ASKED, "during the promotion|failed"
    )


def test_what_is_taken_from_the_target_meanwhile_is_not_half_of_a_version(channels, tmp_path):
    nightly, stable = channels
    first = [offer(make_wheel(tmp_path / "made", "kernel", "1+cpu.torch2.9"), CPU)]
    Index(stable).add(first, upload_time=NOW)

    def take(_):
        Index(stable).change("kernel", lambda state: remove(state, "1"))

    with pytest.raises(PackageIndexError, match=r"changed in .*stable during the promotion"):
        promote(Changing(nightly, take), stable, ASKED, stable.name)
    assert names(stable) == []
    promote(nightly, stable, ASKED, stable.name)
    assert len(names(stable)) == 2


def test_a_target_where_a_part_is_yanked_is_refused(channels):
    nightly, stable = channels
    promote(nightly, stable, ASKED, stable.name)
    Index(stable).change("kernel", lambda state: yank(state, WHEELS[CPU.id], "bad"))
    with pytest.raises(PackageIndexError, match="is yanked in"):
        promote(nightly, stable, ASKED, stable.name)


@pytest.mark.parametrize("worse", [0, 1])
def test_of_two_channels_words_on_a_test_the_worse_counts(channels, worse):
    nightly, stable = channels
    say_tested(nightly, WheelOutcome.PASSED)
    promote(nightly, stable, ASKED, stable.name)
    say_tested(channels[worse], WheelOutcome.FLAKY)
    for _ in range(2):
        promote(nightly, stable, ASKED, stable.name)
        assert {entry.outcome for entry in Index(stable).entries("kernel")} == {WheelOutcome.FLAKY}
    say_tested(nightly, WheelOutcome.PASSED)
    with pytest.raises(PackageIndexError, match="has other test results of kernel-1"):
        promote(nightly, stable, replace(ASKED, tests=RequiredOutcome.PASSED), stable.name)
    say_tested(stable, WheelOutcome.PASSED)
    again = promote(nightly, stable, replace(ASKED, tests=RequiredOutcome.PASSED), stable.name)
    assert (again.new, len(again.known)) == ((), 2)


def test_the_same_bytes_under_two_names_are_two_wheels(channels, tmp_path):
    """As one with a build number, whose METADATA agrees with both."""
    nightly, stable = channels
    promote(nightly, stable, ASKED, stable.name)
    wheel = make_wheel(tmp_path / "made", "kernel", "1+cpu.torch2.9")
    other = wheel.with_name("kernel-1+cpu.torch2.9-1-py3-none-any.whl")
    other.write_bytes(wheel.read_bytes())
    Index(nightly).add([offer(other, CPU)], upload_time=NOW)
    again = promote(nightly, stable, ASKED, stable.name)
    assert ([entry.filename for entry in again.new], len(again.known)) == ([other.name], 2)
    empty = Memory()
    assert len(promote(nightly, empty, ASKED, "empty").new) == 3
    assert (names(stable), verify(stable)) == (names(nightly), ())


def test_a_file_beside_a_wheel_with_other_bytes_is_mended(channels):
    nightly, stable = channels
    promote(nightly, stable, ASKED, stable.name)
    key = Index(stable).known("kernel").entries[0].path + ".metadata"
    stable.put(key, b"X" * stable.stat(key).size)
    assert len(promote(nightly, stable, ASKED, stable.name).new) == 1
    assert (promote(nightly, stable, ASKED, stable.name).new, verify(stable)) == ((), ())


def test_all_of_it_appears_at_once(channels):
    """Whoever reads the state between any two writes finds the version whole, or not at all."""
    seen = []

    class Watched(Memory):
        def swap(self, key, data, tag):
            super().swap(key, data, tag)
            if key == "_state/kernel.json":
                seen.append(len(json.loads(data)["entries"]))

    stable = Watched()
    promote(channels[0], stable, ASKED, "stable")
    assert seen == [2]


def test_the_commands(tmp_path, run):
    index = tmp_path / "index"
    fill(Folder(tmp_path / "built"), tmp_path / "made")
    assert run("publish", index, "--channel", "nightly", "--from", tmp_path / "built").code == 0
    words = ("promote", index, "kernel", "1", "--from", "nightly", "--to", "stable")
    held = run(*words, "--require", "passed")
    assert held.code == 1
    assert "not tested: kernel-1" in held.err
    assert run("index", "test", f"{index}/nightly", "kernel", "1", "passed", "--on", "H200").code == 0
    foreseen = run(*words, "--require", "passed", "--dry-run")
    assert not (index / "stable").exists()
    done = run(*words, "--require", "passed", "--json")
    assert json.loads(done.out)["new"] == list(WHEELS.values())
    stable = index / "stable"
    written = {path.relative_to(stable).as_posix() for path in stable.rglob("*") if path.is_file()}
    assert {line.split()[-1] for line in foreseen.out.splitlines()} == written - {"_state/.lock"}
    assert "2 wheels promoted" in run("promote", index, "kernel", "1.0", "--from", "nightly", "--to", "test").err
    assert "0 wheels promoted, 2 already there" in run(*words).err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("kernel", "2", "--from", "nightly", "--to", "stable"), "choose an available version: 1"),
        (("other", "1", "--from", "nightly", "--to", "stable"), "no project other"),
        (("kernel", "1+cpu", "--from", "nightly", "--to", "stable"), "only complete versions are promoted"),
        (("kernel", "x", "--from", "nightly", "--to", "stable"), "is not a version"),
        (("kernel", "1", "--from", "nightly", "--to", "../stable"), "is not a valid channel name"),
        (("kernel", "1", "--from", "nightly", "--to", "nightly"), "are the same channel"),
        (("kernel", "1", "--from", "nightly", "--to", "cu130"), "is not a valid channel name"),
        (("kernel", "1", "--from", "", "--to", "stable"), "is not a valid channel name"),
        (("kernel", "9" * 5000, "--from", "nightly", "--to", "stable"), "is not a version"),
    ],
)
def test_mistakes_are_named(channels, tmp_path, run, words, said):
    answer = run("promote", tmp_path / "index", *words)
    assert answer.code != 0
    assert said in answer.err


def test_old_versions_are_listed_no_more(tmp_path, run):
    nightly = Folder(tmp_path / "nightly")
    for day in (1, 2, 3):
        fill(nightly, tmp_path / "made", version=f"1.dev{day}")
    assert run("index", "retain", nightly.name, "kernel", "--keep", "2", "--older-than", "1d", "--dry-run").code == 0
    assert len(names(nightly)) == 6
    gone = run("index", "retain", nightly.name, "kernel", "--keep", "2")
    assert (gone.out.split(), len(names(nightly))) == (["1.dev1"], 4)
    assert verify(nightly) == ()
