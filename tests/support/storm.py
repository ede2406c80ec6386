"""Many publishers at once, some of them killed, over a connection that fails: nothing may be lost."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from forged_inputs import make_forged, publish_honest
from wheels import make_wheel

from wheelsmith.base.errors import ExitCode
from wheelsmith.index.publish.verify import verify
from wheelsmith.index.publish.writer import Index
from wheelsmith.index.storage.protocol import Storage

SUPPORT = Path(__file__).parent


@dataclass
class Storm:
    """What is to happen.

    :param batch: how many wheels a publisher adds at a time.
    :param projects: over how many projects the wheels are spread.
    :param kills: how many publishers are killed.
    :param stay_dead: every so-many-th of these is not run again; 1 is all of them.
    :param forgers: how many more publish what lies or is damaged.
    :param pace: seconds from one kill to the next, on average.
    :param shared: version of the wheel that all publishers have.
    """

    publishers: int
    wheels: int
    batch: int
    projects: int
    kills: int
    stay_dead: int = 4
    forgers: int = 0
    pace: float = 0.15
    shared: str = "1!1"
    seed: int = 1


@dataclass
class Weather:
    """What happened."""

    seconds: float = 0.0
    killed: int = 0
    run_again: int = 0
    abandoned: int = 0
    reported: int = 0
    lost: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    refused: int = 0
    admitted: list[str] = field(default_factory=list)
    fixed: int = 0
    wrong: tuple[str, ...] = ()
    mended_again: tuple[str, ...] = ()
    found: int = 0


def make_wheels(folder: Path, storm: Storm) -> None:
    """Make each publisher's wheels; the last is the same for all."""
    for number in range(storm.publishers):
        for piece in range(storm.wheels - 1):
            compute = "cu130" if piece % 2 else "cpu"
            make_wheel(folder / f"{number}", f"k{piece % storm.projects}", f"{number}.{piece}+{compute}.torch2.9")
    shared = make_wheel(folder / "shared", "k0", f"{storm.shared}+cpu.torch2.9")
    for number in range(storm.publishers):
        (folder / f"{number}").mkdir(exist_ok=True)
        os.link(shared, folder / f"{number}" / shared.name)


def unleash(storm: Storm, target: str, storage: Storage, folder: Path, environ: dict[str, str]) -> Weather:
    """Run the publishers, kill some, repair, and see what is there."""
    weather = Weather()
    make_wheels(folder, storm)
    honest = publish_honest(storage, folder) if storm.forgers else None
    publish_all(storm, target, folder, environ, weather)
    index = Index(storage)
    weather.fixed = len(index.repair())
    weather.wrong = verify(storage)
    weather.fixed_again = index.repair()
    there = {entry.filename for state in index.states().values() for entry in state.entries}
    if honest:
        weather.admitted += sorted(name for name in there if name.startswith("k0-666."))
        weather.lost += [] if honest in there else [honest]
        there -= {honest}
    reported = {line for path in folder.glob("*.journal") for line in path.read_text().split() if line.endswith(".whl")}
    weather.found, weather.reported, weather.lost = len(there), len(reported), weather.lost + sorted(reported - there)
    return weather


class Crowd:
    """The publishers of a storm, each a process."""

    def __init__(self, storm: Storm, target: str, folder: Path, environ: dict[str, str]) -> None:
        self.storm, self.target, self.folder = storm, target, folder
        path = os.pathsep.join([str(SUPPORT), *filter(None, [environ.get("PYTHONPATH")])])
        self.environ = {**environ, "PYTHONPATH": path}
        self.running: dict[int, subprocess.Popen[bytes]] = {}

    def start(self, number: int) -> None:
        arguments = [self.target, self.folder / f"{number}", self.folder / f"{number}.journal", str(self.storm.batch)]
        with (self.folder / f"{number}.log").open("w") as log:
            self.running[number] = subprocess.Popen(
                [sys.executable, SUPPORT / "publisher.py", *arguments], env=self.environ, stderr=log
            )

    def start_forgers(self) -> dict[Path, subprocess.Popen[bytes]]:
        """Let everybody who lies publish, each on its own."""
        started = {}
        for number in range(self.storm.forgers):
            index = make_forged(self.folder / "forged" / f"{number}", number)
            command = [sys.executable, "-m", "wheelsmith", "publish", self.target, "--from", str(index)]
            with index.with_name("log").open("w") as log:
                started[index] = subprocess.Popen(command, env=self.environ, stderr=log)
        return started

    def has(self, number: int, word: str) -> bool:
        journal = self.folder / f"{number}.journal"
        return journal.exists() and word in journal.read_text().split()

    def gather(self) -> None:
        """Wait until all are ready, and let them go."""
        for number in range(self.storm.publishers):
            self.start(number)
        while not all(self.has(number, "ready") or process.poll() for number, process in self.running.items()):
            time.sleep(0.05)
        (self.folder / "go").touch()

    def bury(self, weather: Weather) -> None:
        """Forget those who ended, and keep what those said who failed."""
        for number, process in list(self.running.items()):
            if process.poll() is not None:
                del self.running[number]
                if process.returncode:
                    weather.failed.append((self.folder / f"{number}.log").read_text())

    def strike(self, chance: random.Random, weather: Weather) -> None:
        """Kill one that is at work."""
        victims = [number for number in self.running if self.has(number, "begun") and not self.has(number, "end")]
        if not victims:
            return
        time.sleep(chance.uniform(0, 2 * self.storm.pace))
        number = chance.choice(victims)
        self.running[number].kill()
        if self.running[number].wait() == 0:
            return  # it had just ended
        weather.killed += 1
        del self.running[number]
        if weather.killed % self.storm.stay_dead:
            self.start(number)
            weather.run_again += 1
        else:
            weather.abandoned += 1


def publish_all(storm: Storm, target: str, folder: Path, environ: dict[str, str], weather: Weather) -> None:
    crowd, chance = Crowd(storm, target, folder, environ), random.Random(storm.seed)
    crowd.gather()
    begin = time.monotonic()
    forgers = crowd.start_forgers()
    while crowd.running:
        crowd.bury(weather)
        if weather.killed < storm.kills:
            crowd.strike(chance, weather)
        time.sleep(0.02)
    for index, process in forgers.items():
        log = index.with_name("log")
        if process.wait() == ExitCode.ENVIRONMENT and log.read_text().startswith("error: "):
            weather.refused += 1
        else:
            weather.admitted.append(log.read_text())
    weather.seconds = round(time.monotonic() - begin, 1)
