"""What the cache holds, and what a prune takes from it, as tables for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelsmith.base.units import show_size
from wheelsmith.report.style import age
from wheelsmith.store import CacheInventory, Kind, Pruning

if TYPE_CHECKING:
    from rich.table import Table

# Of these there are few, and each has a name that tells something.
_NAMED = (Kind.TOOLCHAINS, Kind.ENVIRONMENTS)


def stock_table(stock: CacheInventory, now: float) -> Table:
    """Return one row a kind.

    :param now: seconds since 1970.
    """
    table = _table("what", "things", "disk", "oldest use")
    for kind in Kind:
        part = stock.of(kind)
        oldest = age(now - min(item.used for item in part.items)) if part.items else ""
        table.add_row(kind.value, str(len(part.items)), show_size(part.size), oldest)
    return table


def pruning_table(pruning: Pruning, now: float) -> Table:
    """Return one row for each toolchain and environment that goes, and one for each other kind.

    :param now: seconds since 1970.
    """
    table = _table("what", "things", "disk", "last use")
    for kind in Kind:
        part = pruning.of(kind)
        if kind in _NAMED:
            for item in part.gone.items:
                table.add_row(item.path.name, "1", show_size(item.size), age(now - item.used))
        elif part.gone.items:
            newest = age(now - max(item.used for item in part.gone.items))
            table.add_row(kind.value, str(len(part.gone.items)), show_size(part.freed), newest)
    return table


def _table(*columns: str) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for number, column in enumerate(columns):
        table.add_column(column, no_wrap=True, justify="right" if number else "left")
    return table
