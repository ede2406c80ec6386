"""Write what was measured as a page and a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bench.chart import draw
from bench.ours import MEMORY
from bench.results import PATH, read_results
from bench.summary import WAYS, Figures, Row, kernels, rows, scaling
from bench.words import WAY_NAMES, duration, size, times
from bench.workshop import ROOT
from wheelsmith.base.errors import WheelsmithError
from wheelsmith.base.files import atomic_write

_KERNELS = {
    "stable": "stable: torch's stable ABI, the .cu knows nothing of torch",
    "several": "several: four .cu files with some of torch's headers",
    "heavy": "heavy: one .cu file with all of torch's headers",
}
_HEAD = """\
<!-- Written by bench/run report; do not edit. -->

# The benchmark

One matrix, {cells} cells ({torches} torch releases × {cudas} CUDA toolkits, capabilities {capabilities}), built in
three ways that take turns on one machine in one run. Three small kernels of our own stand for what kernels are:
`kernels/`.

![Wall time of each way](../docs/images/bench.svg)

- **The usual loop**: for each cell a fresh virtual environment with pip's own whole torch, setuptools and ninja; then
  `pip wheel` with torch's cpp_extension, ninja using every core. Environments do not depend on the kernel, so in a run
  with several kernels each is made once, and its time, bytes and disk count for every kernel.
- **The careful loop**: one shared environment a torch, made beforehand and not counted; ccache, empty at first, for g++
  and nvcc.
- **wheelsmith**: `wheelsmith build-matrix` in bubblewrap with an empty cache, downloads and all (*nothing at hand*);
  again with a cache that holds the toolchains alone (*toolchains at hand*, as the careful loop has its environments);
  and once more after that (*nothing changed*). It is given {memory} of memory.
  It also proves and indexes its wheels, which the loops do not.

Both loops find a CUDA toolkit on the machine, which is not counted. No way finds any package in a cache of pip's.
"""
_FOOT = """\
## What was measured

- Wall and CPU seconds of each command with all of its processes. Peak memory: the most that these held at once of their
  own, looked at five times a second.
- Downloaded: bytes that the machine's network interfaces received meanwhile.
- Disk of the usual loop: its environments together; of the careful one, an environment a torch and the ccache; of ours,
  the cache and the finished index. *At once*: the most at one time, with what pip unpacks from.
- The floor: CPU seconds of the distinct compile steps (preprocessing, linking and packing left out) ÷ cores. Nothing
  that compiles them all, and on every core at once, is faster.

{machine}. Measured {date} at {commit}. The figures of every cell: [results.json](results.json).

```console
$ bench/run             # about an hour and a half on two cores; --help says how to do less, --resume goes on
$ bench/run scaling
$ bench/run report
```
"""


def write_report() -> None:
    """Write bench/README.md and docs/images/bench.svg from results.json."""
    found = read_results()
    if not found or "matrix" not in found:
        raise WheelsmithError(f"{PATH} holds nothing to report", remedy="run bench/run first")
    matrix = found["matrix"]
    cells, figures = matrix["settings"]["cells"], matrix["figures"]
    groups = [(kernel, rows(kernel, cells, figures)) for kernel in kernels(figures)]
    groups = [(kernel, each) for kernel, each in groups if each]
    if not groups:
        raise WheelsmithError("no kernel was measured to its end in any way", remedy="run bench/run --resume")
    about = f"{_machine(matrix['settings']['machine'])}, {matrix['date']}"
    title = f"One matrix, {len(cells)} wheels' worth of cells, built in three ways"
    picture = draw([(_KERNELS[kernel], each) for kernel, each in groups], title, about)
    _write(ROOT / "docs" / "images" / "bench.svg", picture)
    _write(ROOT / "bench" / "README.md", page(found, groups))


def page(found: dict[str, Any], groups: list[tuple[str, dict[str, Row]]]) -> str:
    """Return the page, as Markdown."""
    matrix = found["matrix"]
    settings = matrix["settings"]
    torches, cudas = (len({cell.split("-")[part] for cell in settings["cells"]}) for part in (0, 1))
    parts = [
        _HEAD.format(
            cells=len(settings["cells"]),
            torches=torches,
            cudas=cudas,
            capabilities=" and ".join(settings["capabilities"]),
            memory=MEMORY,
        )
    ]
    for kernel, each in groups:
        parts.append(_kernel(kernel, each, matrix["figures"]))
    if "scaling" in found:
        parts.append(_scaling(found["scaling"]))
    machine = _machine(settings["machine"])
    parts.append(_FOOT.format(machine=machine, date=matrix["date"], commit=settings["commit"]))
    parts += [f"{remark}\n"] if (remark := matrix.get("remark")) else []
    return "\n".join(parts)


def _kernel(kernel: str, found: dict[str, Row], figures: Figures) -> str:
    lines = [
        f"## {_KERNELS[kernel][0].upper()}{_KERNELS[kernel][1:]}\n",
        "| | wall | CPU | peak memory | downloaded | disk | at once |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for way in WAYS:
        if row := found.get(way):
            lines.append(
                f"| {WAY_NAMES[way]} | {duration(row.wall)} | {duration(row.cpu)} | {size(row.peak_memory)} "
                f"| {size(row.received)} | {size(row.disk)} | {size(row.at_once)} |"
            )
        else:
            lines.append(f"| {WAY_NAMES[way]} | not measured | | | | | |")
    return "\n".join([*lines, "", *_comparison(found), *_floor(kernel, found, figures), ""])


def _comparison(found: dict[str, Row]) -> list[str]:
    usual, careful, cold, ready = (found.get(way) for way in WAYS[:4])
    said = []
    if usual and cold:
        said.append(
            f"Against the usual loop, with nothing at hand: {times(usual.wall, cold.wall)} less wall time, "
            f"{times(usual.cpu, cold.cpu)} less CPU, {times(usual.received, cold.received)} fewer bytes downloaded, "
            f"{times(usual.disk, cold.disk)} less disk."
        )
    if careful and ready:
        said.append(
            f"Against the careful loop, with toolchains at hand: {times(careful.wall, ready.wall)} less wall time."
        )
    return said


def _floor(kernel: str, found: dict[str, Row], figures: Figures) -> list[str]:
    ready = found.get("ready")
    if not ready:
        return []
    if ready.floor is None:
        return ["The floor is unknown: this wheelsmith tells of no compile steps."]
    steps = figures[f"ours/{kernel}/ready"]["steps"]
    return [
        (
            f"The floor is {duration(ready.floor)}, and toolchains at hand take {ready.wall / ready.floor:.2f} times "
            f"that: {steps['run']} compiler phases run, {steps['reused']} found done."
        )
    ]


def _scaling(part: dict[str, Any]) -> str:
    figures, cells = part["figures"], part["settings"]["cells"]
    lines = [
        "## How it grows\n",
        "Wall time, toolchains at hand. A worker is one compiler process at a time; the careful loop uses every core,",
        "and is run once: a smaller matrix costs what its cells did.",
    ]
    for kernel in kernels(figures):
        table = scaling(kernel, cells, figures)
        ways = list(dict.fromkeys(way for _, found in table for way in found))
        lines += ["", f"| {kernel}, cells | {' | '.join(ways)} |", f"| ---: |{' ---: |' * len(ways)}"]
        for count, found in table:
            values = " | ".join(duration(found[way]) if way in found else "" for way in ways)
            lines.append(f"| {count} | {values} |")
    return "\n".join(lines) + "\n"


def _machine(machine: dict[str, Any]) -> str:
    return (
        f"{machine['processor']}, {machine['cores']} cores, {machine['memory'] / (1 << 30):.0f} GiB of memory, "
        f"Linux {machine['kernel']}, Python {machine['python']}"
    )


def _write(path: Path, text: str) -> None:
    atomic_write(path, text.encode())
    print(f"wrote {path.relative_to(ROOT)}")
