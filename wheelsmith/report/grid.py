"""A plan as a table for people, and in one line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from wheelsmith.base.units import counted
from wheelsmith.model import BuildPlan, Excluded, Folded

if TYPE_CHECKING:
    from rich.table import Table


def plan_table(
    plans: Sequence[BuildPlan],
    excluded: Sequence[Excluded],
    folded: Mapping[str, Folded],
    *,
    cached: frozenset[str],
    not_folded: Mapping[str, str],
) -> Table:
    """Return every cell with what will be done, or why nothing will.

    :param folded: cell id → whose wheel it shares.
    :param cached: build digests whose wheel is in the store.
    :param not_folded: cell id → why no older minor of its CUDA answers for it.
    """
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("cell", "answer", "wheel, or reason"):
        table.add_column(column, overflow="fold", no_wrap=column == "cell")
    for plan in plans:
        cell = plan.cell.id
        if whose := folded.get(cell):
            table.add_row(cell, "folded", Text(f"{whose.cell}: {whose.reason}"))
            continue
        answer = "cached" if plan.build_digest in cached else "build"
        wheel = f"{plan.wheel.distribution} {plan.wheel.version}"
        table.add_row(cell, answer, Text(f"{wheel}; not folded: {not_folded[cell]}" if cell in not_folded else wheel))
    for item in excluded:
        table.add_row(item.cell.id, "excluded", Text(item.reason), style="dim")
    return table


def totals(plans: Sequence[BuildPlan], folded: Mapping[str, Folded]) -> str:
    """Return ``24 cells → 6 builds``."""
    return f"{counted(len(plans), 'cell')} → {counted(len(plans) - len(folded), 'build')}"


def reasons(folded: Mapping[str, Folded]) -> list[str]:
    """Return a line for each reason that cells are folded for, the most frequent first."""
    counts = Counter(whose.reason for whose in folded.values())
    return [f"{counted(count, 'cell')} folded: {reason}" for reason, count in counts.most_common()]
