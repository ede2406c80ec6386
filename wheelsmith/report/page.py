"""The report of a run as a page: the matrix, what failed, and when what happened."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from wheelsmith import __version__
from wheelsmith.base.files import atomic_write
from wheelsmith.base.units import show_size
from wheelsmith.index.entries.catalogue import CatalogueCell, catalogue_cell
from wheelsmith.index.site.grid import GridCell, GridStatus, grids, used_statuses
from wheelsmith.index.site.human import assets, environment
from wheelsmith.model import BuildPlan, BuildResult, Cell, Event, Excluded, Folded, RunFinished, RunStarted, Status
from wheelsmith.report.score import score
from wheelsmith.report.style import duration, wall_time
from wheelsmith.report.timeline import Stopwatch, Timeline
from wheelsmith.report.timeline_layout import draw

if TYPE_CHECKING:
    from jinja2 import Environment


class BuildReport:
    """Listens to a run, and leaves its report in the output folder when it ends."""

    def __init__(self, out: Path) -> None:
        self._out = out
        self._watch = Stopwatch()
        self._started: RunStarted | None = None

    def __call__(self, event: Event) -> None:
        """Take in what happened."""
        self._watch(event)
        if isinstance(event, RunStarted):
            self._started = event
        elif isinstance(event, RunFinished) and self._started:
            atomic_write(self._out / "report.html", report_page(self._started, event, self._watch.timeline()))


def report_page(started: RunStarted, finished: RunFinished, timeline: Timeline) -> bytes:
    """Return ``report.html``: whole in itself, it links only to the logs and wheels beside it.

    :param timeline: of the same run.
    """
    answered = {result.cell.id: result for result in finished.results}
    shown = grids(_cells(started.plans, answered, started.excluded, started.folded))
    return (
        report_environment()
        .get_template("report.html")
        .render(
            kernel=started.kernel,
            engine=started.engine,
            version=__version__,
            finished=finished,
            took=duration(finished.seconds),
            score=score(started.plans, finished.results),
            tally=_tally(finished),
            grids=shown,
            legend=used_statuses(shown),
            failed=[result for result in finished.results if result.status is Status.FAILED],
            excluded=started.excluded,
            rows=[(plan, answered.get(plan.cell.id), started.folded.get(plan.cell.id)) for plan in started.plans],
            figure=draw(timeline),
            **assets(),
        )
        .encode()
    )


@cache
def report_environment() -> Environment:
    """Return the templates of an index's pages, and those of reports beside them."""
    from jinja2 import ChoiceLoader, PackageLoader

    shared = environment()
    loader = ChoiceLoader([PackageLoader("wheelsmith.report"), *([shared.loader] if shared.loader else [])])
    made = shared.overlay(loader=loader)
    made.filters = {
        **shared.filters,
        "took": lambda result: wall_time(result.timings),
        "built_in": lambda result: wall_time(result.built_in),
        "duration": duration,
        "kind": _css_class,
    }
    return made


def _css_class(kind: str) -> str:
    """Return ``cudafe++`` as the style names it."""
    return "is-" + "".join(letter for letter in kind if letter.isalnum() or letter == "-")


def _tally(finished: RunFinished) -> tuple[tuple[int, str], ...]:
    counts = Counter(result.status.value for result in finished.results)
    counts["excluded"] = len(finished.excluded)
    return tuple((count, word) for word, count in counts.items() if count)


def _cells(
    plans: Sequence[BuildPlan],
    answered: Mapping[str, BuildResult],
    excluded: Sequence[Excluded],
    folded: Mapping[str, Folded],
) -> dict[CatalogueCell, GridCell]:
    found = {catalogue_cell(item.cell): _without(item.cell, GridStatus.EXCLUDED) for item in excluded}
    for plan in plans:
        result = answered.get(plan.cell.id)
        found[catalogue_cell(plan.cell)] = _planned(plan.cell, result, folded.get(plan.cell.id))
    return found


def _planned(cell: Cell, result: BuildResult | None, whose: Folded | None) -> GridCell:
    if result is None or result.status is Status.CANCELLED:
        return _without(cell, GridStatus.CANCELLED)
    if result.wheel is None:
        return _without(cell, GridStatus.FAILED)
    status = GridStatus(result.status.value)
    detail = whose.cell if whose and status is GridStatus.FOLDED else show_size(result.wheel.size)
    return GridCell(status=status, detail=detail, link=f"#cell-{cell.id}")


def _without(cell: Cell, status: GridStatus) -> GridCell:
    return GridCell(status=status, link=f"#cell-{cell.id}")
