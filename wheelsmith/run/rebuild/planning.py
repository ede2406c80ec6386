"""Plan again what wheels record: a plan that a stranger wrote is compared with our own, and never run."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from wheelsmith.base.errors import MatrixError, MatrixMistakesError, SourceError
from wheelsmith.engine import Engine, choose
from wheelsmith.matrix import EngineChoice, Matrix
from wheelsmith.model import BuildPlan, Cell, Listener
from wheelsmith.model.build_host import AUTO
from wheelsmith.plan import plan_kernel
from wheelsmith.plan.recipe import KernelSource, KernelSpec
from wheelsmith.platforms import CPU, platform_of
from wheelsmith.run.prepare import Request, fetch_kernel, prepare
from wheelsmith.run.project_metadata import describe, kernel_source, own_words, read_spec
from wheelsmith.run.rebuild.matrix_from_record import matrices_of
from wheelsmith.run.source_argument import kernel_of
from wheelsmith.source import SourceTree
from wheelsmith.wheel.recorded_plan import RecordedPlan, plan_differences

_LONGEST_REASON = 400  # characters


@dataclass(frozen=True, slots=True, kw_only=True)
class Replanned:
    """What wheels are built again from.

    :param plans: by their digests.
    :param choice: the limits of a build, as far as somebody named them.
    :param refused: why a recorded plan was not made again, by its digest.
    """

    source: SourceTree
    engine: Engine
    choice: EngineChoice
    plans: dict[str, BuildPlan]
    refused: dict[str, str] = field(default_factory=dict)

    def why_not(self, recorded: RecordedPlan, read: Callable[[], RecordedPlan | str]) -> tuple[str, ...]:
        """Say why a recorded plan is none of these: what it says otherwise than the one that is closest.

        :param read: gives all of it.
        """
        own, theirs = self.source.id.tree, recorded.tree
        if theirs != own:
            return (f"the source is another one: its files have the digest {own}, and the wheel's had {theirs[:64]}",)
        if refused := self.refused.get(recorded.digest):
            return (refused,)
        wheel = recorded.data["wheel"]
        near = [plan for plan in self.plans.values() if plan.wheel.version == wheel["version"]]
        if not near:
            return (f"nothing here plans {wheel['distribution'][:80]} {wheel['version'][:80]}",)
        whole = read()
        if isinstance(whole, str):
            return (whole,)
        found = [plan_differences(whole.data, json.loads(plan.recorded())) for plan in near]
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
    spec = own_words(source)
    if not isinstance(spec, KernelSpec):
        raise MatrixError(
            "what a project's build system was told, and its environment, are not in the wheel",
            remedy="name the matrix that it was built from: wheelsmith verify-rebuild --matrix matrix.yaml WHEEL",
        )
    engine = choose(request.engine or AUTO, images=frozenset({None}), trusted=False, cache=request.cache).engine
    known = kernel_source(source, spec)
    plans: dict[str, BuildPlan] = {}
    refused: dict[str, str] = {}
    for each in recorded:
        if each.tree != source.id.tree:
            continue
        try:
            for matrix in matrices_of(each, spec, kernel):
                plans |= {plan.build_digest: plan for plan in _plans(matrix, source, known, engine)}
        except (MatrixError, MatrixMistakesError, SourceError) as error:
            refused[each.digest] = f"it records what no matrix may ask for: {str(error)[:_LONGEST_REASON]}"
    return Replanned(source=source, engine=engine, choice=EngineChoice(), plans=plans, refused=refused)


def _plans(matrix: Matrix, source: SourceTree, known: KernelSource, engine: Engine) -> Iterator[BuildPlan]:
    spec = read_spec(source, matrix, "matrix.yaml")
    if not isinstance(spec, KernelSpec):
        return
    # Which torch goes with which CUDA is for a matrix to say; what was built shows that it could be.
    toolkit = None if matrix.computes[0] == CPU else platform_of(matrix.computes[0])
    cell = Cell(
        framework=matrix.framework,
        release=matrix.releases[0],
        toolkit=toolkit[1] if toolkit else None,
        arch=matrix.arch[0],
        settings=matrix.settings,
    )
    made = plan_kernel(
        cell,
        spec=spec,
        # Only its description depends on the names that the matrix gives it.
        source=replace(known, readme=describe(source, spec)),
        build_host=engine.build_host(None),
        distribution=matrix.kernel.distribution,
        version=matrix.version,
    )
    if isinstance(made, BuildPlan):
        yield made
