"""A run as Markdown, as GitHub and Buildkite show it: how many cells have a wheel, why others have none, then all."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator
from itertools import chain

from wheelsmith.base.units import counted, show_size
from wheelsmith.model import BuildResult, Status
from wheelsmith.model.run_record import CellRecord, RunRecord
from wheelsmith.report.style import duration, wall_time
from wheelsmith.report.summary import failures

# Of more failures only the first are told with the end of their logs.
_MOST_LOGS = 10
# Bytes. GitHub takes 1 MiB of a step, Buildkite of an annotation: half of it for the reasons, half for the table.
_HALF = 500_000
_LONGEST_LINE = 400
_LONGEST_REASON = 600
_MARKS = re.compile(r"([\\`*_{}\[\]<>|~#!&$@])")


def markdown_summary(record: RunRecord, seconds: float) -> str:
    """Return a run as Markdown; the first line counts the wheels.

    :param seconds: that the run took.
    """
    ending = "Interrupted after" if record.interrupted else "In"
    lines = [f"### {_count(record)}", "", f"{ending} {duration(seconds)}: {_plain(record.kernel)}", ""]
    reasons = (
        "\n".join(_reason(first, len(others), log=number < _MOST_LOGS))
        for number, (first, *others) in enumerate(failures(record.results))
    )
    lines += _fitting(reasons, "- ✗ and {} more\n")
    lines += ["| cell | status | wheel | size | time |", "| --- | --- | --- | --- | --- |"]
    rows = map(_row, record.planned)
    left_out = (f"| `{item.cell.id}` | excluded | {_plain(item.reason)} | | |" for item in record.excluded)
    lines += _fitting(chain(rows, left_out), "| and {} more | | | | |")
    return "\n".join(lines) + "\n"


def _fitting(blocks: Iterable[str], rest: str) -> Iterator[str]:
    """Yield blocks until they are half of what may be shown, and how many more there are.

    :param rest: says that of a number.
    """
    size = more = 0
    for block in blocks:
        size += len(block.encode(errors="replace")) + 1
        if size <= _HALF:
            yield block
        else:
            more += 1
    if more:
        yield rest.format(more)


def _count(record: RunRecord) -> str:
    asked = len(record.planned)
    if not asked:
        return f"No cell has a wheel: {counted(len(record.excluded), 'cell')} excluded, none built"
    there = sum(1 for result in record.results if result.wheel)
    failed = sum(1 for result in record.results if result.status is Status.FAILED)
    left = asked - there - failed
    wrong = [f"{failed} failed"] * bool(failed) + [f"{left} not built"] * bool(left)
    verb = "has" if asked == 1 else "have"
    text = f"{there} of {counted(asked, 'cell')} {verb} a wheel"
    return f"{text}: {', '.join(wrong)}" if wrong else text


def _reason(result: BuildResult, others: int, *, log: bool) -> Iterator[str]:
    """Tell of a failure as one entry of a list."""
    failure = result.failure
    if failure is None:
        return
    shared = f" (and {counted(others, 'cell')} that would share its wheel)" if others else ""
    yield f"- ✗ **`{result.cell.id}`**{shared}: {_plain(f'{failure.stage}: {failure.message}')}"
    if failure.remedy:
        yield f"  <br>help: {_plain(failure.remedy)}"
    if failure.tail and log:
        # No empty line: it would end the block.
        lines = (" ".join(line.splitlines())[:_LONGEST_LINE] for line in failure.tail)
        tail = "\n  ".join(html.escape(line) or "&nbsp;" for line in lines)
        yield f"\n  <pre>{tail}</pre>"
    yield ""


def _row(cell: CellRecord) -> str:
    result = cell.result
    wheel = result.wheel if result else None
    failure = result.failure if result else None
    what = f"`{wheel.filename}`" if wheel else _plain(failure.stage) if failure else ""
    size = show_size(wheel.size) if wheel else ""
    return f"| `{cell.cell.id}` | {cell.status} | {what} | {size} | {_time(result) if result else ''} |"


def _time(result: BuildResult) -> str:
    if result.built_in:
        return f"{wall_time(result.built_in)} before"
    return wall_time(result.timings) if result.timings else ""


def _plain(text: str) -> str:
    """Return what a build or a matrix says as Markdown that shows just that."""
    words = " ".join(text.split())
    return _MARKS.sub(r"\\\1", words if len(words) <= _LONGEST_REASON else f"{words[:_LONGEST_REASON]}…")
