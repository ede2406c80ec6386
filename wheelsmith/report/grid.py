"""A plan as a table for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from wheelsmith.model import BuildPlan, Excluded

if TYPE_CHECKING:
    from rich.table import Table


def plan_table(plans: Sequence[BuildPlan], excluded: Sequence[Excluded], cached: frozenset[str]) -> Table:
    """Give every cell with what will be done, or why nothing will.

    :param cached: build digests whose wheel is in the store.
    """
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("cell", "answer", "wheel, or reason"):
        table.add_column(column, overflow="fold", no_wrap=column == "cell")
    seen: set[str] = set()
    for plan in plans:
        digest = plan.build_digest
        answer = "cached" if digest in cached else "folded" if digest in seen else "build"
        seen.add(digest)
        wheel = plan.wheel
        table.add_row(plan.cell.id, answer, Text(f"{wheel.distribution} {wheel.version}"))
    for item in excluded:
        table.add_row(item.cell.id, "excluded", Text(item.reason), style="dim")
    return table
