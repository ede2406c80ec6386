"""Plan the recorded builds of wheels again. A recorded plan is compared with the new one, and never executed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path

from packaging.utils import canonicalize_name
from packaging.version import Version

from wheelsmith.base.errors import MatrixError, WheelsmithError
from wheelsmith.base.json_dataclass import in_one_line
from wheelsmith.engine import Engine, choose
from wheelsmith.frameworks import frameworks, read_local_version, torch_releases
from wheelsmith.matrix.types import EngineChoice, KernelRef
from wheelsmith.model import (
    CUDA,
    HOST,
    TORCH,
    BuildHost,
    BuildPlan,
    Cell,
    CellSettings,
    Listener,
    Toolset,
    WheelSpec,
)
from wheelsmith.model.build_host import AUTO
from wheelsmith.plan.kernel import plan_kernel
from wheelsmith.plan.pypi_names import unique_name
from wheelsmith.plan.recipe.spec import KernelSpec
from wheelsmith.platforms import Platform, cxx_toolchains, platform_of, platforms
from wheelsmith.run.prepare import Request, fetch_kernel, with_needed_compilers
from wheelsmith.run.prepared_set import prepare_set
from wheelsmith.run.project_source import describe, kernel_source, kernels_of, named_kernel, parse_source
from wheelsmith.source.tree import SourceTree
from wheelsmith.wheel.recorded_plan import RecordedPlan, plan_differences

_BY_MATRIX = "use the matrix that it was built from: wheelsmith verify-rebuild --matrix matrix.yaml WHEEL"


class NotRebuiltError(Exception):
    """A wheel was not rebuilt.

    :param reasons: at least one reason.
    """

    def __init__(self, *reasons: str) -> None:
        super().__init__(*reasons)
        self.reasons = reasons


@dataclass(frozen=True, slots=True, kw_only=True)
class Replanned:
    """The plans, sources and engine for rebuilding wheels.

    :param sources: name of a kernel → its source; the only kernel of a file has the name "".
    :param limits: a matrix's limits for one build.
    :param plans: build digest → plan.
    :param refused: digest of a recorded plan → why it was not planned again.
    """

    sources: dict[str, SourceTree]
    engine: Engine
    limits: EngineChoice
    plans: dict[str, BuildPlan]
    refused: dict[str, str] = field(default_factory=dict)

    def require(self, recorded: RecordedPlan, read: Callable[[], RecordedPlan]) -> None:
        """Require that a recorded plan equals one of these plans.

        :param read: returns the complete recorded plan.
        :raises NotRebuiltError: it equals none; the reasons are its differences from the closest one.
        """
        if recorded.data.get("repacked"):
            raise NotRebuiltError("upstream compiled it, so that only its maker can build it again")
        if recorded.digest in self.plans:
            return
        own = {source.id.tree for source in self.sources.values()}
        if recorded.tree not in own:
            reason = f"its files have the digest {' or '.join(sorted(own))}, the wheel's had {recorded.tree[:64]}"
            raise NotRebuiltError(f"the source differs: {reason}; an older wheelsmith may have taken other files")
        if refused := self.refused.get(recorded.digest):
            raise NotRebuiltError(refused)
        wheel = recorded.data["wheel"]
        candidates = [plan for plan in self.plans.values() if plan.wheel.version == wheel["version"]]
        if not candidates:
            raise NotRebuiltError(f"there is no plan for {wheel['distribution'][:80]} {wheel['version'][:80]}")
        whole = read().data
        raise NotRebuiltError(
            *min((plan_differences(whole, json.loads(plan.recorded())) for plan in candidates), key=len)
        )


def plans_of_matrix(request: Request, listen: Listener) -> Replanned:
    """Plan the cells of all kernels of a matrix.

    :raises WheelsmithError: it cannot be planned.
    """
    if not request.matrix.exists():
        remedy = "go to the folder of the matrix, or name the source of the wheels with --source FOLDER"
        raise MatrixError(f"there is no {request.matrix}", remedy=remedy)
    prepared = prepare_set(request, listen)
    return Replanned(
        sources={name: each.source for name, each in prepared.prepared.items()},
        engine=prepared.engine,
        limits=prepared.limits,
        plans={plan.build_digest: plan for plan in prepared.plans if not plan.repacked},
    )


def plans_of_source(argument: str, recorded: Iterable[RecordedPlan], request: Request, listen: Listener) -> Replanned:
    """Plan the recorded builds of a kernel's wheels, from the kernel's source alone.

    :param argument: the source in the form that ``init`` accepts.
    :raises WheelsmithError: the source is not available, or not a kernel in kernel-builder layout.
    """
    here = Path.cwd()
    kernel = parse_source(argument, here)
    source = fetch_kernel(kernel, replace(request, matrix=here / "matrix.yaml"), here / "dist", listen)
    specs = kernels_of(source)
    if not specs:
        raise MatrixError(
            "a wheel does not record the environment and the settings of a project's build system", remedy=_BY_MATRIX
        )
    engine = choose(request.engine or AUTO, images=frozenset({None}), trusted=False, cache=request.cache).engine
    build_host = engine.build_host(None)
    plans: dict[str, BuildPlan] = {}
    refused: dict[str, str] = {}
    for each in recorded:
        if each.tree == source.id.tree:
            try:
                plans |= {plan.build_digest: plan for plan in _plans(each, kernel, specs, source, build_host)}
            except (WheelsmithError, ValueError) as error:
                refused[each.digest] = f"no valid matrix gives its recorded plan: {in_one_line(error)}"
    return Replanned(sources={"": source}, engine=engine, limits=EngineChoice(), plans=plans, refused=refused)


def _plans(
    recorded: RecordedPlan, named: KernelRef, specs: Iterable[KernelSpec], source: SourceTree, build_host: BuildHost
) -> Iterator[BuildPlan]:
    """Yield each plan that a kernel's wheel may have been built from. The digest identifies the right one.

    :raises WheelsmithError: no valid matrix describes this wheel.
    :raises ValueError: the record does not have the form of a plan.
    """
    wheel = WheelSpec.from_json(recorded.data["wheel"])
    own = next((spec for spec in specs if spec.framework == wheel.framework), next(iter(specs)))
    kernel = _with_names(named, own, wheel)
    spec = named_kernel(own, source, kernel, "build-plan.json")
    known = replace(kernel_source(source, own), readme=describe(source, spec))
    for cell in _cells(wheel, recorded.data["toolset"]):
        made = plan_kernel(
            cell,
            spec=spec,
            source=known,
            build_host=with_needed_compilers(build_host, cell),
            distribution=kernel.distribution,
            version=Version(wheel.version).public,
        )
        if isinstance(made, BuildPlan):
            yield made


def _with_names(kernel: KernelRef, spec: KernelSpec, wheel: WheelSpec) -> KernelRef:
    """Return the kernel with the names of its wheel.

    :raises MatrixError: the names are not the kernel's own, and may belong to another project.
    """
    if (wheel.distribution, wheel.module) == (spec.name, spec.package):
        return kernel
    repos = (kernel.hub, spec.repo_id, f"{spec.name}-kernel")
    own = {spec.name, *(unique_name(repo) for repo in repos if repo)}
    modules = {spec.package, *(name.replace("-", "_") for name in own)}
    if canonicalize_name(wheel.distribution) not in own or wheel.module not in modules:
        raise MatrixError("its names are not the kernel's own", remedy=_BY_MATRIX)
    return replace(kernel, distribution=wheel.distribution, module=wheel.module)


def _cells(wheel: WheelSpec, toolset: object) -> Iterator[Cell]:
    """Yield each cell that a wheel may have been built for.

    :raises MatrixError: this wheelsmith does not know its framework, release or toolkit.
    """
    newest = next(reversed(torch_releases()))
    # A wheel without compiled code is the same for every cell.
    framework, release, arch = (
        (wheel.framework, wheel.release, wheel.arch) if wheel.release else (TORCH, newest, "x86_64")
    )
    known = frameworks().get(framework)
    if known is None or release not in known.releases():
        raise MatrixError(f"this wheelsmith does not know {framework} {release}")
    platform = _platform(wheel)
    if wheel.toolkit is not None and wheel.toolkit not in platform.toolkits():
        raise MatrixError(f"this wheelsmith does not know {platform.title} {wheel.toolkit}")
    compilers = _compilers(Toolset.from_json(toolset) if toolset is not None else None)
    for gpu_archs, headers in product(dict.fromkeys((None, wheel.gpu_archs or None)), ("whole", "light")):
        settings = replace(compilers, gpu_archs=gpu_archs, torch_headers=headers)
        yield Cell(
            framework=framework,
            release=release,
            platform=platform.name,
            toolkit=wheel.toolkit,
            arch=arch,
            settings=settings,
        )


def _platform(wheel: WheelSpec) -> Platform:
    """Return the platform in the version of a wheel; CUDA for a wheel without a toolkit."""
    found = platform_of(read_local_version(Version(wheel.version).local).compute or "")
    return found[0] if found else platforms()[CUDA]


def _compilers(toolset: Toolset | None) -> CellSettings:
    """Return the settings that select the recorded compilers, or the defaults if the compilers are unknown."""
    if toolset is None:
        return CellSettings()
    if toolset.prefix is None:
        return CellSettings(toolchain=HOST)
    for known in cxx_toolchains():
        if known.prefix == toolset.prefix:
            return CellSettings(toolchain=known.compilers.name, manylinux=known.policy.name)
    return CellSettings()
