"""Write the results of bench/projects as a page."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.words import duration
from wheelsmith.base.json_dataclass import Record

_PAGE = Path(__file__).resolve().parent / "projects.md"
_HEAD = """\
<!-- Written by bench/projects; do not edit. -->

# Projects that grow

How much of a real project's sdist is compiled when its matrix grows, and after a killed run. The unit is the phase:
nvcc has several for each source, g++ has one. Each run uses the cache of the previous run, except the repeated one:
its cache was empty before the killed run. Toolchains and environments are cached. "Build system alone" is engine
`local`, which neither wraps the compilers nor stores results. Both ways build as many combinations in parallel as the
machine has cores. torch-scatter does not use ninja: alone it compiles one source at a time. Processor time is that of
the whole machine. Runs without it are older: compare only runs that have it.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run(Record):
    """A run.

    :param what: the description.
    :param compiled: the number of compiled phases.
    :param reused: the number of reused phases.
    :param seconds: wall time.
    :param cpu: seconds for which the machine's cores were busy; None if unknown.
    """

    what: str
    cells: int
    compiled: int
    reused: int
    seconds: float
    cpu: float | None = None


def write_page(known: dict[str, Any]) -> None:
    """Write the page from the figures of all projects."""
    _PAGE.write_text("\n".join([_HEAD, *(_section(name, runs) for name, runs in known.items())]))


def _section(name: str, runs: list[dict[str, Any]]) -> str:
    lines = [
        f"## {name}",
        "",
        "| run | combinations | phases needed | compiled | wall | processor time |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for run in map(Run.from_json, runs):
        needed = run.compiled + run.reused
        counted = f"{needed} | {run.compiled}" if needed else "| "
        cpu = "" if run.cpu is None else duration(run.cpu)
        lines.append(f"| {run.what} | {run.cells} | {counted} | {duration(run.seconds)} | {cpu} |")
    return "\n".join([*lines, ""])
