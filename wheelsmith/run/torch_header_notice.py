"""Say what torch's whole headers cost a run, where a word in matrix.yaml would halve it."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable

from wheelsmith.base.errors import SourceError
from wheelsmith.base.sanitize import some_of
from wheelsmith.model import BuildPlan, Event, Listener, Notice, StepFinished, StepKind
from wheelsmith.plan.recipe import PhaseKind
from wheelsmith.source import SourceTree

# Directly; what includes them through a header of its own is not looked for.
_WHOLE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*[<"]torch/(all|extension|torch)\.h[>"]', re.MULTILINE)
_DEVICE = {PhaseKind.CUDAFE, PhaseKind.CICC}
_WORTH = 60.0  # seconds of compilers


class HeaderAdvice:
    """Listens to a run, and adds up what its device code with torch/all.h has cost.

    :param source: of the kernel.
    """

    def __init__(self, plans: Iterable[BuildPlan], source: SourceTree) -> None:
        whole = [plan for plan in plans if not plan.project and plan.cell.settings.torch_headers == "whole"]
        sources = {
            step.source: None
            for plan in whole
            for step in plan.recipe.steps
            if step.kind is StepKind.NVCC and step.source
        }
        self._cells = {plan.cell.id for plan in whole}
        self._sources = {path for path in sources if _includes_all(source, path)}
        self._seconds: defaultdict[str, float] = defaultdict(float)

    def __call__(self, event: Event) -> None:
        """Take in what happened."""
        if isinstance(event, StepFinished) and event.cell_id in self._cells and event.kind in _DEVICE:
            path = event.step.rpartition(": ")[0]
            if path in self._sources:
                self._seconds[path] += event.seconds

    def tell(self, listen: Listener) -> None:
        """Say it, where it is worth it."""
        seconds = sum(self._seconds.values())
        if seconds >= _WORTH:
            text = (
                f"compilers took {seconds:.0f} s for {some_of(sorted(self._seconds))}, most of it for torch/all.h:"
                " torch-headers: light in matrix.yaml about halves that, where tensors and operators are all of torch"
                " that is used"
            )
            listen(Notice(level="info", text=text))


def _includes_all(source: SourceTree, path: str) -> bool:
    try:
        return bool(_WHOLE.search(source.read_bytes(path).decode(errors="replace")))
    except SourceError:
        return False
