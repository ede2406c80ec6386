"""The measurements of an index of one size, in their order."""

from __future__ import annotations

import shutil
import sys
import time
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from bench.catalogue import STEADY, Item, entry, items, newer
from bench.lookup import serving
from bench.publishers import FETCHED, DumbPypi, Ours, PypiServer, Site
from bench.results import Results
from bench.stopwatch import count_written, run_timed
from bench.workshop import ROOT, Workshop
from wheelsmith.index.entries.entry import IndexEntry

FIGURES = ROOT / "bench" / "index.json"
_RENDERINGS = 3
_REQUIREMENTS = ("dumb-pypi", "pypiserver[cache]", "pip")


def make_tools(workshop: Workshop) -> tuple[Path, dict[str, str]]:
    """Make an environment with the newest releases of the other tools, and return it with their versions."""
    tools = workshop.folder / "tools"
    run_timed((sys.executable, "-m", "venv", tools), workshop.environment)
    python = tools / "bin" / "python"
    run_timed((python, "-m", "pip", "install", "--quiet", "--upgrade", *_REQUIREMENTS), workshop.environment)
    outputs: list[str] = []
    run_timed((python, "-m", "pip", "list", "--format", "freeze"), workshop.environment, outputs=outputs)
    known = dict(line.split("==") for line in outputs[0].split())
    return tools, {name: known[name] for name in ("dumb-pypi", "pypiserver", "pip")}


@dataclass(frozen=True, slots=True, kw_only=True)
class Programme:
    """The measurements of an index of about ``wheels`` wheels.

    :param tools: the environment with the other tools.
    """

    workshop: Workshop
    tools: Path
    results: Results
    rounds: int
    wheels: int

    def run(self) -> None:
        """Run all measurements and remove the index afterwards."""
        environment = self.workshop.environment | {"PYTHONPATH": str(ROOT)}
        site = Site(folder=self.workshop.folder / str(self.wheels), tools=self.tools, environment=environment)
        projects = self._lay_out(site)
        ours = Ours(site)
        static = {
            "wheelsmith": ours,
            "dumb-pypi": DumbPypi(site, "dumb-pypi", ("--no-per-release-json",)),
            "dumb-pypi as it is": DumbPypi(site, "dumb-pypi-as-it-is"),
        }
        for tool in static.values():
            tool.prepare(projects)
        del projects
        for number in range(min(self.rounds, _RENDERINGS)):
            for name, tool in static.items():
                tool.clear()
                with count_written(tool.out) as wrote:
                    took = tool.render()
                self._store("render", name, number, took.to_json() | {"files": wrote.files, "bytes": wrote.bytes})
        for number in range(self.rounds):
            for distribution in FETCHED:
                self._add(site, static, newer(distribution, number), number)
        self._measure_lookups(site, static)
        shutil.rmtree(site.folder)

    def _lay_out(self, site: Site) -> dict[str, list[tuple[Item, IndexEntry]]]:
        site.wheels.mkdir(parents=True)
        self._log("writing wheels")
        known = ((item, entry(item, item.write(site.wheels))) for item in items(self.wheels))
        return {name: list(each) for name, each in groupby(known, lambda each: each[0].distribution)}

    def _add(self, site: Site, static: dict[str, Any], item: Item, number: int) -> None:
        folder = site.folder / "new"
        folder.mkdir(exist_ok=True)
        wheel = item.write(folder)
        kind = "steady" if item.distribution == STEADY else "average"
        for name, tool in static.items():
            with count_written(tool.out) as wrote:
                took = tool.add(item, wheel)
            inner = {"inner": tool.inner[-1]} if isinstance(tool, Ours) else {}
            figures = took.to_json() | {"files": wrote.files, "bytes": wrote.bytes} | inner
            self._store(f"add/{kind}", name, number, figures)

    def _measure_lookups(self, site: Site, static: dict[str, Any]) -> None:
        """Measure how long pip resolves from each index, and how long pypiserver takes to show a new wheel."""
        server = PypiServer(site)
        for wheel in (site.folder / "new").iterdir():
            shutil.copy(wheel, site.wheels)
        tools = {**static, "pypiserver": server}
        del tools["dumb-pypi as it is"]
        with serving(tools) as lookups:
            for name, lookup in lookups.items():
                first, again = lookup.page("kernel_001"), lookup.page("kernel_001")
                self._store("page", name, 0, {"first": first.wall, "wall": again.wall, "bytes": again.bytes})
            for number in range(self.rounds):
                chosen = set()
                for name, lookup in lookups.items():
                    took, version = lookup.resolve("kernel_001", site)
                    chosen.add(version)
                    self._store("resolve", name, number, took.to_json())
                if len(chosen) != 1:
                    raise AssertionError(f"pip was given different wheels: {chosen}")
            for number in range(self.rounds):
                for distribution in FETCHED:
                    item = newer(distribution, self.rounds + number)
                    wheel = item.write(site.folder / "new")
                    start = time.monotonic()
                    server.add(item, wheel)
                    lookups["pypiserver"].wait_for(item)
                    kind = "steady" if distribution == STEADY else "average"
                    self._store(f"add/{kind}", "pypiserver", number, {"wall": time.monotonic() - start})
            self._store("memory", "pypiserver", 0, {"peak_memory": lookups["pypiserver"].peak_memory()})

    def _store(self, what: str, who: str, number: int, figures: dict[str, Any]) -> None:
        self.results.put(f"{self.wheels}/{what}/{who}/{number}", figures)
        self._log(f"{what}, {who}" + (f": {figures['wall']:.3f} s" if "wall" in figures else ""))

    def _log(self, text: str) -> None:
        print(f"[{time.strftime('%H:%M:%S')}] {self.wheels:,} wheels: {text}", flush=True)
