"""The cost of builds, learnt from those that were made: it tells when a run will end."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from wheelsmith.model import BuildPlan, CellFinished, Event, Status, StepFinished
from wheelsmith.store import Cost, Costs

_COMPILE = "compile"


class BuildCosts:
    """Listens to a run, and remembers what each of its builds came to.

    :param costs: where that is kept.
    """

    def __init__(self, costs: Costs, plans: Iterable[BuildPlan]) -> None:
        self._costs = costs
        self._plans = {plan.cell.id: plan for plan in plans}
        self._compiled: defaultdict[str, float] = defaultdict(float)
        self._reused: set[str] = set()

    def known(self) -> dict[str, float]:
        """Return the seconds of one core that each build took before; only those of which something is known."""
        found = {name: self._costs.find(_keys(plan)) for name, plan in self._plans.items()}
        return {name: cost.seconds for name, cost in found.items() if cost}

    def __call__(self, event: Event) -> None:
        """Take in what happened."""
        if isinstance(event, StepFinished):
            self._compiled[event.cell_id] += event.seconds
            if event.reused:
                self._reused.add(event.cell_id)
        elif isinstance(event, CellFinished) and event.result.status is Status.BUILT:
            name = event.result.cell.id
            # With pieces that were made before it came cheaper than it may the next time.
            if name in self._plans and name not in self._reused:
                rest = sum(t.seconds for t in event.result.timings if t.stage != _COMPILE or not self._compiled[name])
                self._costs.learn(_keys(self._plans[name]), Cost(seconds=self._compiled[name] + rest, memory=0))


def _keys(plan: BuildPlan) -> tuple[str, ...]:
    wheel = f"build {plan.wheel.distribution} {plan.cell.compute} {plan.cell.arch}"
    return f"{wheel} {plan.cell.framework}{plan.cell.release}", wheel
