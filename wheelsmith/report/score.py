"""What a run came to, in one line: how many of the wheels that it was to have are there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from wheelsmith.base.units import counted
from wheelsmith.model import BuildPlan, BuildResult


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """Wheels that are there, and that were to be there; cells that fold into one wheel are one of them."""

    there: int
    wanted: int
    cells: int

    @property
    def whole(self) -> bool:
        """Say whether nothing is missing."""
        return self.there == self.wanted

    def __str__(self) -> str:
        """Return ``3 of 4 wheels``, with the number of cells where that is another."""
        text = f"{self.there} of {counted(self.wanted, 'wheel')}"
        return text if self.cells == self.wanted else f"{text}, for {counted(self.cells, 'cell')}"


def score(plans: Sequence[BuildPlan], results: Sequence[BuildResult]) -> Score:
    """Count the wheels of a run."""
    wanted = {plan.build_digest for plan in plans}
    there = {result.plan_digest for result in results if result.wheel} & wanted
    return Score(there=len(there), wanted=len(wanted), cells=len(plans))
