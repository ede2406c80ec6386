"""Which worker gets which builds. The board uses no threads and no clock."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

# The share of the remaining work that a worker gets at once: half of its part, so that the last parts are small and all
# workers end at about the same time (Polychronopoulos and Kuck, Guided Self-Scheduling, 1987).
_PART = 0.5
MOST_LOSSES = 5  # lost workers after which a build is given up


@dataclass(slots=True, kw_only=True)
class BoardWorker:
    """A worker, and the builds that it has.

    :param power: its speed relative to others, such as its number of cores.
    """

    power: float
    builds: set[str] = field(default_factory=set)
    started: set[str] = field(default_factory=set)


class Board:
    """The builds of a run that wait or that a worker has.

    :param costs: build → estimated seconds of one core.
    :param needs: build → builds that must be done before.
    """

    def __init__(self, costs: Mapping[str, float], needs: Mapping[str, Collection[str]] | None = None) -> None:
        self._costs = dict(costs)
        self._needs = {build: set(others) for build, others in (needs or {}).items()}
        self._waiting = self._sorted(costs)
        self._workers: dict[str, BoardWorker] = {}
        self._losses = Counter[str]()

    @property
    def is_done(self) -> bool:
        """Return True if every build is done."""
        return not self._waiting and not any(worker.builds for worker in self._workers.values())

    @property
    def workers(self) -> Collection[str]:
        """Return the names of the workers."""
        return self._workers.keys()

    def add_worker(self, name: str, power: float) -> None:
        """Add a worker."""
        self._workers[name] = BoardWorker(power=power)

    def builds_of(self, worker: str) -> frozenset[str]:
        """Return the builds that a worker has."""
        return frozenset(self._workers[worker].builds)

    def take(self) -> tuple[str, tuple[str, ...]] | None:
        """Give waiting builds to the fastest worker that has none. Return both, or None if nothing can start.

        The longest builds go first. A slow worker gets none that would take longer than the rest of the run, unless no
        other worker is busy.
        """
        idle = [name for name, worker in self._workers.items() if not worker.builds]
        for name in sorted(idle, key=lambda name: (-self._workers[name].power, name)):
            if builds := self._choose(name):
                self._waiting = [build for build in self._waiting if build not in builds]
                self._workers[name].builds = set(builds)
                return name, builds
        return None

    def _choose(self, name: str) -> tuple[str, ...]:
        worker = self._workers[name]
        power = sum(each.power for each in self._workers.values())
        held = (build for each in self._workers.values() for build in each.builds)
        rest = (sum(map(self._costs.__getitem__, held)) + (waiting := self._sum(self._waiting))) / power
        most = _PART * waiting * worker.power / power
        chosen, total = list[str](), 0.0
        ready = [build for build in self._waiting if not self._needs.get(build)]
        for build in ready:
            cost = self._costs[build]
            fits = total + cost <= most if chosen else cost / worker.power <= rest
            if fits:
                chosen.append(build)
                total += cost
        if not chosen and not any(each.builds for each in self._workers.values()):
            return tuple(ready[:1])
        return tuple(chosen)

    def _sum(self, builds: Collection[str]) -> float:
        return sum(self._costs[build] for build in builds)

    def start(self, worker: str, build: str) -> None:
        """Note that a worker has started a build."""
        if worker in self._workers:
            self._workers[worker].started.add(build)

    def finish(self, build: str) -> None:
        """Note that a build is done, whoever has it."""
        for worker in self._workers.values():
            worker.builds.discard(build)
            worker.started.discard(build)
        for others in self._needs.values():
            others.discard(build)
        if build in self._waiting:
            self._waiting.remove(build)

    def remove_worker(self, name: str) -> tuple[str, ...]:
        """Remove a worker. Its builds wait again.

        :return: builds that are given up, because too many workers were lost while they built them.
        """
        worker = self._workers.pop(name)
        self._losses.update(worker.started & worker.builds)
        given_up = tuple(sorted(build for build in worker.builds if self._losses[build] >= MOST_LOSSES))
        again = worker.builds - set(given_up)
        self._waiting = self._sorted((*self._waiting, *again))
        return given_up

    def _sorted(self, builds: Iterable[str]) -> list[str]:
        """Return builds, the longest first."""
        return sorted(builds, key=lambda build: (-self._costs[build], build))
