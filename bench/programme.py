"""The order of the measurements. The ways alternate, and a resumed run skips finished work."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.grid import Cell, by_torch
from bench.loops import build_careful, build_usual, environment
from bench.ours import build_ours, keep_toolchains, lay_out_matrix, prepare_toolchains
from bench.results import Results
from bench.workshop import CORES, ROOT, Workshop, disk_use, empty_folder
from wheelsmith.base.errors import WheelsmithError

# Kept between runs, since a resumed careful loop needs the cache of the interrupted one.
CCACHES = ROOT / "bench" / ".ccache"
CHAIN = ("cold", "ready", "warm")


@dataclass(frozen=True, slots=True, kw_only=True)
class Programme:
    """The measurements of a run.

    :param ways: any of ``usual``, ``careful`` and ``ours``.
    :param workers: numbers of parallel compiler processes of wheelsmith; empty means the default of wheelsmith.
    """

    cells: tuple[Cell, ...]
    kernels: tuple[str, ...]
    ways: tuple[str, ...]
    workers: tuple[int, ...]
    results: Results
    workshop: Workshop

    def run_matrix(self) -> None:
        """Build the matrix in every way. The loops go by torch release, and wheelsmith builds kernels in between."""
        self._forget_careful_without_cache()
        torches = by_torch(self.cells)
        for number, (torch, cells) in enumerate(torches.items()):
            self._loops(torch, cells)
            if "ours" in self.ways:
                share = len(self.kernels) / len(torches)
                for kernel in self.kernels[round(number * share) : round((number + 1) * share)]:
                    self._ours(kernel)
        shutil.rmtree(CCACHES, ignore_errors=True)

    def run_scaling(self, sizes: tuple[int, ...]) -> None:
        """Build growing matrices. wheelsmith builds each of them; the careful loop builds each cell once."""
        self._forget_careful_without_cache()
        if "ours" in self.ways:
            with empty_folder(self.workshop.folder / "cache") as cache:
                prepare_toolchains(self.cells, cache)
                for kernel in self.kernels:
                    for size in sizes:
                        for workers in self.workers:
                            self._ours_of_size(kernel, size, workers, cache)
        if "careful" in self.ways:
            for torch, cells in by_torch(self.cells).items():
                self._loops(torch, cells)
        shutil.rmtree(CCACHES, ignore_errors=True)

    # --- loops --------------------------------------------------------------------------------------------------

    def _loops(self, torch: str, cells: tuple[Cell, ...]) -> None:
        """Build the cells of a torch release in both loops. The first environment serves both."""
        careful = [(kernel, cell) for kernel in self.kernels for cell in cells] if "careful" in self.ways else []
        careful = [(kernel, cell) for kernel, cell in careful if not self.results.has(f"careful/{kernel}/{cell.id}")]
        for cell in cells:
            usual = [kernel for kernel in self.kernels if not self.results.has(f"usual/{kernel}/{cell.id}")]
            usual = usual if "usual" in self.ways else []
            if not usual and not careful:
                continue
            try:
                with environment(self.workshop, torch) as (python, cost):
                    figures = {**cost.to_json(), "disk": disk_use(python)}
                    self._store(f"environment/{cell.id}", figures)
                    for kernel in usual:
                        self._measure(f"usual/{kernel}/{cell.id}", lambda k=kernel, c=cell: self._usual(k, c, python))
                    for kernel, each in careful:
                        self._measure(
                            f"careful/{kernel}/{each.id}", lambda k=kernel, c=each: self._careful(k, c, python)
                        )
                    careful = []
            except WheelsmithError as error:
                self._store(f"environment/{cell.id}", {"failed": str(error)})

    def _usual(self, kernel: str, cell: Cell, python: Path) -> dict[str, Any]:
        return build_usual(self.workshop, kernel, cell, python).to_json()

    def _careful(self, kernel: str, cell: Cell, python: Path) -> dict[str, Any]:
        ccache = CCACHES / kernel
        ccache.parent.mkdir(exist_ok=True)
        cost = build_careful(self.workshop, kernel, cell, python, ccache)
        return {**cost.to_json(), "disk": disk_use(ccache)}

    def _forget_careful_without_cache(self) -> None:
        for kernel in self.kernels:
            done = all(self.results.has(f"careful/{kernel}/{cell.id}") for cell in self.cells)
            if not done and not (CCACHES / kernel).is_dir():
                self.results.drop(f"careful/{kernel}/")

    # --- wheelsmith ---------------------------------------------------------------------------------------------

    def _ours(self, kernel: str) -> None:
        """Build the matrix with an empty cache, then with cached toolchains, then without changes."""
        if all(self.results.has(f"ours/{kernel}/{state}") for state in CHAIN):
            return
        with (
            empty_folder(self.workshop.folder / "ours") as folder,
            empty_folder(self.workshop.folder / "cache") as cache,
        ):
            lay_out_matrix(kernel, self.cells, folder)
            for state in CHAIN:
                if state == "ready":
                    keep_toolchains(cache)
                    shutil.rmtree(folder / "dist", ignore_errors=True)
                if not self._measure(
                    f"ours/{kernel}/{state}",
                    lambda: build_ours(self.workshop, folder, cache, self.cells, max(self.workers, default=None)),
                ):
                    return

    def _ours_of_size(self, kernel: str, size: int, workers: int, cache: Path) -> None:
        name = f"ours/{kernel}/{size}/{workers}"
        if self.results.has(name):
            return
        cells = self.cells[:size]
        with empty_folder(self.workshop.folder / "ours") as folder:
            lay_out_matrix(kernel, cells, folder)
            keep_toolchains(cache)
            self._measure(name, lambda: build_ours(self.workshop, folder, cache, cells, workers))

    # --- shared -------------------------------------------------------------------------------------------------

    def _measure(self, name: str, work: Callable[[], dict[str, Any]]) -> bool:
        """Run a measurement and store its figures. Return False if it failed."""
        try:
            figures = work()
        except WheelsmithError as error:
            self._store(name, {"failed": str(error)})
            return False
        self._store(name, figures)
        return True

    def _store(self, name: str, figures: dict[str, Any]) -> None:
        self.results.put(name, figures)
        if "failed" in figures:
            print(f"[{time.strftime('%H:%M:%S')}] {name}: FAILED: {figures['failed']}", flush=True)
            return
        print(f"[{time.strftime('%H:%M:%S')}] {name}: {figures['wall']} s wall, {figures['cpu']} s CPU", flush=True)


def estimate(programme: Programme) -> dict[str, float]:
    """Return an estimate of the minutes of each way, based on measurements on two cores in 2026."""
    environments = len(programme.cells) if "usual" in programme.ways else len(by_torch(programme.cells))
    building = len(programme.cells) * sum(_CELL[kernel] for kernel in programme.kernels) * 2 / CORES
    # wheelsmith builds twice: with an empty cache and with cached toolchains. The saving by shared work is unknown.
    each = {"usual": building + environments * _ENVIRONMENT, "careful": building, "ours": 2 * building}
    if "usual" not in programme.ways:
        each["careful"] += environments * _ENVIRONMENT
    return {way: each[way] for way in programme.ways}


# Minutes for an environment, and for a cell by kernel.
_ENVIRONMENT = 1.4
_CELL = {"stable": 0.15, "several": 0.6, "heavy": 1.2}
