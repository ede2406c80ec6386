"""The costs of builds, recorded from earlier runs to estimate when a run will end."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from wheelsmith.model import BuildPlan, CellFinished, Event, Status, StepFinished
from wheelsmith.store import Cost, Costs

_COMPILE = "compile"


class BuildCosts:
    """Listens to a run and records the cost of each build.

    :param costs: the table of recorded costs.
    """

    def __init__(self, costs: Costs, plans: Iterable[BuildPlan]) -> None:
        self._costs = costs
        self._plans = {plan.cell.id: plan for plan in plans}
        self._compiled: defaultdict[str, float] = defaultdict(float)
        self._reused: set[str] = set()

    def known(self) -> dict[str, float]:
        """Return cell ID → seconds of one core that its build took earlier, for builds with a known cost."""
        found = {name: self._costs.find(_cost_keys(plan)) for name, plan in self._plans.items()}
        return {name: cost.seconds for name, cost in found.items() if cost}

    def learn(self, costs: Mapping[str, float]) -> None:
        """Record the costs of builds on other machines.

        :param costs: cell ID → seconds of one core.
        """
        for name in costs.keys() & self._plans.keys():
            self._costs.learn(_cost_keys(self._plans[name]), Cost(seconds=costs[name], memory=0))

    def __call__(self, event: Event) -> None:
        """Record the costs in an event."""
        if isinstance(event, StepFinished):
            self._compiled[event.cell_id] += event.seconds
            if event.reused:
                self._reused.add(event.cell_id)
        elif isinstance(event, CellFinished) and event.result.status is Status.BUILT:
            name = event.result.cell.id
            # A build with reused objects costs less than it may next time, so it is not recorded.
            if name in self._plans and name not in self._reused:
                rest = sum(t.seconds for t in event.result.timings if t.stage != _COMPILE or not self._compiled[name])
                self._costs.learn(_cost_keys(self._plans[name]), Cost(seconds=self._compiled[name] + rest, memory=0))


def _cost_keys(plan: BuildPlan) -> tuple[str, ...]:
    wheel = f"build {plan.wheel.distribution} {plan.cell.compute} {plan.cell.arch}"
    return f"{wheel} {plan.cell.framework}{plan.cell.release}", wheel
