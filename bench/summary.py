"""Total costs of each kernel and way, from the figures of its cells."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from bench.grid import SIZES
from bench.ours import floor

WAYS = ("usual", "careful", "cold", "ready", "warm")
Figures = dict[str, dict[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """The cost of a kernel's matrix in one way, in seconds and bytes. None means unknown.

    :param floor: the seconds that only the distinct compile steps need on all cores.
    :param at_once: the peak use of the disk.
    """

    way: str
    wall: float
    cpu: float
    peak_memory: int | None
    received: int | None
    disk: int
    at_once: int
    floor: float | None = None


def rows(kernel: str, cells: list[str], figures: Figures) -> dict[str, Row]:
    """Return the rows of all ways that are measured completely."""
    found = {way: _row(way, kernel, cells, figures) for way in WAYS}
    return {way: row for way, row in found.items() if row}


def kernels(figures: Figures) -> list[str]:
    """Return the kernels that have measurements, the cheapest to compile first."""
    known = ("stable", "several", "heavy")
    return [kernel for kernel in known if any(name.split("/")[1] == kernel for name in figures)]


def scaling(kernel: str, cells: list[str], figures: Figures) -> list[tuple[int, dict[str, float]]]:
    """Return the wall time in seconds by way for each size of the matrix.

    The careful loop runs once. Its time for a smaller matrix is the sum of the cells.
    """
    table = []
    for size in SIZES:
        careful = _done([f"careful/{kernel}/{cell}" for cell in cells[:size]], figures)
        found = {"careful": sum(each["wall"] for each in careful)} if careful else {}
        for name, each in figures.items():
            if name.startswith(f"ours/{kernel}/{size}/") and "failed" not in each:
                workers = name.rsplit("/", 1)[1]
                found[f"ours, {workers} worker{'s' * (workers != '1')}"] = each["wall"]
        if found and size <= len(cells):
            table.append((size, found))
    return table


def _row(way: str, kernel: str, cells: list[str], figures: Figures) -> Row | None:
    if way == "usual":
        return _usual(kernel, cells, figures)
    if way == "careful":
        return _careful(kernel, cells, figures)
    one = _done([f"ours/{kernel}/{way}"], figures)
    if not one:
        return None
    least = floor(one[0]["steps"]) if way != "warm" else None
    return Row(**_summed(way, one), disk=one[0]["disk"], at_once=one[0]["disk"], floor=least)


def _usual(kernel: str, cells: list[str], figures: Figures) -> Row | None:
    environments = _done([f"environment/{cell}" for cell in cells], figures)
    builds = _done([f"usual/{kernel}/{cell}" for cell in cells], figures)
    if not environments or not builds:
        return None
    # pip keeps all downloaded wheels until the installation is complete.
    at_once = max(each["disk"] + (each["received"] or 0) for each in environments)
    disk = sum(each["disk"] for each in environments)
    return Row(**_summed("usual", [*environments, *builds]), disk=disk, at_once=at_once)


def _careful(kernel: str, cells: list[str], figures: Figures) -> Row | None:
    builds = _done([f"careful/{kernel}/{cell}" for cell in cells], figures)
    if not builds:
        return None
    # One environment for each torch release is enough.
    prepared = {
        cell.split("-")[0]: figures[f"environment/{cell}"]["disk"] for cell in reversed(cells) if _has(cell, figures)
    }
    disk = sum(prepared.values()) + max(each["disk"] for each in builds)
    return Row(**_summed("careful", builds), disk=disk, at_once=disk)


def _has(cell: str, figures: Figures) -> bool:
    return bool(_done([f"environment/{cell}"], figures))


def _done(names: list[str], figures: Figures) -> list[dict[str, Any]] | None:
    """Return the figures of these names, or None if one is missing or has failed."""
    found = [figures.get(name, {"failed": ""}) for name in names]
    return None if any("failed" in each for each in found) else found


def _summed(way: str, parts: list[dict[str, Any]]) -> dict[str, Any]:
    peaks = list(_known(each["peak_memory"] for each in parts))
    received = list(_known(each["received"] for each in parts))
    return {
        "way": way,
        "wall": sum(each["wall"] for each in parts),
        "cpu": sum(each["cpu"] for each in parts),
        "peak_memory": max(peaks) if peaks else None,
        "received": sum(received) if len(received) == len(parts) else None,
    }


def _known(values: Iterable[int | None]) -> Iterable[int]:
    return (value for value in values if value is not None)
