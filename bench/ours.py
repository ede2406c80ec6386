"""Build the matrix with wheelsmith, and evaluate its events."""

from __future__ import annotations

import json
import platform
import shutil
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from bench.grid import Cell, matrix_yaml
from bench.workshop import CORES, KERNELS, ROOT, Workshop, disk_use
from wheelsmith.base.errors import WheelsmithError
from wheelsmith.frameworks import framework
from wheelsmith.model.events import ignore
from wheelsmith.platforms import cuda_prefix, cuda_toolkits
from wheelsmith.toolchain import Toolchains

# Phases that any build needs. Preprocessing, linking and packing are overhead.
_COMPILING = {"cudafe++", "cicc", "ptxas", "fatbinary", "g++"}

# Enough for two of the largest compiler processes. The real use of a run is less.
MEMORY = "6GiB"

Figures = dict[str, Any]


def lay_out_matrix(kernel: str, cells: tuple[Cell, ...], folder: Path) -> None:
    """Write a matrix of these cells and a copy of the kernel to a folder."""
    shutil.copytree(KERNELS / kernel, folder / "kernel")
    (folder / "matrix.yaml").write_text(matrix_yaml(cells))


def build_ours(workshop: Workshop, folder: Path, cache: Path, cells: tuple[Cell, ...], workers: int | None) -> Figures:
    """Build the matrix in ``folder`` and return the cost.

    :param workers: the number of parallel compiler processes; None means the default of wheelsmith.
    """
    events = folder / "events.jsonl"
    events.unlink(missing_ok=True)
    argv = (
        *(sys.executable, "-m", "wheelsmith", "build-matrix", "--matrix", str(folder / "matrix.yaml")),
        *("--engine", "bwrap", "--memory", MEMORY, "--progress", "json", "--out", str(folder / "dist")),
        *(("-j", str(workers), "--cores-per-cell", "1") if workers else ()),
    )
    cost = workshop.measure(argv, folder, {"PYTHONPATH": str(ROOT), "WHEELSMITH_CACHE": str(cache)}, out=events)
    with events.open() as lines:
        seen = list(_read(lines))
    built = _count_wheels(seen)
    if sum(built.values()) != len(cells):
        raise WheelsmithError(
            f"wheelsmith built {dict(built)} of {len(cells)} combinations",
            remedy="run wheelsmith plan on the matrix",
        )
    return {
        **cost.to_json(),
        "answers": dict(sorted(built.items())),
        "steps": sum_steps(seen),
        "disk": disk_use(cache, folder / "dist"),
    }


def keep_toolchains(cache: Path) -> None:
    """Remove everything from a cache except the toolchains."""
    for path in cache.iterdir():
        if path.name != "prefix":
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def prepare_toolchains(cells: Iterable[Cell], cache: Path) -> None:
    """Fetch the toolchains of these cells to a cache."""
    toolchains, arch = Toolchains(cache, ignore), platform.machine()
    toolchains.tools()
    for cell in cells:
        toolchains.prepare(cuda_prefix(cuda_toolkits()[cell.cuda], arch, arch))
        toolchains.prepare(framework("torch").prefix(cell.torch, arch))


def sum_steps(events: Iterable[dict[str, Any]]) -> Figures | None:
    """Return the totals of the compile steps of a run, or None if there are none.

    ``compiling`` contains the CPU seconds of the distinct steps by kind.
    """
    finished = [event for event in events if event.get("event") == "StepFinished"]
    if not finished:
        return None
    fresh = [event for event in finished if not event["reused"]]
    compiling: Counter[str] = Counter()
    for event in fresh:
        if event["kind"] in _COMPILING:
            compiling[event["kind"]] += event["cpu"]
    return {
        "run": len(fresh),
        "reused": len(finished) - len(fresh),
        "compiling": {kind: round(seconds, 2) for kind, seconds in sorted(compiling.items())},
    }


def floor(found: Figures | None) -> float | None:
    """Return the seconds that the distinct compile steps need on all cores, or None if unknown."""
    return sum(found["compiling"].values()) / CORES if found else None


def _read(lines: Iterable[str]) -> Iterator[dict[str, Any]]:
    for line in lines:
        event = json.loads(line)
        # These events are numerous and not needed.
        if event["event"] not in {"CellLine", "CellProgress", "Transfer"}:
            yield event


def _count_wheels(events: Iterable[dict[str, Any]]) -> Counter[str]:
    """Count the cells with a wheel by status."""
    last: dict[str, Any] = next((event for event in reversed(list(events)) if event["event"] == "RunFinished"), {})
    return Counter(result["status"] for result in last.get("results", ()) if result["wheel"])
