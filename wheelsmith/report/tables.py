"""Terminal tables of plans, shards and the cache."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from wheelsmith.base.units import counted, is_prerelease, show_duration, show_size
from wheelsmith.model import EXCLUDED, UPSTREAM, WAITING, BuildPlan, Excluded, Folded
from wheelsmith.plan.shards import Shard, shard_label
from wheelsmith.store import CacheInventory, Kind, Pruning

if TYPE_CHECKING:
    from rich.table import Table

    from wheelsmith.run.outdated import Component

# Kinds with few items and meaningful names.
_NAMED = (Kind.TOOLCHAINS, Kind.ENVIRONMENTS)


def plan_table(
    plans: Sequence[BuildPlan],
    excluded: Sequence[Excluded],
    folded: Mapping[str, Folded],
    *,
    cached: frozenset[str],
    not_folded: Mapping[str, str],
    not_upstream: Mapping[str, str],
) -> Table:
    """Return a table with a row for every cell and its status.

    :param folded: cell id → the cell that provides its shared wheel.
    :param cached: build digests of wheels in the store.
    :param not_folded: cell id → the reason why a wheel of an older CUDA minor cannot serve it.
    :param not_upstream: cell id → the reason why no build of upstream serves it.
    """
    from rich.text import Text

    table = _table("combination", "status", "wheel or reason")
    for plan in plans:
        cell = plan.cell.id
        if shared := folded.get(cell):
            table.add_row(cell, "folded", Text(f"{shared.cell}: {shared.reason}"))
            continue
        status = _status(plan, cached)
        mark = f" (a pre-release of {plan.cell.framework})" if is_prerelease(plan.cell.release) else ""
        wheel = f"{plan.wheel.distribution} {plan.wheel.version}{mark}"
        reasons = (("no shared wheel", not_folded.get(cell)), ("not from upstream", not_upstream.get(cell)))
        table.add_row(cell, status, Text("; ".join((wheel, *(f"{what}: {why}" for what, why in reasons if why)))))
    for item in excluded:
        table.add_row(item.cell.id, item.status, Text(item.reason), style="dim")
    return table


def kernel_table(
    plans: Sequence[BuildPlan], excluded: Sequence[Excluded], folded: Mapping[str, Folded], *, cached: frozenset[str]
) -> Table:
    """Return a table with a row for each kernel of a set, and the number of its combinations with each status."""
    statuses: dict[str | None, Counter[str]] = {}
    for plan in plans:
        status = "folded" if plan.cell.id in folded else _status(plan, cached)
        statuses.setdefault(plan.cell.kernel, Counter())[status] += 1
    for item in excluded:
        statuses.setdefault(item.cell.kernel, Counter())[item.status] += 1
    unused = {each for each in (UPSTREAM, WAITING) if not any(each in counts for counts in statuses.values())}
    columns = [each for each in ("build", "cached", UPSTREAM, "folded", EXCLUDED, WAITING) if each not in unused]
    table = _table("kernel", *columns, right=True)
    for kernel, counts in statuses.items():
        table.add_row(str(kernel), *(str(counts[each] or "") for each in columns))
    return table


def _status(plan: BuildPlan, cached: frozenset[str]) -> str:
    return UPSTREAM if plan.repacked else "cached" if plan.build_digest in cached else "build"


def totals(plans: Sequence[BuildPlan], folded: Mapping[str, Folded]) -> str:
    """Return text such as ``24 combinations → 6 builds``."""
    return f"{counted(len(plans), 'combination')} → {counted(len(plans) - len(folded), 'build')}"


def sharing_reasons(folded: Mapping[str, Folded]) -> list[str]:
    """Return a line for each reason for shared wheels, the most frequent first."""
    counts = Counter(shared.reason for shared in folded.values())
    return [
        f"{counted(count, 'combination shares', 'combinations share')} a wheel: {reason}"
        for reason, count in counts.most_common()
    ]


def exclusion_reasons(excluded: Iterable[Excluded]) -> list[str]:
    """Return a line for each reason for excluded combinations, the most frequent first."""
    counts = Counter(f"{item.status}: {item.reason}" for item in excluded)
    return [f"{count} {text}" for text, count in counts.most_common()]


def left_out(excluded: Sequence[Excluded]) -> str:
    """Return the number of excluded combinations, and of those that wait for another machine."""
    waiting = sum(item.waits for item in excluded)
    text = f"{len(excluded) - waiting} excluded"
    return f"{text}, {waiting} waiting" if waiting else text


def shard_table(shards: Sequence[Shard], cores: int) -> Table:
    """Return a table of shards with their cells and estimated durations.

    :param cores: the CPU cores of each job.
    """
    from rich.text import Text

    table = _table("shard", "estimate", "combinations")
    for number, shard in enumerate(shards, 1):
        table.add_row(
            shard_label(number, shards), show_duration(shard.seconds / cores), Text("\n".join(shard.cells) or "none")
        )
    return table


def newer_table(rows: Iterable[Component]) -> Table:
    """Return a table of what a matrix uses, the newest of each, and the command that takes it."""
    from rich.text import Text

    table = _table("name", "in the matrix", "newest", "take it with")
    for row in rows:
        newest = row.newest or (f"not known: {row.problem}" if row.problem else "none")
        table.add_row(row.name, Text(row.current), Text(newest), Text(row.command or ""))
    return table


def inventory_table(inventory: CacheInventory, now: float) -> Table:
    """Return a table with a row for each kind of cache item.

    :param now: seconds since 1970.
    """
    table = _table("kind", "items", "disk", "oldest use", right=True)
    for kind in Kind:
        part = inventory.of(kind)
        oldest = show_duration(now - min(item.used for item in part.items)) if part.items else ""
        table.add_row(kind.value, str(len(part.items)), show_size(part.size), oldest)
    return table


def pruning_table(pruning: Pruning, now: float) -> Table:
    """Return a table of removed items: a row for each toolchain and environment, and one for each other kind.

    :param now: seconds since 1970.
    """
    table = _table("kind", "items", "disk", "last use", right=True)
    for kind in Kind:
        part = pruning.of(kind)
        if kind in _NAMED:
            for item in part.removed.items:
                table.add_row(item.path.name, "1", show_size(item.size), show_duration(now - item.used))
        elif part.removed.items:
            newest = show_duration(now - max(item.used for item in part.removed.items))
            table.add_row(kind.value, str(len(part.removed.items)), show_size(part.freed), newest)
    return table


def _table(*columns: str, right: bool = False) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for number, column in enumerate(columns):
        last = number == len(columns) - 1
        table.add_column(
            column, overflow="fold", no_wrap=right or not last, justify="right" if right and number else "left"
        )
    return table
