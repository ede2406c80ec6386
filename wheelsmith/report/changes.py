"""What a version brings, as Markdown that a release's page can have."""

from __future__ import annotations

from collections.abc import Iterator

from wheelsmith.base.sanitize import visible
from wheelsmith.base.units import counted, show_size
from wheelsmith.index.entries.catalogue import CatalogueWheel
from wheelsmith.index.entries.changes import CellChange, VersionChanges

_LONGEST = 300  # characters of a reason
_NOTICEABLE = 0.01  # of a wheel's size


def changes_text(changes: VersionChanges) -> str:
    """Return what a version has, what is new in it, what is gone and why, and what is another."""
    now = {cell.now.filename: cell.now for cell in changes.cells if cell.now}
    served = sum(cell.now is not None for cell in changes.cells)
    size = show_size(sum(wheel.size for wheel in now.values()))
    lines = [f"# {changes.project} {changes.version}", ""]
    lines += [f"{counted(len(now), 'wheel')} for {counted(served, 'cell')}, {size}{_since(changes)}.", ""]
    for title, items in _sections(changes):
        if items:
            lines += [f"## {title}", "", *items, ""]
    return "\n".join(lines)


def _since(changes: VersionChanges) -> str:
    if changes.before is None:
        return "; no older version is listed"
    before = {cell.before.filename: cell.before.size for cell in changes.cells if cell.before}
    served = sum(cell.before is not None for cell in changes.cells)
    sizes = show_size(sum(before.values()))
    return f"; {changes.before} had {counted(len(before), 'wheel')} for {counted(served, 'cell')}, {sizes}"


def _sections(changes: VersionChanges) -> Iterator[tuple[str, list[str]]]:
    cells = changes.cells
    if changes.before is None:
        yield "Wheels", [_line(cell) for cell in cells if cell.now]
    else:
        yield "New", [_line(cell) for cell in cells if cell.now and not cell.before]
        yield "Changed", [f"- `{cell.cell}`: {said}" for cell in cells if (said := ", ".join(_differences(cell)))]
    gone = [cell for cell in cells if cell.before and not cell.now]
    yield "Gone", [f"- `{cell.cell}`: {_reason(cell)}" for cell in gone]
    without = [cell for cell in cells if not cell.before and not cell.now]
    yield "Without a wheel", [f"- `{cell.cell}`: {_reason(cell)}" for cell in without]


def _line(cell: CellChange) -> str:
    assert cell.now is not None  # noqa: S101  # its callers looked
    return f"- `{cell.cell}`: `{cell.now.filename}`, {show_size(cell.now.size)}"


def _differences(cell: CellChange) -> Iterator[str]:
    before, now = cell.before, cell.now
    if before is None or now is None:
        return
    if abs(now.size - before.size) > _NOTICEABLE * before.size:
        share = f" ({now.size / before.size - 1:+.0%})" if before.size else ""
        yield f"{show_size(before.size)} → {show_size(now.size)}{share}"
    yield from _more_and_less("GPU code for", before.gpu_archs, now.gpu_archs)
    for what, old, new in (
        ("torch", before.requires_torch, now.requires_torch),
        ("Python", before.requires_python, now.requires_python),
    ):
        if old != new:
            yield f"{what} {_plain(old or 'of any version')} → {_plain(new or 'of any version')}"
    yield from _more_and_less("requires", before.requires, now.requires)
    if _tags(before) != _tags(now):
        yield f"{_tags(before)} → {_tags(now)}"


def _more_and_less(what: str, old: tuple[str, ...], new: tuple[str, ...]) -> Iterator[str]:
    if more := [each for each in new if each not in old]:
        yield f"{what} {_plain(', '.join(more))} more"
    if less := [each for each in old if each not in new]:
        yield f"{what} {_plain(', '.join(less))} no more"


def _tags(wheel: CatalogueWheel) -> str:
    return "-".join(wheel.filename.removesuffix(".whl").rsplit("-", 3)[1:])


def _reason(cell: CellChange) -> str:
    """Return why there is no wheel."""
    return _plain(cell.reason or "it is offered no more")


def _plain(said: str) -> str:
    """Return somebody's words in one line that is no Markdown of its own."""
    text = visible(" ".join(said.split())[:_LONGEST])
    return "".join(f"\\{sign}" if sign in "\\`*_[]<>#|&" else sign for sign in text)
