"""The cases of a test matrix: each wheel with each release, Python and GPU that it is for."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from threading import Event

from packaging.version import Version

from wheelsmith.base.errors import NoEnvironmentError, WheelsmithError
from wheelsmith.base.units import numbers, release_order
from wheelsmith.index.entries.entry import IndexEntry
from wheelsmith.index.pick.machine import Machine
from wheelsmith.index.resolve.incompatibility import find_obstacle
from wheelsmith.index.resolve.target import ParsedWheel, Target
from wheelsmith.model import Cell, release_title
from wheelsmith.platforms import CPU, Gpu, compute_name, compute_order
from wheelsmith.run.testing.environments import BaseEnvironment, ObstacleError
from wheelsmith.toolchain.program import run_in_parallel

# Chooses the environment of a test, without making it. It raises ObstacleError or NoEnvironmentError if there is none.
ChooseEnvironment = Callable[[ParsedWheel, Target], BaseEnvironment]


@dataclass(frozen=True, slots=True, kw_only=True)
class WheelCase:
    """A test of a wheel with one release of its framework, one Python and one GPU.

    :param cell: a cell that the wheel serves.
    :param target: None if this machine cannot run the test.
    :param gpu: None for a test without a GPU.
    :param obstacle: why there is no test; an ObstacleError if this machine is not meant for it.
    """

    wheel: IndexEntry
    cell: Cell
    target: Target | None = None
    environment: BaseEnvironment | None = None
    gpu: Gpu | None = None
    obstacle: WheelsmithError | None = None

    @property
    def title(self) -> str:
        """Return the wheel's version and the values that the test uses."""
        python = self.target.python_minor if self.target else self.cell.python
        words = [release_title(self.cell.framework, self.cell.release), compute_name(self.cell.compute)]
        words += [f"Python {python}"] if python else []
        words += [self.gpu.name] if self.gpu else []
        return f"{self.wheel.project} {self.wheel.version}: {', '.join(words)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixFilter:
    """The values that a test matrix is limited to. An empty collection allows all.

    :param releases: such as ``2.11``.
    :param computes: such as ``cu130`` or ``cpu``.
    """

    releases: Collection[str] = ()
    computes: Collection[str] = ()

    def allows(self, cell: Cell) -> bool:
        """Return True if the cell has allowed values."""
        return (not self.releases or cell.release in self.releases) and (
            not self.computes or cell.compute in self.computes
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseExpander:
    """Expands wheels to the tests that a machine can run.

    :param pythons: version, e.g. ``3.12`` → program.
    """

    machine: Machine
    pythons: Mapping[str, str]
    choose: ChooseEnvironment
    cancel: Event

    def expand(self, wheels: Iterable[IndexEntry], limited: MatrixFilter) -> tuple[WheelCase, ...]:
        """Return a case for each wheel, cell, GPU model, and the oldest and the newest Python that can be used.

        A combination that this machine cannot test is one case with the reason.

        :raises KeyboardInterrupt: it was cancelled.
        """
        combinations = [
            partial(self._cases_of, ParsedWheel(wheel), cell, gpu)
            for wheel in wheels
            for cell in sorted(filter(limited.allows, wheel.cells), key=_cell_order)
            for gpu in self._gpu_models(cell)
        ]
        # Choosing an environment may wait for an index.
        try:
            return tuple(case for cases in run_in_parallel(combinations, self.cancel) for case in cases)
        except WheelsmithError:
            if self.cancel.is_set():
                raise KeyboardInterrupt from None
            raise

    def _gpu_models(self, cell: Cell) -> tuple[Gpu | None, ...]:
        """Return a GPU of each model. Several equal ones run different tests at the same time."""
        models = {(gpu.name, gpu.capability): gpu for gpu in self.machine.gpus} if cell.compute != CPU else {}
        return tuple(models.values()) or (None,)

    def _cases_of(self, parsed: ParsedWheel, cell: Cell, gpu: Gpu | None) -> Iterable[WheelCase]:
        offered = self._usual_pythons() if cell.python is None else [p for p in self.pythons if p == cell.python]
        try:
            self._require_machine(cell, gpu, offered)
            oldest = self._first_usable(parsed, cell, gpu, offered)
        except (ObstacleError, NoEnvironmentError) as error:
            return [WheelCase(wheel=parsed.wheel, cell=cell, gpu=gpu, obstacle=error)]
        newest = self._first_usable(parsed, cell, gpu, offered[::-1])
        return [oldest] if newest == oldest else [oldest, newest]

    def _usual_pythons(self) -> list[str]:
        """Return the Pythons, oldest first. Those without the GIL count only if there are no others."""
        known = sorted(self.pythons, key=numbers)
        return [python for python in known if not python.endswith("t")] or known

    def _require_machine(self, cell: Cell, gpu: Gpu | None, offered: Collection[str]) -> None:
        if cell.arch != self.machine.arch:
            raise ObstacleError(f"this machine is {self.machine.arch}")
        if cell.compute != CPU and gpu is None:
            raise ObstacleError(f"this machine has no GPU for {compute_name(cell.compute)}")
        if not offered:
            raise ObstacleError(f"this machine has no Python {cell.python}")

    def _first_usable(self, parsed: ParsedWheel, cell: Cell, gpu: Gpu | None, pythons: Collection[str]) -> WheelCase:
        """Return the case of the first Python that has an environment.

        :raises WheelsmithError: none has. It is the error of the last Python.
        """
        *others, last = pythons
        for python in others:
            with suppress(ObstacleError, NoEnvironmentError):
                return self._case(parsed, cell, gpu, python)
        return self._case(parsed, cell, gpu, last)

    def _case(self, parsed: ParsedWheel, cell: Cell, gpu: Gpu | None, python: str) -> WheelCase:
        target = self._target_of(cell, gpu, python)
        environment = _choose_environment(parsed, target, self.choose)
        return WheelCase(wheel=parsed.wheel, cell=cell, target=target, environment=environment, gpu=gpu)

    def _target_of(self, cell: Cell, gpu: Gpu | None, python: str) -> Target:
        return Target(
            framework=cell.framework,
            release=cell.release,
            compute=cell.compute,
            arch=cell.arch,
            python=python.removesuffix("t"),
            free_threaded=python.endswith("t"),
            glibc=self.machine.glibc,
            capabilities=(gpu.capability,) if gpu else (),
            driver=self.machine.driver if gpu else None,
        )


def _cell_order(cell: Cell) -> tuple[Version, tuple[int, ...], str]:
    return release_order(cell.release), compute_order(cell.compute), cell.id


def _choose_environment(parsed: ParsedWheel, target: Target, choose: ChooseEnvironment) -> BaseEnvironment:
    """Choose an environment in which the wheel can be installed.

    :raises ObstacleError: the wheel is not for this Python or machine.
    :raises NoEnvironmentError: there is none.
    """
    if found := find_obstacle(parsed, target, target.accepted_tags(tuple(sorted(parsed.platforms)))):
        raise ObstacleError(found.reason)
    return choose(parsed, target)
