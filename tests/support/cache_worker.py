"""What a process does that works in a cache until it is killed."""

from __future__ import annotations

import contextlib
import hashlib
import io
import random
import tempfile
import time
from pathlib import Path

from wheelsmith.base.errors import CacheInUseError
from wheelsmith.model import WheelRecord
from wheelsmith.model.events import ignore
from wheelsmith.store import Bounds, DamagedBlobError, Objects, Store, in_use, prune
from wheelsmith.toolchain import Toolchains

FILES = 100  # in a toolchain
NAMES = [f"{number:02x}" for number in range(24)]


def content(name: str) -> bytes:
    # Two plans, and two actions, have each content in common.
    return hashlib.shake_256(str(int(name, 16) // 2).encode()).digest(20_000)


def make_toolchain(folder: Path) -> None:
    for number in range(FILES):
        (folder / str(number)).write_text("x")


def run(cache: Path, chance: random.Random) -> bool:
    """Take or make some things; what was there once must be there until the end of the run."""
    store, objects = Store(cache / "store"), Objects(cache / "objects")
    with in_use(cache), tempfile.TemporaryDirectory(dir=cache.parent) as scratch:
        names = chance.sample(NAMES, 4)
        for name in names:
            data = content(name)
            origin = Path(scratch) / "origin"
            origin.write_bytes(data)
            wheel = WheelRecord(
                filename="k.whl",
                sha256=hashlib.sha256(data).hexdigest(),
                size=len(data),
                metadata_sha256="",
                requires_python=None,
            )
            if not store.find(name):
                store.put(name, origin, wheel)
            if not objects.find(name):
                objects.put(name, {"x.o": [data]}, ())
            toolchain = cache / "prefix" / f"cuda-{int(name, 16) % 4}"
            Toolchains(cache, ignore)._get_or_make(toolchain, make_toolchain)
            time.sleep(chance.uniform(0, 0.004))
        for name in names:
            assert len(list((cache / "prefix" / f"cuda-{int(name, 16) % 4}").iterdir())) == FILES
            assert store.find(name).path.read_bytes() == content(name)
            with contextlib.suppress(DamagedBlobError):
                file = io.BytesIO()
                objects.copy(objects.find(name).outputs["x.o"], file)
                assert file.getvalue() == content(name)
                continue
            raise AssertionError(f"object {name} was taken away")
    time.sleep(chance.uniform(0, 0.1))
    return True


def prune_some(cache: Path, chance: random.Random) -> bool:
    time.sleep(chance.uniform(0, 0.01))
    try:
        return bool(prune(cache, Bounds(size=chance.randrange(0, 1_500_000))).removed.items)
    except CacheInUseError:
        return False


def work(role: str, cache: Path, seed: int) -> None:
    """Work until killed; a line goes to ``<role>.log`` beside the cache for every round that did something."""
    chance = random.Random(seed)
    one_round = {"run": run, "prune": prune_some}[role]
    while True:
        if one_round(cache, chance):
            with cache.with_name(f"{role}.log").open("a") as log:
                log.write("done\n")
