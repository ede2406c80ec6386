"""The same matrix by wheelsmith, and what its events say of it."""

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

# What must be compiled however cleverly it is done; preprocessing, linking and packing are ours to save.
_COMPILING = {"cudafe++", "cicc", "ptxas", "fatbinary", "g++"}

# Room for two of the largest compilers; what a run really takes must stay below.
MEMORY = "6GiB"

Figures = dict[str, Any]


def lay_out_matrix(kernel: str, cells: tuple[Cell, ...], folder: Path) -> None:
    """Write a matrix of these cells beside a copy of the kernel."""
    shutil.copytree(KERNELS / kernel, folder / "kernel")
    (folder / "matrix.yaml").write_text(matrix_yaml(cells))


def build_ours(workshop: Workshop, folder: Path, cache: Path, cells: tuple[Cell, ...], workers: int | None) -> Figures:
    """Build a matrix that was laid out in ``folder``, and give what that cost.

    :param workers: compiler processes at once; None leaves it to wheelsmith.
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
        said = list(_read(lines))
    answered = _answers(said)
    if sum(answered.values()) != len(cells):
        raise WheelsmithError(
            f"wheelsmith answered {dict(answered)}, not {len(cells)} cells", remedy="run wheelsmith plan on the matrix"
        )
    return {
        **cost.to_json(),
        "answers": dict(sorted(answered.items())),
        "steps": steps(said),
        "disk": disk_use(cache, folder / "dist"),
    }


def keep_toolchains(cache: Path) -> None:
    """Take everything out of a cache but the toolchains."""
    for path in cache.iterdir():
        if path.name != "prefix":
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def prepare_toolchains(cells: Iterable[Cell], cache: Path) -> None:
    """Fill a cache with the toolchains of these cells."""
    toolchains, arch = Toolchains(cache, ignore), platform.machine()
    toolchains.tools()
    for cell in cells:
        toolchains.prepare(cuda_prefix(cuda_toolkits()[cell.cuda], arch, arch))
        toolchains.prepare(framework("torch").prefix(cell.torch, arch))


def steps(events: Iterable[dict[str, Any]]) -> Figures | None:
    """Sum up the compile steps that a run tells of, or None when it tells of none.

    ``compiling`` is the CPU seconds that the distinct ones took, by kind.
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
    """Return the seconds that the distinct compile steps take on all cores, or None when they are not known."""
    return sum(found["compiling"].values()) / CORES if found else None


def _read(lines: Iterable[str]) -> Iterator[dict[str, Any]]:
    for line in lines:
        event = json.loads(line)
        # Of what the compilers print there may be much; nobody asks for it.
        if event["event"] not in {"CellLine", "CellProgress", "Transfer"}:
            yield event


def _answers(events: Iterable[dict[str, Any]]) -> Counter[str]:
    """Count the cells that have a wheel, by how they came to it."""
    last: dict[str, Any] = next((event for event in reversed(list(events)) if event["event"] == "RunFinished"), {})
    return Counter(result["status"] for result in last.get("results", ()) if result["wheel"])
