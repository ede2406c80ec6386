"""Write the results of bench/index as a page."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from typing import Any

from bench.index_programme import FIGURES
from bench.results import read_results
from bench.words import size, times
from bench.workshop import ROOT
from wheelsmith.base.errors import WheelsmithError
from wheelsmith.base.files import atomic_write

_PAGE = ROOT / "bench" / "index.md"
_TOOLS = ("wheelsmith", "dumb-pypi", "dumb-pypi as it is", "pypiserver")
_HEAD = """\
<!-- Written by bench/index report; do not edit. -->

# The index at scale

500 projects with the same number of wheels each: kernels for 4 torch releases, 4 compute platforms and 2 CPU
architectures. wheelsmith, dumb-pypi {dumb-pypi} and pypiserver {pypiserver} serve them, alternately, in one run, to
pip {pip}.

- **Full render**: all pages, from wheelsmith's states and dumb-pypi's list. dumb-pypi runs with
  `--no-per-release-json`, and again with its defaults (*as it is*). wheelsmith writes HTML and JSON, and each wheel
  into two roots: that of its compute platform and the common one. dumb-pypi writes an HTML page and a JSON file for
  each project. wheelsmith flushes its files to the disk before it renames them. pypiserver stores no pages; it uses
  watchdog for its cache. The pages for people are newer than these figures; for a project with 200 wheels they take
  30 ms to render, and the other pages 23 ms.
- **Add a wheel**: the time of the process. wheelsmith hashes, copies and checks the wheel, and updates state and
  pages. dumb-pypi receives the lists before and after, with hashes, and does not copy the wheel. For pypiserver, it
  is the time from the copy to the first page that shows the wheel.
- **pip resolves**: the process `pip install --dry-run --no-deps` for one package, without a cache. `wheelsmith serve`
  serves wheelsmith's index, `python -m http.server` that of dumb-pypi. The page is the page of this package.
- The wheels are valid, about a kilobyte each, and contain no code. pypiserver has all of them in its folder. The
  other two need only the wheels that pip fetches, so only these exist.

Medians of {rounds} rounds ({renderings} for renders), with all files in the disk cache. Memory is the peak of one
process.
"""
_FOOT = """\
{processor}, {cores} cores, {memory:.0f} GiB of memory, Linux {kernel}, Python {python}. Measured {date} at {commit}.
Every figure: [index.json](index.json).

```console
$ bench/index           # about {minutes} minutes; --help shows smaller runs
$ bench/index report
```
"""


def write_page() -> None:
    """Write bench/index.md from bench/index.json."""
    found = read_results(FIGURES)
    if not found or "index" not in found:
        raise WheelsmithError(f"{FIGURES} has no measurements", remedy="run bench/index first")
    atomic_write(_PAGE, page(found["index"]).encode())
    print(f"wrote {_PAGE.relative_to(ROOT)}")


def page(found: dict[str, Any]) -> str:
    """Return the page, as Markdown."""
    settings = found["settings"]
    figures = Figures(found["figures"])
    renderings = max(int(name.rsplit("/", 1)[1]) for name in found["figures"] if "/render/" in name) + 1
    parts = [_HEAD.format(**settings["versions"], rounds=settings["rounds"], renderings=renderings)]
    parts += [_size(figures, wheels) for wheels in settings["wheels"]]
    parts.append(_growth(figures, settings["wheels"]))
    machine = settings["machine"] | {"memory": settings["machine"]["memory"] / (1 << 30)}
    minutes = max(1, round(found["figures"]["everything"]["minutes"]))
    parts.append(_FOOT.format(**machine, date=found["date"], commit=settings["commit"], minutes=minutes))
    return "\n".join(parts)


class Figures:
    """Medians of the measurements, by size of the index, operation and tool."""

    def __init__(self, figures: dict[str, dict[str, Any]]) -> None:
        self._figures = figures

    def __call__(self, wheels: int, what: str, who: str, field: str = "wall") -> float | None:
        """Return a median, or None without measurements."""
        start = f"{wheels}/{what}/{who}/"
        found = [each[field] for name, each in self._figures.items() if name.startswith(start) and field in each]
        return median(found) if found else None


def _size(figures: Figures, wheels: int) -> str:
    lines = [
        f"## {wheels:,} wheels\n",
        "| | full render | memory | files | bytes | add a wheel | memory | bytes | pip resolves | page |",
        "| --- |" + " ---: |" * 9,
    ]
    for who in _TOOLS:
        cells = [
            _seconds(figures(wheels, "render", who)),
            _size_of(figures(wheels, "render", who, "peak_memory")),
            _count(figures(wheels, "render", who, "files")),
            _size_of(figures(wheels, "render", who, "bytes")),
            _seconds(figures(wheels, "add/average", who)),
            _size_of(
                figures(wheels, "add/average", who, "peak_memory") or figures(wheels, "memory", who, "peak_memory")
            ),
            _size_of(figures(wheels, "add/average", who, "bytes")),
            _seconds(figures(wheels, "resolve", who)),
            _size_of(figures(wheels, "page", who, "bytes")),
        ]
        lines.append(f"| {who} | {' | '.join(cells)} |")
    return "\n".join([*lines, "", *_ratios(figures, wheels), ""])


def _ratios(figures: Figures, wheels: int) -> list[str]:
    """Return a table of the other tools relative to wheelsmith."""
    asked = (
        *(("render", "wall"), ("render", "peak_memory")),
        *(("add/average", "wall"), ("add/average", "peak_memory"), ("resolve", "wall")),
    )
    lines = [
        "| ÷ wheelsmith | full render | memory | add a wheel | memory | pip resolves |",
        "| --- |" + " ---: |" * len(asked),
    ]
    for who in _TOOLS[1:]:
        found = (
            times(figures(wheels, what, who, field), figures(wheels, what, _TOOLS[0], field)) for what, field in asked
        )
        lines.append(f"| {who} | {' | '.join(found)} |")
    return lines


def _growth(figures: Figures, sizes: list[int]) -> str:
    """Return a table of the cost of adding a wheel by index size, for a growing project and one of constant size."""
    lines = [
        "## Add a wheel to a growing index\n",
        "| wheels in the index | wheels in the project | process | of which the change | files | bytes |",
        "| ---: |" + " ---: |" * 5,
    ]
    for kind, count in (("average", None), ("steady", 20)):
        for wheels in sizes:
            cells = [
                f"{wheels:,}",
                str(count or wheels // 500),
                _seconds(figures(wheels, f"add/{kind}", "wheelsmith")),
                _seconds(figures(wheels, f"add/{kind}", "wheelsmith", "inner")),
                _count(figures(wheels, f"add/{kind}", "wheelsmith", "files")),
                _size_of(figures(wheels, f"add/{kind}", "wheelsmith", "bytes")),
            ]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def _written(write: Callable[[float], str]) -> Callable[[float | None], str]:
    return lambda value: "–" if value is None else write(value)


def _exact(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"


_seconds = _written(_exact)
_size_of = _written(size)
_count = _written(lambda value: f"{value:,.0f}")
