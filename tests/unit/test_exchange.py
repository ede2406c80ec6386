"""Calls as a build's folder holds them, which the build can fill with what it likes."""

import json

import pytest

from wheelsmith.base.beneath import WorkFolder
from wheelsmith.pipeline import compiler_ipc as module
from wheelsmith.pipeline.compiler_ipc import BuildEndedError, BuildOverdueError, CallExchange, PendingCall, RefusedError

CALL = {"program": "gcc", "words": ["-c", "a.c", "-o", "a.o"]}


class Ticks:
    """Stands for the event that a build has ended, after some looks, and for a clock between them."""

    def __init__(self, most):
        self.left = most
        self.now = 0.0

    def wait(self, seconds):
        self.left -= 1
        self.now += 1.0
        return self.left < 0

    def monotonic(self):
        return self.now


@pytest.fixture
def exchange(tmp_path):
    WorkFolder.make(tmp_path / "work").__exit__(None, None, None)
    return CallExchange(tmp_path / "work", Ticks(4), 3600)


def ask(work, name, said):
    (work / "calls" / name).mkdir()
    (work / "calls" / name / "request").write_text(said if isinstance(said, str) else json.dumps(said))


def test_one_that_is_answered_makes_room(exchange, tmp_path):
    for number in range(300):
        ask(tmp_path / "work", f"{number}", CALL)
    calls = []
    for call in exchange.calls():
        call.end(0)
        calls.append(call.name)
    assert len(set(calls)) == len(calls) == 300


def test_what_is_long_or_no_request_is_no_call(exchange, tmp_path):
    work = tmp_path / "work"
    ask(work, "long", {"program": "gcc", "words": ["x" * (1 << 16)]})
    for number, said in enumerate(
        ["", "[", "[]", "{}", "[" * 50_000, '{"program": "gcc", "words": ["x"], "places": 1}']
    ):
        ask(work, f"odd-{number}", said)
    ask(work, "places", CALL | {"places": {"a": 1}})
    ask(work, "fine", CALL | {"places": {"a": "/a"}})
    assert [call.name for call in exchange.calls()] == ["fine"]


DEEP, LONG = "/work/src/" + "a/" * 3000 + "k.cu", "/work/src/" + "a" * 300 + ".cu"


@pytest.mark.parametrize(
    "said",
    [
        *(CALL | {"places": {"k.cu": place}} for place in (DEEP, LONG, "/work/src/k\0.cu", "/work/src/k\ud800.cu")),
        *(CALL | {"words": ["-c", word, "-o", "k.o"]} for word in (DEEP, LONG, "a\0.c", "a\ud800.c", "\udfff")),
        CALL | {"places": {"k.cu": "/" + ("a" * 200 + "/") * 40 + "k.cu"}},
        CALL | {"places": {"k.cu": "/work/src/" + "é" * 128 + ".cu"}},
        CALL | {"program": "g++\0"},
    ],
)
def test_what_no_compiler_is_called_with_is_refused_with_the_reason(said, exchange, tmp_path):
    """Paths of sources become folders outside of the sandbox: thousands of them held the whole run."""
    ask(tmp_path / "work", "evil", said)
    with pytest.raises(RefusedError, match=r"contains NUL or a lone surrogate|path that is too long"):
        list(exchange.calls())


def test_what_a_compiler_can_be_called_with_is_a_call(exchange, tmp_path):
    """Bytes that are no text, macros of any length, and folders as deep as real ones."""
    words = ["-c", "a\udcff.c", "-o", "a.o", "-DX=" + "a/" * 300 + "x" * 5000, "-Wl,-rpath," + "/a:" * 200]
    said = CALL | {"words": words, "places": {"k.cu": "/work/src/" + "a/" * 100 + "b" * 250 + ".cu"}}
    ask(tmp_path / "work", "honest", said)
    (call,) = exchange.calls()
    assert list(call.request.words) == words


@pytest.mark.parametrize(
    ("name", "do"),
    [
        ("answer-0", lambda call: call.run(None)),
        ("answer-0", lambda call: call.end(0)),
        ("answer-0~", lambda call: call.end(0)),
        ("object", lambda call: call.create_object()),
    ],
)
def test_a_folder_in_the_place_of_an_answer_is_told(name, do, exchange, tmp_path):
    ask(tmp_path / "work", "mine", CALL)
    (tmp_path / "work" / "calls" / "mine" / name).mkdir()
    (call,) = exchange.calls()
    for _ in range(2):  # the call is passed on to the compiler next: that has the same answer
        with pytest.raises(RefusedError, match="the answer to a compiler call cannot be written: Is a directory"):
            do(call)


@pytest.mark.parametrize("do", [lambda call: call.run(None), lambda call: call.end(0)])
def test_a_call_that_was_killed_is_over(do, exchange, tmp_path):
    """It takes its folder along; nothing is written there, and nobody waits."""
    ask(tmp_path / "work", "mine", CALL)
    (call,) = exchange.calls()
    assert isinstance(call, PendingCall)
    (tmp_path / "work" / "calls" / "mine" / "request").unlink()
    (tmp_path / "work" / "calls" / "mine").rmdir()
    with pytest.raises(BuildEndedError):
        do(call)
    assert call.is_over
    assert not (tmp_path / "work" / "calls" / "mine").exists()


@pytest.mark.parametrize(
    ("waits", "runs"),
    [(False, False), (True, False), (True, True)],
    ids=["works itself", "waits for a compilation", "has a command run"],
)
def test_what_a_build_waits_for_is_not_its_time(waits, runs, tmp_path, monkeypatch):
    WorkFolder.make(tmp_path / "work").__exit__(None, None, None)
    clock = Ticks(12)
    monkeypatch.setattr(module, "time", clock)
    ours = CallExchange(tmp_path / "work", clock, 2.5)
    if waits:
        ask(tmp_path / "work", "0", CALL)
    calls = ours.calls()
    if waits:
        next(calls).is_running = runs
    if waits and not runs:
        assert list(calls) == []
    else:
        with pytest.raises(BuildOverdueError):
            list(calls)
        assert clock.now == 3.0
