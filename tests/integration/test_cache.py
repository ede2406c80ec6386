"""The cache on a real disk: what it holds, what goes, and what happens when a write or a process ends too soon."""

import contextlib
import fcntl
import hashlib
import io
import json
import multiprocessing
import os
import random
import shutil
import subprocess
import threading
import time
import warnings
from pathlib import Path

import cache_worker
import pytest
from command_line import run_command
from kernels import matrix, pure_kernel

from wheelsmith.base.beneath import make_read_only
from wheelsmith.base.errors import CacheInUseError
from wheelsmith.base.files import publish_tree, sha256_file
from wheelsmith.model import Timing, WheelRecord
from wheelsmith.model.events import ignore
from wheelsmith.store import (
    Bounds,
    DamagedBlobError,
    Kind,
    Objects,
    Output,
    Store,
    in_use,
    is_in_use,
    plan_prune,
    prune,
    take_inventory,
)
from wheelsmith.store.pruning import _Removal
from wheelsmith.toolchain import Toolchains
from wheelsmith.toolchain.integrity import manifest_path, write_manifest


def content(name: str, size: int = 10_000) -> bytes:
    return hashlib.shake_256(name.encode()).digest(size)


def put_wheel(cache: Path, plan: str, data: bytes) -> Path:
    origin = cache.parent / "origin.whl"
    origin.write_bytes(data)
    wheel = WheelRecord(
        filename="k-1-py3-none-any.whl",
        sha256=sha256_file(origin),
        size=len(data),
        metadata_sha256="0" * 64,
        requires_python=None,
    )
    return Store(cache / "store").put(plan, origin, wheel).path


def make_prefix(cache: Path, name: str, size: int = 50_000) -> Path:
    parts = cache / "prefix" / f".{name}.part-x"
    (parts / "include").mkdir(parents=True)
    (parts / "include" / "a.h").write_bytes(content(name, size))
    (parts / "lib64").symlink_to("lib")
    make_read_only(parts)
    write_manifest(parts, parts.with_name(name))
    publish_tree(parts, parts.with_name(name))
    (cache / "prefix" / f".{name}.lock").touch()
    return parts.with_name(name)


def use(path: Path, when: float) -> None:
    os.utime(path, (when, when))


def read_back(objects: Objects, output: Output) -> bytes:
    file = io.BytesIO()
    objects.copy(output, file)
    return file.getvalue()


def plan(cache: Path, name: str) -> Path:
    return cache / "store" / "plans" / f"{name}.json"


def action(cache: Path, key: str) -> Path:
    return cache / "objects" / "actions" / key[:2] / f"{key}.json"


def everything(cache: Path) -> list[str]:
    return sorted(str(path.relative_to(cache)) for path in cache.rglob("*") if not path.is_dir())


def dangling(cache: Path) -> list[str]:
    """Return what is named and is not there whole."""
    wrong = []
    for path in (cache / "store" / "plans").glob("*.json"):
        named = json.loads(path.read_bytes())
        wheel = cache / "store" / "wheels" / named["sha256"] / named["filename"]
        if not wheel.is_file() or sha256_file(wheel) != named["sha256"]:
            wrong.append(str(path))
    for path in (cache / "objects" / "actions").glob("*/*.json"):
        found = Objects(cache / "objects").find(path.stem)
        try:
            for output in found.outputs.values():
                Objects(cache / "objects").copy(output, io.BytesIO())
        except (AttributeError, DamagedBlobError):
            wrong.append(str(path))
    return wrong


@contextlib.contextmanager
def quiet_fork():
    """Fork although other tests may have left threads, of which newer Pythons warn."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        yield


@pytest.fixture
def cache(tmp_path):
    """Two plans with a wheel in common and one of its own, two actions likewise, prefixes, a survey and a lock."""
    cache = tmp_path / "cache"
    for name, data in (("old", "a"), ("new", "a"), ("lone", "b")):
        put_wheel(cache, name, content(data))
    objects = Objects(cache / "objects")
    objects.put("aa1", {"x.o": [content("x")], "y.o": [content("y")]}, ())
    objects.put("bb2", {"x.o": [content("x")]}, ("a line",))
    for number, name in enumerate(("cuda-13.0-x86_64-ab", "torch-2.11.0-x86_64-cd", "environment-3.12-x86_64-ef")):
        use(make_prefix(cache, name), 1000 + number)
    for name in ("podman-0-1.json", "seccomp-2.json"):
        (cache / "images").mkdir(exist_ok=True)
        (cache / "images" / name).write_text("{}")
    (cache / "locks").mkdir()
    (cache / "locks" / "1.json").write_text("[]")
    (cache / "costs.sqlite").write_bytes(b"costs")
    return cache


def leave_behind(cache: Path) -> list[Path]:
    """What a kill at each moment leaves."""
    left = [
        cache / "store/plans/.old.json.x1",
        cache / "store/wheels/.trash-1/k.whl",
        next((cache / "store/wheels").iterdir()) / ".k-1.whl.x2",
        cache / "store/wheels" / ("0" * 64) / "k-1.whl",
        cache / "objects/actions/aa/.aa1.json.x3",
        cache / "objects/blobs/00" / ("0" * 64),
        cache / "prefix/.cuda-13.1-x86_64-ab.part-x4/lib/x",
        cache / "prefix/.trash-2/x",
        cache / "prefix/tmp_x5/torch.whl",
        cache / "images/.podman-0-1.json.x6",
        cache / "locks/.1.json.x7",
        cache / "sources/.part-x9/setup.py",
        cache / "work/run-x8/lock",
    ]
    for path in left:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content("left"))
    return left


# --- looking ------------------------------------------------------------------------------------------------


def test_every_kind_is_counted(cache):
    left = leave_behind(cache)
    (cache / "sources" / ("5" * 64) / ("e" * 64)).mkdir(parents=True)
    (cache / "uv/wheels-v8").mkdir(parents=True)
    (cache / "prefix/wheel-torch-1").mkdir()
    stock = take_inventory(cache)
    counts = {kind.value: len(stock.of(kind).items) for kind in Kind}
    assert counts == {
        "wheels": 3,
        "objects": 2,
        "toolchains": 2,
        "environments": 2,
        "surveys": 2,
        "sources": 1,
        "leftovers": len(left),
    }
    assert sum(stock.of(kind).size for kind in Kind) == stock.size


# --- use ----------------------------------------------------------------------------------------------------


def test_whatever_is_of_use_says_so(cache, monkeypatch):
    for path in (plan(cache, "old"), action(cache, "aa1"), cache / "prefix/cuda-13.0-x86_64-ab"):
        use(path, 1000)
    start = time.time() - 5
    assert Store(cache / "store").find("old")
    assert Objects(cache / "objects").find("aa1")
    monkeypatch.setattr(Toolchains, "_path", lambda self, prefix: self._root / prefix)
    Toolchains(cache, ignore)._get_or_make(cache / "prefix/cuda-13.0-x86_64-ab", lambda _: pytest.fail("made again"))
    for path in (plan(cache, "old"), action(cache, "aa1"), cache / "prefix/cuda-13.0-x86_64-ab"):
        assert path.stat().st_mtime > start, path
    monkeypatch.setattr(os, "utime", refuse)
    assert Store(cache / "store").find("old")
    assert Objects(cache / "objects").find("aa1")


def refuse(*_, **__):
    raise PermissionError(1, "Operation not permitted")


# --- pruning ------------------------------------------------------------------------------------------------


def test_what_was_of_use_last_stays(cache):
    for number, name in enumerate(("old", "lone", "new")):
        use(plan(cache, name), 2000 + number)
    use(action(cache, "aa1"), 3000)
    use(action(cache, "bb2"), 3001)
    prune(cache, Bounds(since=2002))
    stock = take_inventory(cache)
    assert {item.path.name for item in stock.items} == {"new.json", "aa1.json", "bb2.json", "podman-0-1.json"}
    # The wheel that a plan that is gone had in common with one that stays.
    assert Store(cache / "store").find("new")
    assert len(list((cache / "store/wheels").iterdir())) == 1
    prune(cache, Bounds(since=3001))
    assert dangling(cache) == []
    assert len([path for path in (cache / "objects/blobs").rglob("*") if path.is_file()]) == 1


def test_a_cache_is_made_to_fit(cache):
    before = take_inventory(cache).size
    pruning = prune(cache, Bounds(size=before - 1))
    # The toolchain that was of use longest ago, and nothing more.
    assert [item.path.name for item in pruning.removed.items] == ["cuda-13.0-x86_64-ab"]
    assert take_inventory(cache).size == pruning.kept.size == before - pruning.freed
    for size in range(before, 0, -7000):
        prune(cache, Bounds(size=size))
        assert take_inventory(cache).size <= size
        assert dangling(cache) == []


def test_leftovers_always_go_and_nothing_else_does(cache):
    before = everything(cache)
    left = leave_behind(cache)
    foreseen = plan_prune(cache, Bounds())
    assert len(foreseen.removed.items) == len(left)
    prune(cache, Bounds())
    assert everything(cache) == sorted([*before, "in-use"])


def test_all_of_it_but_what_cannot_be_had_again(cache):
    leave_behind(cache)
    prune(cache, Bounds(since=float("inf")))
    assert [name for name in everything(cache) if not name.endswith(".lock")] == [
        "costs.sqlite",
        "images/seccomp-2.json",
        "in-use",
        "locks/1.json",
    ]


def test_a_folder_that_another_cache_shares_is_left_alone(cache, tmp_path):
    shared = (cache / "prefix").rename(tmp_path / "shared")
    (cache / "prefix").symlink_to(shared)
    before = everything(shared)
    assert before
    prune(cache, Bounds(since=float("inf")))
    assert everything(shared) == before


def test_a_prune_that_ends_at_any_moment_loses_nothing_that_is_named(cache, monkeypatch):
    """End it after every number of steps; what is left over goes the next time."""
    honest = _Removal.detach
    for steps in range(1, 40):
        shutil.rmtree(copy := cache.parent / "copy", ignore_errors=True)
        subprocess.run(["cp", "-a", cache, copy], check=True)
        taken = []

        def detach(self, path, taken=taken, steps=steps):
            if len(taken) == steps:
                raise KeyboardInterrupt
            taken.append(path)
            return honest(self, path)

        with monkeypatch.context() as patch:
            patch.setattr(_Removal, "detach", detach)
            patch.setattr(_Removal, "finish", lambda *_: None)
            with contextlib.suppress(KeyboardInterrupt):
                prune(copy, Bounds(since=float("inf")))
        assert dangling(copy) == []
        prune(copy, Bounds())
        assert not [name for name in everything(copy) if ".trash" in name]
        assert take_inventory(copy).of(Kind.LEFTOVERS).items == ()
        if len(taken) < steps:
            break
    assert 10 < steps < 39


# --- runs and prunes at once --------------------------------------------------------------------------------


def test_nothing_is_removed_while_a_run_is_going_on(cache):
    leave_behind(cache)
    with in_use(cache), in_use(cache):
        before = everything(cache)
        assert is_in_use(cache)
        with pytest.raises(CacheInUseError, match="in use by a run or another prune") as caught:
            prune(cache, Bounds(since=float("inf")))
        assert caught.value.exit_code == 4
        assert caught.value.remedy
        assert everything(cache) == before
    assert not is_in_use(cache)
    prune(cache, Bounds())


def test_a_run_waits_for_a_prune_to_make_way(cache):
    entered = threading.Event()

    def run():
        with in_use(cache):
            entered.set()

    with (cache / "in-use").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        thread = threading.Thread(target=run)
        thread.start()
        assert not entered.wait(0.3)
    assert entered.wait(10)
    thread.join()


def test_many_at_once_some_of_them_killed(tmp_path):
    """Runs and prunes side by side for some seconds, a random one killed every moment."""
    cache, chance = tmp_path / "cache", random.Random(7)
    roles = ["run", "run", "prune", "prune"]
    running = []

    def start(role):
        worker = multiprocessing.get_context("fork").Process(
            target=cache_worker.work, args=(role, cache, chance.randrange(1 << 30))
        )
        with quiet_fork():
            worker.start()
        return worker

    def done():
        logs = {role: tmp_path / f"{role}.log" for role in ("run", "prune")}
        return {role: len(log.read_text().splitlines()) if log.exists() else 0 for role, log in logs.items()}

    try:
        running = [start(role) for role in roles]
        end = time.monotonic() + 7
        # On a busy machine for longer: what is shown is what many of each leave behind.
        while (now := time.monotonic()) < end or (min(done().values()) < 5 and now < end + 120):
            time.sleep(chance.uniform(0.2, 0.6))
            victim = chance.randrange(len(roles))
            assert running[victim].exitcode is None
            running[victim].kill()
            running[victim].join()
            running[victim] = start(roles[victim])
        assert [worker.exitcode for worker in running] == [None] * len(roles)
    finally:
        for worker in running:
            worker.kill()
            worker.join()
    assert min(done().values()) >= 5, done()
    assert dangling(cache) == []
    prune(cache, Bounds())
    stock = take_inventory(cache)
    assert stock.of(Kind.LEFTOVERS).items == ()
    proofs = {manifest_path(path) for path in (cache / "prefix").glob("[!.]*")}
    assert not [path for path in cache.rglob(".*") if path.suffix != ".lock" and path not in proofs]
    prune(cache, Bounds(size=100_000))
    assert take_inventory(cache).size <= 100_000


# --- damage and full disks ----------------------------------------------------------------------------------


@pytest.mark.parametrize("harm", [lambda data: data[:-1], lambda data: data[:-1] + b"\0", lambda _: b""])
def test_a_damaged_wheel_is_as_good_as_none_until_it_is_made_again(harm, cache):
    path = put_wheel(cache, "old", content("a"))
    path.write_bytes(harm(path.read_bytes()))
    assert Store(cache / "store").find("old") is None
    assert Store(cache / "store").find("new") is None
    put_wheel(cache, "old", content("a"))
    assert Store(cache / "store").find("new").path.read_bytes() == content("a")


def test_how_long_its_build_took_is_kept_with_a_wheel(cache):
    store, took = Store(cache / "store"), (Timing(stage="compile", seconds=61.5), Timing(stage="check", seconds=0.25))
    found = store.find("old")
    assert found.timings == ()
    store.put("old", found.path, found.wheel, timings=took)
    assert Store(cache / "store").find("old").timings == took
    record = json.loads(plan(cache, "old").read_bytes())
    # As older versions wrote it, and as nobody does.
    for timings, answer in (({}, ()), ({"timings": [{"stage": 1}]}, None), ({"timings": 7}, None)):
        plan(cache, "old").write_text(json.dumps({**found.wheel.to_json(), **timings}))
        again = store.find("old")
        assert (again and again.timings) == answer
    assert record["sha256"] == found.wheel.sha256


@pytest.mark.parametrize("harm", [lambda data: data[:-100], lambda data: b"\0" + data[1:], lambda _: b""])
def test_a_damaged_blob_is_as_good_as_none_until_it_is_made_again(harm, cache):
    objects = Objects(cache / "objects")
    output = objects.find("aa1").outputs["x.o"]
    assert read_back(objects, output) == content("x")
    blob = cache / "objects/blobs" / output.sha256[:2] / output.sha256
    blob.write_bytes(harm(blob.read_bytes()))
    with pytest.raises(DamagedBlobError):
        read_back(objects, output)
    objects.put("cc3", {"x.o": [content("x")]}, ())
    assert read_back(objects, output) == content("x")


# --- the command --------------------------------------------------------------------------------------------


@pytest.fixture
def wheelsmith(cache, monkeypatch, capsys):
    monkeypatch.setenv("WHEELSMITH_CACHE", str(cache))
    monkeypatch.delenv("WHEELSMITH_CACHE_SIZE", raising=False)

    def run(*argv, **environment):
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        answer = run_command(monkeypatch, capsys, *argv)
        assert "Traceback" not in answer.err
        return answer

    return run


def test_info_tells_what_there_is(wheelsmith, cache):
    data = json.loads(wheelsmith("cache", "info", "--json", WHEELSMITH_CACHE_SIZE="1GiB").out)
    assert (data["path"], data["in_use"], data["limit"]) == (str(cache), False, 2**30)
    assert data["size"] == take_inventory(cache).size
    assert data["kinds"]["wheels"]["things"] == 3
    assert data["kinds"]["toolchains"]["oldest_use"] == "1970-01-01T00:16:40Z"
    assert data["kinds"]["leftovers"]["oldest_use"] is None
    with in_use(cache):
        assert "a run is in progress" in wheelsmith("cache", "info").out


def test_a_dry_run_tells_and_takes_nothing(wheelsmith, cache):
    before = everything(cache)
    answer = wheelsmith("cache", "prune", "--older-than", "30d", "--dry-run")
    assert "cuda-13.0-x86_64-ab" in answer.out
    assert "would be removed" in answer.out
    assert everything(cache) == before
    assert wheelsmith("cache", "prune", "--older-than", "30d").code == 0
    assert len(take_inventory(cache).items) == 3 + 2 + 1


def test_the_limit_of_the_environment_holds_for_prune_too(wheelsmith, cache):
    assert wheelsmith("cache", "prune").out.endswith("kept\n")
    assert len(take_inventory(cache).items) == 9
    wheelsmith("cache", "prune", "--max-size", "1MiB", WHEELSMITH_CACHE_SIZE="1B")
    assert len(take_inventory(cache).items) == 9
    wheelsmith("cache", "prune")
    assert take_inventory(cache).items == ()


@pytest.mark.parametrize(
    ("argv", "code", "says"),
    [
        (["--all", "--max-size", "1GiB"], 2, "--all cannot be used with --max-size"),
        (["--max-size", "0GiB"], 2, "not a size such as 8GiB"),
        (["--older-than", "1y"], 2, "30d"),
    ],
)
def test_a_wrong_option_is_told(argv, code, says, wheelsmith):
    answer = wheelsmith("cache", "prune", *argv)
    assert (answer.code, says in answer.err) == (code, True)


def test_a_limit_that_is_no_size_is_told_before_anything_is_done(wheelsmith, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for argv in (["cache", "info"], ["cache", "prune"], ["build-matrix"]):
        answer = wheelsmith(*argv, WHEELSMITH_CACHE_SIZE="plenty")
        assert answer.code == 2
        assert "WHEELSMITH_CACHE_SIZE: 'plenty' is not a size" in answer.err
        assert "40GiB" in answer.err


@pytest.mark.release("makes three whole runs")
def test_a_run_keeps_the_cache_to_its_limit(wheelsmith, cache, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pure_kernel(tmp_path / "k")
    matrix(tmp_path, "k")
    build = ["build-matrix", "--engine", "local", "--progress", "plain"]
    with in_use(cache):
        answer = wheelsmith(*build, WHEELSMITH_CACHE_SIZE="1B")
        assert answer.code == 0, answer.err
        assert len(take_inventory(cache).of(Kind.WHEELS).items) == 4
    # Nothing is new, so nothing is looked at.
    assert wheelsmith(*build).code == 0
    assert len(take_inventory(cache).of(Kind.WHEELS).items) == 4
    assert wheelsmith(*build, "--force").code == 0
    assert take_inventory(cache).items == ()
    assert len(list((tmp_path / "dist/wheels").iterdir())) == 1
