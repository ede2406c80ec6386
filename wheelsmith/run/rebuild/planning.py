"""Plan again what wheels record: a plan that a stranger wrote is compared with our own, and never run."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

from packaging.version import Version

from wheelsmith.base.errors import MatrixError
from wheelsmith.engine import Engine, choose
from wheelsmith.frameworks import frameworks, torch_releases
from wheelsmith.matrix import EngineChoice, KernelRef, Matrix
from wheelsmith.model import BuildPlan, Cell, CellSettings, Listener
from wheelsmith.model.cell import HOST
from wheelsmith.model.engines import AUTO
from wheelsmith.plan.recipe import KernelSpec
from wheelsmith.platforms import cxx_toolchains
from wheelsmith.run.planner import Planner
from wheelsmith.run.prepare import Request, fetch_kernel, kernel_source, prepare
from wheelsmith.run.source_spec import read_spec
from wheelsmith.run.source_word import kernel_of
from wheelsmith.source import SourceTree
from wheelsmith.wheel.recorded_plan import RecordedPlan, plan_differences

_RELEASE = re.compile(r"\d{1,3}\.\d{1,3}")
_ARCHS = ("x86_64", "aarch64")
_HEADERS = ("whole", "light")


@dataclass(frozen=True, slots=True, kw_only=True)
class Replanned:
    """What wheels are built again from.

    :param plans: by their digests.
    :param choice: the limits of a build, as far as somebody named them.
    """

    source: SourceTree
    engine: Engine
    choice: EngineChoice
    plans: dict[str, BuildPlan]

    def why_not(self, recorded: RecordedPlan) -> tuple[str, ...]:
        """Say why a recorded plan is none of these: what it says otherwise than the one that is closest."""
        own, theirs = self.source.id.tree, recorded.tree
        if theirs != own:
            return (f"the source is another one: its files have the digest {own}, and the wheel's had {theirs[:64]}",)
        wheel = recorded.data["wheel"]
        near = [plan for plan in self.plans.values() if plan.wheel.version == wheel["version"]]
        if not near:
            return (f"nothing here plans {wheel['distribution'][:80]} {wheel['version'][:80]}",)
        found = [plan_differences(recorded.data, json.loads(plan.recorded())) for plan in near]
        closest: list[str] = min(found, key=len)
        return tuple(closest)


def plans_of_matrix(request: Request, listen: Listener) -> Replanned:
    """Plan all of a matrix.

    :raises WheelsmithError: it cannot be planned.
    """
    prepared = prepare(request, listen)
    return Replanned(
        source=prepared.source,
        engine=prepared.engine,
        choice=prepared.matrix.engine,
        plans={plan.build_digest: plan for plan in prepared.plans},
    )


def plans_of_source(word: str, recorded: Iterable[RecordedPlan], request: Request, listen: Listener) -> Replanned:
    """Plan what kernels' wheels say that they are, from a source alone.

    :param word: names the source, as ``init`` is told.
    :raises WheelsmithError: it cannot be had, or is no kernel in kernel-builder layout.
    """
    here = Path.cwd()
    kernel = kernel_of(word, here)
    source = fetch_kernel(kernel, replace(request, matrix=here / "matrix.yaml"), here / "dist", listen)
    engine = choose(request.engine or AUTO, images=frozenset({None}), trusted=False, cache=request.cache).engine
    plans = {
        plan.build_digest: plan
        for each in recorded
        if each.tree == source.id.tree
        for plan in _plans(each, kernel, source, engine)
    }
    return Replanned(source=source, engine=engine, choice=EngineChoice(), plans=plans)


def _plans(recorded: RecordedPlan, kernel: KernelRef, source: SourceTree, engine: Engine) -> Iterator[BuildPlan]:
    """Plan all that a record may come from; that it came from one of them, its digest says."""
    for matrix, cell in _asked(recorded, kernel):
        spec = read_spec(source, matrix, "matrix.yaml")
        if not isinstance(spec, KernelSpec):
            raise MatrixError(
                "what a project's build system was told, and its environment, are not in the wheel",
                remedy="name the matrix that it was built from: wheelsmith verify-rebuild --matrix matrix.yaml WHEEL",
            )
        planner = Planner(
            matrix=matrix,
            spec=spec,
            source=kernel_source(source, spec),
            engine=engine,
            resolve=_nothing,
            older={},
        )
        made = planner.plan(cell)
        if isinstance(made, BuildPlan):
            yield made


def _nothing(requirements: tuple[str, ...], python: str, arch: str, rather: tuple[str, ...] = ()) -> str:
    """Answer for projects' environments, of which a kernel has none."""
    return f"nothing is chosen for {python} on {arch}: {requirements} {rather}"


def _asked(recorded: RecordedPlan, kernel: KernelRef) -> Iterator[tuple[Matrix, Cell]]:
    """Yield what a matrix may have asked for, by what a stranger's record says; nothing where it is no such thing."""
    wheel = recorded.data["wheel"]
    try:
        cell = _cell(wheel)
        version = Version(wheel["version"]).public
        named = KernelRef(
            **{name: getattr(kernel, name) for name in ("hub", "git", "path", "sdist", "revision", "subdirectory")},
            distribution=str(wheel["distribution"]),
            module=str(wheel["module"]),
            declare=tuple(map(str, wheel["declared"])),
        )
        archs = tuple(map(str, wheel["gpu_archs"]))
        compilers = _compilers(recorded.data["toolset"])
    except (ValueError, TypeError, LookupError):
        return
    for gpu_archs, headers in product(dict.fromkeys((None, archs or None)), _HEADERS):
        settings = replace(compilers, gpu_archs=gpu_archs, torch_headers=headers)
        asked = replace(cell, settings=settings)
        matrix = Matrix(
            kernel=named,
            version=version,
            framework=cell.framework,
            releases=(cell.release,),
            computes=(cell.compute,),
            arch=(cell.arch,),
            settings=settings,
        )
        yield matrix, asked


def _cell(wheel: dict[str, Any]) -> Cell:
    if wheel["release"] is None:  # it is the same for every cell
        return Cell(release=next(reversed(torch_releases())), toolkit=None, arch=_ARCHS[0])
    known = frameworks()[wheel["framework"]]
    if wheel["release"] not in known.releases() or wheel["arch"] not in _ARCHS:
        raise ValueError(wheel["release"])
    toolkit = wheel["toolkit"]
    if toolkit is not None and not _RELEASE.fullmatch(toolkit):
        raise ValueError(toolkit)
    return Cell(framework=known.name, release=wheel["release"], toolkit=toolkit, arch=wheel["arch"])


def _compilers(toolset: Any) -> CellSettings:
    """Return the settings that take the compilers of a record; where they are not known, those that are taken first."""
    prefix = toolset["prefix"] if toolset else None
    if toolset and not prefix:
        return CellSettings(toolchain=HOST)
    for known in cxx_toolchains():
        if known.prefix.to_json() == prefix:
            return CellSettings(toolchain=known.compilers.name, manylinux=known.policy.name)
    return CellSettings()
