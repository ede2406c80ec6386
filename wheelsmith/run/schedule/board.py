"""Which worker gets which build. The board uses no threads and no clock."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from math import ceil

MOST_LOSSES = 5  # lost workers after which a build is given up
# A worker gets another build before its cores are idle, if what it has takes less than these seconds.
_LOOKAHEAD = 10.0
_SLOW = 0.75  # the share of the best speed under which a worker is slow; estimates are about this exact
# A build that takes more than this share of the rest of the run is compiled in parts that take about as long.
_LONG = 0.1
_SHORTEST_PART = 60.0  # seconds of one core
_LINK = 10.0  # seconds of one core that linking, repair and check take


@dataclass(frozen=True, slots=True)
class BoardPart:
    """A part of a build: the compile steps ``number``, ``number + count`` and so on, counted from 0."""

    build: str
    number: int
    count: int

    @property
    def name(self) -> str:
        """Return a name for the board."""
        return f"{self.build} {self.number + 1}/{self.count}"


@dataclass(slots=True, kw_only=True)
class BoardWorker:
    """A worker, and the builds that it has.

    :param announced: speed of its cores in any unit, before it has done a build.
    :param is_idle: True if it has a core for which its builds have no task.
    :param expected: estimated seconds of the builds that it has done.
    :param measured: seconds that they took.
    """

    cores: int
    announced: float
    builds: set[str] = field(default_factory=set)
    started: set[str] = field(default_factory=set)
    is_idle: bool = False
    expected: float = 0.0
    measured: float = 0.0


class Board:
    """The builds of a run that wait or that a worker has.

    :param costs: build → estimated seconds of one core.
    :param steps: build → number of its compile steps, if several workers may compile them.
    """

    def __init__(self, costs: Mapping[str, float], steps: Mapping[str, int] | None = None) -> None:
        self._costs = dict(costs)
        self._steps = dict(steps or {})
        self.parts: dict[str, BoardPart] = {}  # by name
        self._needs: dict[str, set[str]] = {}  # build → its parts that are not done
        self._waiting = self._sorted(costs)
        self._workers: dict[str, BoardWorker] = {}
        self._changed: set[str] = set()  # workers that may want more
        self._losses = Counter[str]()
        self._rest = sum(costs.values())

    @property
    def is_done(self) -> bool:
        """Return True if every build is done."""
        return not self._waiting and not any(worker.builds for worker in self._workers.values())

    @property
    def workers(self) -> Collection[str]:
        """Return the names of the workers."""
        return self._workers.keys()

    def add_worker(self, name: str, cores: int, speed: float = 1.0) -> None:
        """Add a worker.

        :param speed: speed of its cores, in a unit that all workers share.
        """
        self._workers[name] = BoardWorker(cores=cores, announced=speed)
        self._changed.add(name)

    def builds_of(self, worker: str) -> frozenset[str]:
        """Return the builds that a worker has."""
        return frozenset(self._workers[worker].builds) if worker in self._workers else frozenset()

    def take(self) -> tuple[str, str] | None:
        """Give a waiting build to a worker that has too little to do. Return both, or None.

        The longest build goes to the fastest worker. A slow worker gets the shortest one, but none that would take
        longer than the rest of the run, unless all workers are idle.
        """
        if not self._waiting:
            return None
        self._changed = {name for name in self._changed if self._wants_more(self._workers[name])}
        for name in sorted(self._changed, key=lambda name: (-self._speed(self._workers[name]), name)):
            if build := self._choose(self._workers[name]):
                self._waiting.remove(build)
                self._workers[name].builds.add(build)
                self._workers[name].is_idle = False
                return name, build
        return None

    def _speed(self, worker: BoardWorker) -> float:
        """Return the speed of a worker's cores, relative to the estimates, within reason."""
        if worker.measured:
            return min(10.0, max(0.1, worker.expected / worker.measured))
        return worker.announced * len(self._workers) / sum(each.announced for each in self._workers.values())

    def _power(self, worker: BoardWorker) -> float:
        """Return the estimated seconds of work that a worker does in a second."""
        return worker.cores * self._speed(worker)

    def _wants_more(self, worker: BoardWorker) -> bool:
        if worker.builds - worker.started:
            return False  # another one would only wait there
        return worker.is_idle or sum(self._costs[build] for build in worker.builds) < _LOOKAHEAD * self._power(worker)

    def _choose(self, worker: BoardWorker) -> str | None:
        power, speed = sum(map(self._power, self._workers.values())), self._speed(worker)
        rest = self._rest / power
        is_slow = speed < _SLOW * max(map(self._speed, self._workers.values()))
        all_idle = not any(each.builds for each in self._workers.values())
        for build in reversed(self._waiting) if is_slow else self._waiting:
            if self._needs.get(build):
                continue
            if self._costs[build] > self._power(worker) * rest * _LONG and (
                parts := self._split(build, rest * _LONG * power / len(self._workers))
            ):
                return parts[0]
            if all_idle or not is_slow or self._costs[build] <= rest * speed:
                return build
        return None

    def _split(self, build: str, longest: float) -> list[str]:
        """Replace a build by its parts, which must be done first. Return their names, or nothing.

        :param longest: seconds of one core that a part may take.
        """
        cost = self._costs[build]
        count = min(self._steps.pop(build, 1), ceil(cost / max(longest, _SHORTEST_PART)))
        if count < 2:  # noqa: PLR2004  # one part is the whole
            return []
        made = [BoardPart(build, number, count) for number in range(count)]
        self.parts |= {part.name: part for part in made}
        self._needs[build] = {part.name for part in made}
        self._costs |= dict.fromkeys(self._needs[build], cost / count) | {build: _LINK}
        self._rest += _LINK
        self._waiting = self._sorted((*self._waiting, *self._needs[build]))
        return [part.name for part in made]

    def start(self, worker: str, build: str) -> None:
        """Note that a worker has started a build."""
        if worker in self._workers:
            self._workers[worker].started.add(build)
            self._changed.add(worker)

    def set_idle(self, worker: str, *, is_idle: bool) -> None:
        """Note whether a worker has a core for which its builds have no task."""
        if worker in self._workers:
            self._workers[worker].is_idle = is_idle
            self._changed.add(worker)

    def measure(self, worker: str, build: str, seconds: float) -> None:
        """Learn the speed of a worker from the seconds of one core that a build took there."""
        if worker in self._workers and seconds:
            self._workers[worker].expected += self._costs[build]
            self._workers[worker].measured += seconds

    def finish(self, build: str) -> None:
        """Note that a build is done, whoever has it."""
        if build in self._waiting or any(build in worker.builds for worker in self._workers.values()):
            self._rest -= self._costs[build]
        for name, worker in self._workers.items():
            if build in worker.builds:
                worker.builds.discard(build)
                worker.started.discard(build)
                self._changed.add(name)
        for others in self._needs.values():
            others.discard(build)
        if build in self._waiting:
            self._waiting.remove(build)

    def remove_worker(self, name: str) -> tuple[str, ...]:
        """Remove a worker. Its builds wait again.

        :return: builds that are given up, because too many workers were lost while they built them.
        """
        worker = self._workers.pop(name)
        self._changed.discard(name)
        self._losses.update(worker.started & worker.builds)
        given_up = tuple(sorted(build for build in worker.builds if self._losses[build] >= MOST_LOSSES))
        self._rest -= sum(self._costs[build] for build in given_up)
        self._waiting = self._sorted((*self._waiting, *(worker.builds - set(given_up))))
        return given_up

    def _sorted(self, builds: Iterable[str]) -> list[str]:
        """Return builds, the longest first."""
        return sorted(builds, key=lambda build: (-self._costs[build], build))
