"""HTML reports of runs and of rebuilt wheels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

from wheelsmith import __version__
from wheelsmith.base.sanitize import visible
from wheelsmith.base.units import counted, show_duration, show_size
from wheelsmith.index.entries.catalogue import public_cell
from wheelsmith.index.site.grid import GridCell, GridStatus, grids, legend_statuses
from wheelsmith.index.site.human import assets, environment
from wheelsmith.model import RebuildResult, RunFinished, Status
from wheelsmith.model.run_record import CellRecord, RunRecord
from wheelsmith.report.style import wall_time
from wheelsmith.report.timeline import Timeline, rows

if TYPE_CHECKING:
    from jinja2 import Environment

_VERDICT_CLASSES = {"equal": "active", "different": "failed", "not rebuilt": "yanked"}


def report_page(record: RunRecord, engine: str, finished: RunFinished, timeline: Timeline) -> bytes:
    """Return ``report.html``. It needs no other file; it links to logs and wheels in the same folder.

    :param engine: the name of the engine.
    :param finished: the last event of the run.
    """
    tables = grids({public_cell(cell.cell): _grid_cell(cell) for cell in record.cells.values()})
    # Cells with a shared wheel count once.
    builds = [cell for cell in record.planned if cell.planned and not cell.planned.folded]
    built = sum(1 for cell in builds if cell.result and cell.result.wheel)
    return (
        _report_environment()
        .get_template("report.html")
        .render(
            record=record,
            engine=engine,
            finished=finished,
            took=show_duration(finished.seconds),
            score=_score(built, len(builds), len(record.planned)),
            complete=built == len(builds) and not record.failures,
            tally=_tally(record),
            grids=tables,
            legend=legend_statuses(tables),
            failed=[result for result in record.results if result.status is Status.FAILED],
            timeline=timeline,
            version=__version__,
            **assets(),
        )
        .encode()
    )


def _score(built: int, builds: int, cells: int) -> str:
    """Return text such as ``3 of 4 wheels``, with the number of cells if it differs."""
    if not builds:
        return "No wheel was planned"
    text = f"{built} of {counted(builds, 'wheel')}"
    return text if cells == builds else f"{text}, for {counted(cells, 'combination')}"


def _tally(record: RunRecord) -> list[tuple[int, str]]:
    counts = Counter(result.status.value for result in record.results)
    counts.update(item.status for item in record.excluded)
    counts["kernel not planned" if len(record.failures) == 1 else "kernels not planned"] = len(record.failures)
    return [(count, word) for word, count in counts.items() if count]


def _grid_cell(record: CellRecord) -> GridCell:
    result, link = record.result, f"#cell-{record.cell.id}"
    if record.planned is None:
        return GridCell(status=GridStatus.CANCELLED if record.waits else GridStatus.EXCLUDED, link=link)
    if result is None or result.wheel is None:
        return GridCell(status=GridStatus(record.status.value), link=link)
    folded = record.planned.folded
    detail = folded.cell if folded and result.status is Status.FOLDED else show_size(result.wheel.size)
    return GridCell(status=GridStatus(result.status.value), detail=detail, link=link)


@cache
def _report_environment() -> Environment:
    """Return a template environment with the templates of index pages and of reports."""
    from jinja2 import ChoiceLoader, PackageLoader

    shared = environment()
    loader = ChoiceLoader([PackageLoader("wheelsmith.report"), *([shared.loader] if shared.loader else [])])
    combined = shared.overlay(loader=loader)
    combined.filters = {
        **shared.filters,
        "took": lambda result: wall_time(result.timings),
        "built_in": lambda result: wall_time(result.built_in),
        "duration": show_duration,
        "kind": _css_class,
        "rows": rows,
    }
    return combined


def _css_class(kind: str) -> str:
    """Return the CSS class of a compiler phase such as ``cudafe++``."""
    return "is-" + "".join(letter for letter in kind if letter.isalnum() or letter == "-")


def rebuilt_page(answers: Sequence[RebuildResult]) -> bytes:
    """Return ``rebuilt.html``, the verdicts on rebuilt wheels. It needs no other file."""
    tally = Counter(answer.verdict.value for answer in answers)
    return (
        _report_environment()
        .get_template("rebuilt.html")
        .render(
            answers=[replace(answer, wheel=visible(answer.wheel)) for answer in answers],
            classes=_VERDICT_CLASSES,
            tally=[(tally[verdict], verdict) for verdict in _VERDICT_CLASSES if tally[verdict]],
            whole=bool(answers) and tally["equal"] == len(answers),
            version=__version__,
            **assets(),
        )
        .encode()
    )
