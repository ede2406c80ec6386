"""Many who publish and promote at once, some of them killed: whoever reads a channel finds a version whole, or not."""

import json
import os
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import pytest
from flaky_proxy import Faults, FlakyProxy
from loopback_s3 import BUCKET, CLOUDS, environment, loopback_s3, needs_s3, only
from wheels import make_wheel, offer

from wheelsmith.index.entries.entry import PlannedVersion
from wheelsmith.index.publish.verify import verify
from wheelsmith.index.publish.writer import Index
from wheelsmith.index.storage.location import open_storage
from wheelsmith.model import Cell

SUPPORT = Path(__file__).parent.parent / "support"
CELLS = [Cell(release=torch, toolkit=cuda, arch="x86_64") for torch in ("2.9", "2.10") for cuda in (None, "13.0")]
PLANNED = tuple(sorted(cell.id for cell in CELLS))
VERSIONS = [f"1.dev{number}" for number in range(6)]
PROMOTERS, KILLS = 3, 4
BAD_DAY = {"409": 11, "412": 7, "500": 53, "503": 61, "500-done": 47, "silence-done": 197, "cut-done": 67}
PATIENCE = 3.0


def publish_one_by_one(storage, folder):
    """Publish each version a wheel at a time, as the jobs of a pipeline may."""
    for version in VERSIONS:
        for cell in CELLS:
            wheel = make_wheel(folder, "k", f"{version}+{cell.compute}.torch{cell.release}")
            plans = {"k": [PlannedVersion(version=version, cells=PLANNED)]}
            Index(storage).add([offer(wheel, cell)], upload_time="2026-01-02T03:04:05Z", planned=plans)


class Reader(threading.Thread):
    """Reads what a channel offers again and again, and keeps every version that was not whole."""

    def __init__(self, storage):
        super().__init__()
        self.storage, self.halves, self.reads, self.done = storage, [], 0, threading.Event()

    def run(self):
        while not self.done.is_set():
            self.stat()

    def stat(self):
        self.reads += 1
        whole = {"simple": len(CELLS), "cpu": len(CELLS) // 2, "cu130": len(CELLS) // 2}
        for root, number in whole.items():
            page = self.storage.read(f"{root}/k/index.json")
            files = json.loads(page.data)["files"] if page else []
            found = Counter(file["filename"].split("-")[1].partition("+")[0] for file in files)
            self.halves += [(root, version, count) for version, count in found.items() if count != number]


def promoters(nightly, stable, folder, environ, chance):
    """Run promoters of every version, in orders of their own; kill some, and run those again."""
    environ = {**environ, "PYTHONPATH": os.pathsep.join([str(SUPPORT), environ.get("PYTHONPATH", "")])}
    running, killed = {}, 0

    def start(number):
        order = chance.sample(VERSIONS, len(VERSIONS))
        arguments = [SUPPORT / "promoter.py", nightly, stable, folder / f"{number}.journal", "k", *order]
        with (folder / f"{number}.log").open("w") as log:
            running[number] = subprocess.Popen([sys.executable, *arguments], env=environ, stderr=log)

    for number in range(PROMOTERS):
        start(number)
    while running:
        time.sleep(0.05)
        for number, process in list(running.items()):
            if process.poll() is not None:
                assert process.returncode == 0, (folder / f"{number}.log").read_text()
                del running[number]
        journals = {number: (folder / f"{number}.journal") for number in running}
        at_work = [number for number, journal in journals.items() if journal.exists()]
        if killed < KILLS and at_work:
            time.sleep(chance.uniform(0, 0.3))
            number = chance.choice(at_work)
            running[number].kill()
            # One that has just ended was not killed.
            if running[number].wait() != 0:
                killed += 1
                start(number)
    return killed


def storm(nightly, stable, folder, environ):
    source, target = open_storage(nightly), open_storage(stable)
    reader = Reader(target)
    publishing = threading.Thread(target=publish_one_by_one, args=(source, folder / "made"))
    reader.start()
    publishing.start()
    try:
        # All of them, unless they were done before.
        assert promoters(nightly, stable, folder, environ, random.Random(1)) >= KILLS / 2
    finally:
        publishing.join()
        reader.done.set()
        reader.join()
    reader.stat()
    assert reader.halves == []
    assert reader.reads > KILLS
    entries = Index(target).entries("k")
    assert len(entries) == len(VERSIONS) * len(CELLS)
    Index(target).repair()
    assert verify(target) == ()
    assert {(entry.filename, entry.sha256) for entry in entries} == {
        (entry.filename, entry.sha256) for entry in Index(source).entries("k")
    }


@pytest.mark.release("many processes publish for a minute")
def test_in_a_folder(tmp_path):
    storm(str(tmp_path / "nightly"), str(tmp_path / "stable"), tmp_path, dict(os.environ))


@pytest.mark.release("another storage: the folder's storm is quick")
@needs_s3
def test_in_a_bucket_on_a_bad_day(tmp_path):
    clean = {name: value for name, value in os.environ.items() if not name.startswith(CLOUDS)}
    with loopback_s3() as port, FlakyProxy(port, Faults(BAD_DAY, patience=PATIENCE)) as proxy:
        environ = clean | environment(proxy.url, patience=PATIENCE)
        with only(environment(f"http://127.0.0.1:{port}")):
            storm(f"s3://{BUCKET}/kernels/nightly", f"s3://{BUCKET}/kernels/stable", tmp_path, environ)
        assert len(proxy.faults.done) > len(BAD_DAY) / 2
