"""A publisher that is killed, or overtaken, at every one of its requests in turn."""

import hashlib
import json
import time
from functools import partial
from urllib.parse import unquote, urljoin

import pytest
from memory_storage import Interrupted, Killed, Memory, Mortal
from sampled import sampled
from wheels import make_wheel, offer

from wheelsmith.base.errors import PackageIndexError
from wheelsmith.index.entries.entry import ProjectStatus
from wheelsmith.index.entries.state import set_status, unyank, yank
from wheelsmith.index.publish.verify import verify
from wheelsmith.index.publish.writer import GRACE_SECONDS, Index
from wheelsmith.model import Cell

pytestmark = pytest.mark.usefixtures("in_process_worker")

NOW = "2026-01-02T03:04:05Z"
DAY = 86400.0


@pytest.fixture(scope="module")
def wheels(tmp_path_factory):
    """Three wheels of two projects, for two compute platforms."""
    folder = tmp_path_factory.mktemp("wheels")
    cpu, cuda = (Cell(release="2.9", toolkit=name, arch="x86_64") for name in (None, "13.0"))
    return [
        offer(make_wheel(folder, "a", "1+cpu.torch2.9"), cpu),
        offer(make_wheel(folder, "a", "1+cu130.torch2.9"), cuda),
        offer(make_wheel(folder, "b", "1+cpu.torch2.9"), cpu),
    ]


def add(storage, *offers):
    return Index(storage).add(offers, upload_time=NOW)


def assert_no_page_lies(storage):
    """What an installer can follow is there, and is what the page says: also in the middle of things."""
    for key, (data, _, _) in list(storage.files.items()):
        if key.startswith(("_state/", "files/")) or not key.endswith("index.json"):
            continue
        page = json.loads(data)
        for file in page.get("files", ()):
            there = storage.files[unquote(urljoin(f"http://host/{key}", file["url"])).removeprefix("http://host/")]
            assert hashlib.sha256(there[0]).hexdigest() == file["hashes"]["sha256"]
        for project in page.get("projects", ()):
            assert f"{key.removesuffix('index.json')}{project['name']}/index.html" in storage.files


@pytest.mark.parametrize("fix", sampled(["repair", "again"], "repair"))
def test_killed_at_any_request(fix, wheels):
    moments = 0
    while True:
        memory = Memory()
        add(memory, wheels[2])
        moments += 1
        mortal = Mortal(memory, moments)
        try:
            add(mortal, *wheels)
        except Killed:
            pass
        assert_no_page_lies(memory)
        if fix == "repair":
            Index(memory).repair()
        else:
            add(memory, *wheels)
        assert verify(memory) == ()
        assert Index(memory).repair() == ()
        if not mortal.happened:
            break
    assert moments > 30


def status(value):
    return lambda storage: Index(storage).change("a", lambda state: set_status(state, value, None))


def change(function, *arguments):
    return lambda storage: Index(storage).change("a", lambda state: function(state, "1", *arguments))


CHANGES = {
    "yank": change(yank, "bad"),
    "unyank": change(unyank),
    "archive": status(ProjectStatus.ARCHIVED),
    "quarantine": status(ProjectStatus.QUARANTINED),
    "repair": lambda storage: Index(storage).repair(),
    "collect": lambda storage: Index(storage).remove_unused(older_than=time.time() - GRACE_SECONDS),
}


PAIRS = [
    ("add", "add"),
    ("add", "quarantine"),
    ("add", "collect"),
    ("add", "archive"),
    ("yank", "unyank"),
    ("unyank", "yank"),
    ("yank", "add"),
    ("yank", "repair"),
]


@pytest.mark.parametrize(
    ("first", "second", "generations"),
    sampled(
        [*((*pair, False) for pair in PAIRS), ("yank", "unyank", True)],
        ("add", "add", False),
    ),
)
def test_overtaken_at_any_request(first, second, generations, wheels):
    """One writer does all of its work between two requests of another; nobody repairs anything afterwards."""
    works = {**CHANGES, "add": lambda storage: add(storage, wheels[1], wheels[2])}
    number = 0
    while True:
        memory = Memory(generations=generations)
        add(memory, wheels[0])
        number += 1
        overtaken = Interrupted(memory, number, partial(works[second], memory))
        try:
            works[first](overtaken)
        except PackageIndexError as error:
            assert "accepts no new wheels" in str(error)  # noqa: PT017  # only an archived project's
        assert_no_page_lies(memory)
        assert verify(memory) == ()
        if not overtaken.happened:
            break
    assert number > 5


def test_a_slower_writer_never_hides_what_a_faster_one_published(wheels):
    slow, fast = wheels[0], wheels[1]
    number, struck = 0, True
    while struck:
        memory = Memory()
        number += 1

        def overtake(memory=memory):
            add(memory, fast)
            memory.written.clear()

        overtaken = Interrupted(memory, number, overtake)
        add(overtaken, slow)
        struck = overtaken.happened
        pages = [json.loads(data) for key, data in memory.written if key == "simple/a/index.json"]
        if struck:
            assert all(fast.entry.filename in {file["filename"] for file in page["files"]} for page in pages)


def orphaned(wheels):
    """An index with one wheel, and the files of others that nobody refers to, ten days old."""
    memory = Memory()
    add(memory, wheels[0])
    other = Memory()
    add(other, *wheels[1:])
    memory.files.update({key: file for key, file in other.files.items() if key.startswith("files/")})
    for key in memory.files:
        memory.age(key, 10 * DAY)
    return memory


def test_what_is_collected_just_before_the_state_changes_is_there_again(wheels):
    class Collected(Memory):
        def swap(self, key, data, tag):
            if key == "_state/a.json":
                self.files = {k: file for k, file in self.files.items() if not k.startswith("files/")}
            super().swap(key, data, tag)

    memory = Collected()
    add(memory, wheels[0])
    assert verify(memory) == ()


def test_collecting_takes_what_nobody_refers_to(wheels):
    memory = orphaned(wheels)
    gone = CHANGES["collect"](memory)
    assert sorted(gone) == sorted(f"{w.entry.path}{end}" for w in wheels[1:] for end in ("", ".metadata"))
    assert verify(memory) == ()
    assert [key for key in memory.files if key.startswith("files/")] == [
        f"{wheels[0].entry.path}.metadata",
        wheels[0].entry.path,
    ]


@pytest.mark.release("thousands of moments; the same is tried at others")
def test_adding_is_safe_while_others_collect(wheels):
    number, struck = 0, True
    while struck:
        memory = orphaned(wheels)
        number += 1
        overtaken = Interrupted(memory, number, partial(CHANGES["collect"], memory))
        add(overtaken, *wheels)
        assert verify(memory) == ()
        struck = overtaken.happened
    assert number > 30


def test_collecting_is_safe_while_others_add_or_says_what_it_took(wheels):
    """Only a publisher who does everything between the last look at a file and its removal loses it, and is told."""
    number, struck, told = 0, True, 0
    while struck:
        memory = orphaned(wheels)
        number += 1
        overtaken = Interrupted(memory, number, partial(add, memory, *wheels))
        try:
            CHANGES["collect"](overtaken)
        except PackageIndexError as error:
            told += 1
            assert "published at the same moment" in str(error)  # noqa: PT017  # not at every moment
            assert verify(memory) != ()
            add(memory, *wheels)
        assert verify(memory) == ()
        struck = overtaken.happened
    # Of the four files that go, each has one such moment.
    assert told == 4


def test_what_is_in_use_is_not_sent_again_however_old(wheels):
    memory = Memory()
    add(memory, *wheels)
    for key in memory.files:
        memory.age(key, 100 * DAY)
    before = dict(memory.files)
    add(memory, *wheels)
    assert memory.files == before
