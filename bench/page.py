"""Write the results of bench/run as a page and a chart."""

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
    "stable": "stable: torch's stable ABI, a .cu file without torch headers",
    "several": "several: four .cu files with some torch headers",
    "heavy": "heavy: one .cu file with all torch headers",
}
_HEAD = """\
<!-- Written by bench/run report; do not edit. -->

# The benchmark

One matrix of {cells} cells ({torches} torch releases × {cudas} CUDA toolkits, capabilities {capabilities}) is built in
three ways, in turn, on one machine in one run. The three example kernels are in `kernels/`.

![Wall time of each way](../docs/images/bench.svg)

- **The usual loop**: each cell has a fresh virtual environment with torch, setuptools and ninja from pip. `pip wheel`
  then builds with torch's cpp_extension, and ninja uses every core. Environments do not depend on the kernel, so a run
  creates each one once. Its time, bytes and disk space count for every kernel.
- **The careful loop**: one shared environment for each torch, created before the measurement. g++ and nvcc use ccache,
  which is empty at first.
- **wheelsmith**: `wheelsmith build-matrix` in bubblewrap with {memory} of memory, in three runs: with an *empty cache*,
  including downloads; with *cached toolchains* only, to compare with the careful loop; and with *no changes* since the
  last run. Unlike the loops, wheelsmith also checks its wheels and writes an index.

Both loops use a CUDA toolkit of the machine, which does not count. pip's cache is always empty.
"""
_FOOT = """\
## Measurements

- Wall and CPU time include all processes of a command. Peak memory is the largest total of their private memory,
  sampled five times a second.
- Downloaded: bytes that the machine's network interfaces received during the command.
- Disk: for the usual loop, the sum of all environments; for the careful loop, one environment for each torch, and
  ccache; for wheelsmith, the cache and the finished index. *Peak disk* is the largest total at one time, including
  pip's temporary files.
- The floor: CPU seconds of the distinct compile steps ÷ cores, without preprocessing, linking and packing. A perfect
  scheduler on all cores could not compile them faster.

{machine}. Measured {date} at {commit}. The figures of every cell: [results.json](results.json).

```console
$ bench/run             # about an hour and a half on two cores; --help shows smaller runs, --resume continues
$ bench/run scaling
$ bench/run report
```
"""


def write_report() -> None:
    """Write bench/README.md and docs/images/bench.svg from results.json."""
    found = read_results()
    if not found or "matrix" not in found:
        raise WheelsmithError(f"{PATH} has no measurements", remedy="run bench/run first")
    matrix = found["matrix"]
    cells, figures = matrix["settings"]["cells"], matrix["figures"]
    groups = [(kernel, rows(kernel, cells, figures)) for kernel in kernels(figures)]
    groups = [(kernel, each) for kernel, each in groups if each]
    if not groups:
        raise WheelsmithError("no kernel has complete measurements", remedy="run bench/run --resume")
    about = f"{_machine(matrix['settings']['machine'])}, {matrix['date']}"
    title = f"One matrix of {len(cells)} cells, built in three ways"
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
        "| | wall | CPU | peak memory | downloaded | disk | peak disk |",
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
    sentences = []
    if usual and cold:
        sentences.append(
            f"Compared with the usual loop, with an empty cache: {times(usual.wall, cold.wall)} less wall time, "
            f"{times(usual.cpu, cold.cpu)} less CPU, {times(usual.received, cold.received)} fewer bytes downloaded, "
            f"{times(usual.disk, cold.disk)} less disk."
        )
    if careful and ready:
        sentences.append(
            f"Compared with the careful loop, with cached toolchains: {times(careful.wall, ready.wall)} less wall time."
        )
    return sentences


def _floor(kernel: str, found: dict[str, Row], figures: Figures) -> list[str]:
    ready = found.get("ready")
    if not ready:
        return []
    if ready.floor is None:
        return ["The floor is unknown: this wheelsmith does not report compile steps."]
    steps = figures[f"ours/{kernel}/ready"]["steps"]
    return [
        (
            f"The floor is {duration(ready.floor)}. wheelsmith with cached toolchains takes "
            f"{ready.wall / ready.floor:.2f} times as long: {steps['run']} phases run, {steps['reused']} reused."
        )
    ]


def _scaling(part: dict[str, Any]) -> str:
    figures, cells = part["figures"], part["settings"]["cells"]
    lines = [
        "## Scaling\n",
        "Wall time with cached toolchains. A worker runs one compiler process at a time.",
        "The careful loop uses every core and runs once; the time of a smaller matrix is the sum of its cells.",
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
