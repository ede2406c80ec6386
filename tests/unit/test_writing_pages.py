"""Pages follow the state, whoever comes between."""

import json
import threading
from dataclasses import replace

import pytest

from wheelsmith.base.json_dataclass import by_lines
from wheelsmith.index.entries import IndexEntry, ProjectState
from wheelsmith.index.entries.state import add_entries, dump_state, load_state
from wheelsmith.index.publish.pages import project_pages
from wheelsmith.index.publish.writer import Index
from wheelsmith.index.storage.protocol import ConflictError, Listed, Stored
from wheelsmith.model import Cell

PAGE = "cpu/k/index.json"


class Memory:
    """A storage in a dict, which tells somebody before each reading and writing, while others wait."""

    name = "memory"

    def __init__(self, **content: bytes) -> None:
        self.content, self.tags = dict(content), dict.fromkeys(content, 0)
        self.before = lambda verb, key: None
        self.lock = threading.Lock()

    def read(self, key):
        with self.lock:
            self.before("read", key)
        return Stored(self.content[key], str(self.tags[key])) if key in self.content else None

    def stat(self, key):
        return Listed(key, len(self.content[key]), float("inf")) if key in self.content else None

    def swap(self, key, data, tag):
        with self.lock:
            self.before("swap", key)
        if tag != (str(self.tags[key]) if key in self.tags else None):
            raise ConflictError(key)
        self.write(key, data)

    def write(self, key, data):
        self.content[key], self.tags[key] = data, self.tags.get(key, 0) + 1

    def listing(self, prefix):
        return [Listed(key, len(data), 0.0) for key, data in self.content.items() if key.startswith(prefix)]

    def non_regular(self, prefix=""):
        return []

    def transaction(self, work):
        return work(self)


def entry(version: str) -> IndexEntry:
    return IndexEntry(
        filename=f"k-{version}-py3-none-any.whl",
        sha256="ab" * 32,
        size=7,
        requires_python=None,
        metadata_sha256="cd" * 32,
        upload_time="2026-01-02T03:04:05Z",
        cells=(Cell(release="2.11", toolkit=None, arch="x86_64"),),
    )


def state(*versions: str) -> bytes:
    return dump_state(add_entries(ProjectState(project="k"), [entry(version) for version in versions]))


def files(storage: Memory) -> list[str]:
    return [file["filename"].split("-")[1] for file in json.loads(storage.content[PAGE])["files"]]


@pytest.mark.parametrize("moment", [("read", PAGE), ("swap", PAGE), ("read", "_state/k.json")])
def test_a_wheel_that_comes_while_a_page_is_made_is_on_it(moment):
    storage = Memory(**{"_state/k.json": state("1")})

    def somebody_else(verb, key):
        if (verb, key) == moment:
            storage.before = lambda verb, key: None
            data = state("1", "2")
            for page, content in {"_state/k.json": data, **project_pages(load_state(data, "state", "k"))}.items():
                storage.write(page, content)

    storage.before = somebody_else
    Index(storage).repair()
    assert files(storage) == ["1", "2"]


def test_what_is_as_it_should_be_is_not_written_again():
    storage = Memory(**{"_state/k.json": state("1")})
    assert PAGE in Index(storage).repair()
    assert Index(storage).repair() == ()


def test_a_state_is_one_wheel_a_line_and_reads_back():
    data = state("1", "2")
    lines = data.decode().splitlines()
    assert [line for line in lines if "k-2-py3" in line and "k-1-py3" not in line]
    read = load_state(data, "state", "k")
    assert dump_state(read) == data
    assert dump_state(replace(read, entries=read.entries[:1])) == state("1")


@pytest.mark.parametrize("data", [{}, {"a": []}, {"b": [1, {"z": 1, "y": "ä"}], "a": {"c": [None, True]}, "d": "\n"}])
def test_lines_are_json(data):
    assert json.loads(by_lines(data)) == data
