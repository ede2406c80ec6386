"""Summaries of runs, changes of releases and coverage, in the Markdown of GitHub and Buildkite."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Sequence
from itertools import chain, islice

from wheelsmith.base.sanitize import visible
from wheelsmith.base.units import counted, show_duration, show_size
from wheelsmith.index.entries.catalogue import CellChange, VersionChanges
from wheelsmith.index.entries.entry import IndexEntry
from wheelsmith.index.site.coverage import CoverageRow, columns
from wheelsmith.model import BuildResult, Excluded, Status
from wheelsmith.model.run_record import CellRecord, RunRecord
from wheelsmith.report.style import wall_time
from wheelsmith.report.summary import failures, kept_text

# Limits that keep a summary below 1 MiB, the limit of GitHub's step summaries and of Buildkite's annotations.
_MOST_LOGS, _MOST_REASONS, _MOST_ROWS = 10, 100, 1000
_LONGEST_LINE = 400
_LONGEST_REASON, _SHORT = 600, 300  # characters; the second in the table
_NOTICEABLE = 0.01  # part of a wheel's size
_MARKS = re.compile(r"([\\`*_{}\[\]<>|~#!&$@])")


def markdown_summary(record: RunRecord, seconds: float) -> str:
    """Return the summary of a run. The first line counts the wheels.

    :param seconds: the duration of the run.
    """
    ending = "Interrupted after" if record.interrupted else "In"
    lines = [f"### {_count(record)}", "", f"{ending} {show_duration(seconds)}: {escape(record.kernel)}", ""]
    lines += [kept_text(record.older_wheels), ""] if record.older_wheels else []
    reasons = (
        "\n".join(_reason(first, len(others), log=number < _MOST_LOGS))
        for number, (first, *others) in enumerate(failures(record.results))
    )
    lines += islice(reasons, _MOST_REASONS)
    lines += ["", "| combination | status | wheel | size | time |", "| --- | --- | --- | --- | --- |"]
    rows = map(_row, record.planned)
    lines += islice(chain(rows, map(_left_out, record.excluded)), _MOST_ROWS)
    if (hidden := len(record.cells) - _MOST_ROWS) > 0:
        lines.append(f"| and {hidden} more | | | | |")
    return "\n".join(lines) + "\n"


def _left_out(item: Excluded) -> str:
    return f"| `{item.cell.id}` | {item.status} | {escape(item.reason[:_SHORT])} | | |"


def _count(record: RunRecord) -> str:
    planned = len(record.planned)
    if not planned:
        return f"No combination has a wheel: {len(record.excluded)} excluded, none built"
    built = sum(1 for result in record.results if result.wheel)
    failed = sum(1 for result in record.results if result.status is Status.FAILED)
    not_built = planned - built - failed
    problems = [f"{failed} failed"] * bool(failed) + [f"{not_built} not built"] * bool(not_built)
    verb = "has" if planned == 1 else "have"
    text = f"{built} of {counted(planned, 'combination')} {verb} a wheel"
    return f"{text}: {', '.join(problems)}" if problems else text


def _reason(result: BuildResult, others: int, *, log: bool) -> Iterator[str]:
    """Yield the lines of a list item that describes a failure.

    :param others: the number of other cells that share the failed build.
    """
    failure = result.failure
    if failure is None:
        return
    shared = f" (and {counted(others, 'combination')} with the same wheel)" if others else ""
    yield f"- ✗ **`{result.cell.id}`**{shared}: {escape(f'{failure.stage}: {failure.message}')}"
    if failure.remedy:
        yield f"  <br>help: {escape(failure.remedy)}"
    if failure.tail and log:
        # An empty line would end the block.
        lines = (" ".join(line.splitlines())[:_LONGEST_LINE] for line in failure.tail)
        tail = "\n  ".join(html.escape(line) or "&nbsp;" for line in lines)
        yield f"\n  <pre>{tail}</pre>"
    yield ""


def _row(cell: CellRecord) -> str:
    result = cell.result
    wheel = result.wheel if result else None
    failure = result.failure if result else None
    what = f"`{wheel.filename}`" if wheel else escape(failure.stage) if failure else ""
    size = show_size(wheel.size) if wheel else ""
    return f"| `{cell.cell.id}` | {cell.status} | {what} | {size} | {_time(result) if result else ''} |"


def _time(result: BuildResult) -> str:
    if result.built_in:
        return f"{wall_time(result.built_in)} when built"
    return wall_time(result.timings) if result.timings else ""


def changes_text(changes: VersionChanges) -> str:
    """Return the changes of a version: its wheels, and new, changed, removed and missing ones with reasons."""
    now = {cell.now.filename: cell.now for cell in changes.cells if cell.now}
    served = sum(cell.now is not None for cell in changes.cells)
    size = show_size(sum(wheel.size for wheel in now.values()))
    lines = [f"# {changes.project} {changes.version}", ""]
    lines += [f"{counted(len(now), 'wheel')} for {counted(served, 'combination')}, {size}{_comparison(changes)}.", ""]
    for title, items in _sections(changes):
        if items:
            lines += [f"## {title}", "", *items, ""]
    return "\n".join(lines)


def _comparison(changes: VersionChanges) -> str:
    if changes.before is None:
        return "; there is no older version"
    before = {cell.before.filename: cell.before.size for cell in changes.cells if cell.before}
    served = sum(cell.before is not None for cell in changes.cells)
    sizes = show_size(sum(before.values()))
    return f"; {changes.before} had {counted(len(before), 'wheel')} for {counted(served, 'combination')}, {sizes}"


def _sections(changes: VersionChanges) -> Iterator[tuple[str, list[str]]]:
    cells = changes.cells
    if changes.before is None:
        yield "Wheels", [_new_wheel(cell) for cell in cells if cell.now]
    else:
        yield "New", [_new_wheel(cell) for cell in cells if cell.now and not cell.before]
        yield "Changed", [f"- `{cell.cell}`: {text}" for cell in cells if (text := ", ".join(_differences(cell)))]
    removed = [cell for cell in cells if cell.before and not cell.now]
    yield "Removed", [f"- `{cell.cell}`: {_reason_without_wheel(cell)}" for cell in removed]
    without = [cell for cell in cells if not cell.before and not cell.now]
    yield "Without a wheel", [f"- `{cell.cell}`: {_reason_without_wheel(cell)}" for cell in without]


def _new_wheel(cell: CellChange) -> str:
    assert cell.now is not None  # noqa: S101  # callers check this
    return f"- `{cell.cell}`: `{cell.now.filename}`, {show_size(cell.now.size)}"


def _differences(cell: CellChange) -> Iterator[str]:
    before, now = cell.before, cell.now
    if before is None or now is None:
        return
    if abs(now.size - before.size) > _NOTICEABLE * before.size:
        share = f" ({now.size / before.size - 1:+.0%})" if before.size else ""
        yield f"{show_size(before.size)} → {show_size(now.size)}{share}"
    yield from _added_and_removed("GPU code for ", before.gpu_archs, now.gpu_archs)
    for what, old, new in (
        ("torch", before.requires_torch, now.requires_torch),
        ("Python", before.requires_python, now.requires_python),
    ):
        if old != new:
            yield f"{what} {escape(old or 'any version')} → {escape(new or 'any version')}"
    yield from _added_and_removed("requirement ", before.requires, now.requires)
    if _tags(before) != _tags(now):
        yield f"{_tags(before)} → {_tags(now)}"


def _added_and_removed(what: str, old: tuple[str, ...], new: tuple[str, ...]) -> Iterator[str]:
    if added := [each for each in new if each not in old]:
        yield f"new {what}{escape(', '.join(added))}"
    if removed := [each for each in old if each not in new]:
        yield f"no {what}{escape(', '.join(removed))}"


def _tags(wheel: IndexEntry) -> str:
    return "-".join(wheel.filename.removesuffix(".whl").rsplit("-", 3)[1:])


def _reason_without_wheel(cell: CellChange) -> str:
    """Return the reason why a cell has no wheel."""
    return escape(cell.reason or "no longer offered")


def coverage_table(rows: Sequence[CoverageRow], before: Sequence[CoverageRow]) -> list[str]:
    """Return the lines of a coverage table that marks what changed.

    :param before: the rows before the change; the same rows for a table without marks.
    """
    headings = columns((*before, *rows))
    old, new = ({row.title: row.signs for row in each} for each in (before, rows))
    lines = [["", *headings], ["---", *(":-:" for _ in headings)]]
    for title in dict.fromkeys((*new, *old)):
        was, now = old.get(title, {}), new.get(title, {})
        lines.append([title, *(_sign(was.get(heading), now.get(heading)) for heading in headings)])
    return [f"| {' | '.join(line)} |" for line in lines]


def _sign(before: str | None, now: str | None) -> str:
    if before == now:
        return now or ""
    return f"{before} → {now or 'none'}" if before else f"**{now} new**"


def escape(text: str) -> str:
    """Escape an untrusted text for Markdown, and return it as one line of limited length."""
    words = visible(" ".join(text.split()))
    return _MARKS.sub(r"\\\1", words if len(words) <= _LONGEST_REASON else f"{words[:_LONGEST_REASON]}…")
