"""The cost of builds, learnt from those that were made: when a run will end, and what would make it shorter."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable

from wheelsmith.base.errors import SourceError
from wheelsmith.base.sanitize import some_of
from wheelsmith.model import BuildPlan, CellFinished, Event, Notice, Status, StepFinished, StepKind
from wheelsmith.plan.recipe.phases import PhaseKind
from wheelsmith.source.tree import SourceTree
from wheelsmith.store import Cost, Costs

_COMPILE = "compile"
# Directly; what includes them through a header of its own is not looked for.
_WHOLE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*[<"]torch/(all|extension|torch)\.h[>"]', re.MULTILINE)
_DEVICE = {PhaseKind.CUDAFE, PhaseKind.CICC}
_WORTH = 60.0  # seconds of compilers


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


class TorchHeaderCosts:
    """Listens to a run, and adds up the cost of device code that includes torch/all.h.

    :param source: of the kernel.
    """

    def __init__(self, plans: Iterable[BuildPlan], source: SourceTree) -> None:
        whole = [plan for plan in plans if not plan.project and plan.cell.settings.torch_headers == "whole"]
        steps = (step for plan in whole for step in plan.recipe.steps)
        sources = {step.source for step in steps if step.kind is StepKind.NVCC and step.source}
        self._cells = {plan.cell.id for plan in whole}
        self._sources = {path for path in sources if _includes_all(source, path)}
        self._seconds: defaultdict[str, float] = defaultdict(float)

    def __call__(self, event: Event) -> None:
        """Take in what happened."""
        if isinstance(event, StepFinished) and event.cell_id in self._cells and event.kind in _DEVICE:
            path = event.step.rpartition(": ")[0]
            if path in self._sources:
                self._seconds[path] += event.seconds

    def notice(self) -> Notice | None:
        """Return advice to use lighter headers, if they would save much."""
        seconds = sum(self._seconds.values())
        if seconds < _WORTH:
            return None
        text = (
            f"compilers took {seconds:.0f} s for {some_of(sorted(self._seconds))}, most of it for torch/all.h:"
            " torch-headers: light in matrix.yaml about halves that, where tensors and operators are all of torch"
            " that is used"
        )
        return Notice(level="info", text=text)


def _includes_all(source: SourceTree, path: str) -> bool:
    try:
        return bool(_WHOLE.search(source.read_bytes(path).decode(errors="replace")))
    except SourceError:
        return False
