"""The text of a pull request that takes newer releases into a matrix."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate

from wheelsmith.base.sanitize import visible
from wheelsmith.base.units import listed
from wheelsmith.index.site.coverage import CoverageRow, Covered
from wheelsmith.index.site.grid import GridStatus
from wheelsmith.plan.lock import lock_path
from wheelsmith.plan.planned_run import PlannedRun
from wheelsmith.report.markdown import coverage_table, escape
from wheelsmith.report.tables import left_out, totals
from wheelsmith.run.bump import Bumped, EditedMatrix

_MOST_STEPS = 3  # in a title
_LONGEST_TITLE = 200  # characters
_LONGEST_SECTION = 12_000  # characters; GitHub allows 65536 for all of them
_LEGEND = ", ".join(f"{status.sign} {status.meaning}" for status in (GridStatus.BUILT, GridStatus.EXCLUDED))


def pull_request_title(steps: Sequence[str]) -> str:
    """Return a title such as ``Take torch 2.15 and cuda 13.2``.

    :param steps: a line for each change.
    """
    more = len(steps) - _MOST_STEPS
    shown = [*steps[:_MOST_STEPS], f"{more} more"] if more > 0 else steps
    return visible(f"Take {listed(shown)}")[:_LONGEST_TITLE]


def pull_request_body(edited: EditedMatrix, bumped: Bumped, before: PlannedRun | None) -> str:
    """Return Markdown: what is newer, the new combinations, and the change of the coverage.

    :param before: the plan without the changes; None if it cannot be planned.
    """
    places = [
        *(edited.file.parent / name for name in edited.changed),
        *([lock_path(edited.file)] if bumped.lock else []),
    ]
    failures = bumped.prepared.failures.items()
    counts = f"{totals(bumped.plans, bumped.folded)}, {left_out(bumped.excluded)}"
    sections = {
        f"Taken into {listed([f'`{place}`' for place in places])}": [f"- {escape(step)}" for step in edited.steps],
        "Not taken": [f"- {escape(reason)}" for reason in edited.left],
        "Not planned": [f"- {escape(f'{name}: {reason}')}" for name, reason in failures],
        f"Coverage when all of it is built: {_LEGEND}": coverage_table(
            _rows(bumped.prepared), _rows(before) if before else ()
        ),
        f"New, or with another source: {counts}": [*_new(bumped)],
    }
    return "\n".join(
        line for title, lines in sections.items() if lines for line in (f"### {title}", "", *_shortened(lines), "")
    )


def _new(bumped: Bumped) -> Iterator[str]:
    """Yield the lines of a table of the new combinations."""
    yield from ("| combination | status | wheel or reason |", "| --- | --- | --- |")
    for plan in bumped.plans:
        shared = bumped.folded.get(plan.cell.id)
        wheel = f"`{plan.wheel.distribution} {plan.wheel.version}`"
        status, what = ("folded", f"`{shared.cell}`: {escape(shared.reason)}") if shared else ("build", wheel)
        yield f"| `{plan.cell.id}` | {status} | {what} |"
    for item in bumped.excluded:
        yield f"| `{item.cell.id}` | {item.status} | {escape(item.reason)} |"


def _rows(planned: PlannedRun) -> tuple[CoverageRow, ...]:
    """Return the coverage of an index after every planned wheel is built."""
    found: dict[tuple[str, str, str | None], list[Covered]] = {}
    for run, _ in planned.by_kernel(()):
        statuses = {plan.cell: GridStatus.BUILT for plan in run.plans}
        statuses |= {item.cell: GridStatus.EXCLUDED for item in run.excluded if not item.waits}
        for cell, status in statuses.items():
            covered = Covered(framework=cell.framework, release=cell.release, compute=cell.compute, status=status)
            found.setdefault((run.distribution or run.kernel, cell.arch, cell.python), []).append(covered)
    return tuple(
        CoverageRow(project=project, arch=arch, python=python, combinations=tuple(combinations))
        for (project, arch, python), combinations in found.items()
    )


def _shortened(lines: Sequence[str]) -> Iterator[str]:
    """Yield the first lines of a list or table, and the number of the others."""
    kept = [line for line, size in zip(lines, accumulate(map(len, lines)), strict=True) if size <= _LONGEST_SECTION]
    yield from kept
    if len(kept) < len(lines):
        yield f"{lines[0][0]} and {len(lines) - len(kept)} more"
