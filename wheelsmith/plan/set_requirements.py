"""Requirements between the kernels of a matrix file: their order, and the wheel of each for a cell of another."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from graphlib import CycleError, TopologicalSorter

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from wheelsmith.base.errors import MatrixError, Place
from wheelsmith.matrix.types import Matrix, ProjectSettings
from wheelsmith.model import BuildPlan, Cell, RequiredWheel
from wheelsmith.plan.feasibility import NotBuildableError
from wheelsmith.plan.recipe.project import ProjectSpec
from wheelsmith.plan.recipe.spec import KernelSpec

_Spec = KernelSpec | ProjectSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class RequiredKernel:
    """A planned kernel that another one of the set requires.

    :param name: its name in the matrix file.
    :param repos: the Hub repos that it is.
    :param plans: the plans of its selected cells.
    """

    name: str
    distribution: str
    version: str
    repos: frozenset[str]
    plans: Sequence[BuildPlan]

    @property
    def project(self) -> str:
        """Return the normalized name of its project."""
        return canonicalize_name(self.distribution)

    def wheels_for(self, cell: Cell) -> tuple[RequiredWheel, ...]:
        """Return its wheel for a cell, and those that this wheel requires.

        :raises NotBuildableError: it has none.
        """
        cells = {replace(cell, kernel=None).id, replace(cell, kernel=None, python=None).id}
        plan = next((plan for plan in self.plans if replace(plan.cell, kernel=None).id in cells), None)
        if plan is None:
            raise NotBuildableError(
                f"it requires {self.name} of this file, which has no wheel for this combination, or was not selected"
            )
        return RequiredWheel(project=self.project, digest=plan.build_digest), *plan.requires


def order_kernels(kernels: Mapping[str, tuple[Matrix, _Spec]]) -> dict[str, tuple[str, ...]]:
    """Return name → the names of the kernels that it requires, each kernel after those that it requires.

    :raises MatrixError: kernels require each other.
    """
    provider = {name: owner for owner, each in kernels.items() for name in _names(*each)}
    requires: dict[str, tuple[str, ...]] = {}
    for name, each in kernels.items():
        found = (provider.get(word) for word in _required_names(*each))
        requires[name] = tuple(dict.fromkeys(owner for owner in found if owner and owner != name))
    try:
        return {name: requires[name] for name in TopologicalSorter(requires).static_order()}
    except CycleError as error:
        cycle = list(reversed(error.args[1]))
        raise MatrixError(
            f"kernels require each other: {' → '.join(cycle)}",
            where=Place(file=str(kernels[cycle[0]][0].place)),
            remedy="remove one of these requirements",
        ) from None


def _names(matrix: Matrix, spec: _Spec) -> set[str]:
    """Return the names that others require a kernel by: its project, or its Hub repos."""
    repos = {matrix.kernel.hub, spec.repo_id} if isinstance(spec, KernelSpec) else set()
    project = matrix.kernel.distribution or spec.name
    return {name for name in (*repos, project and canonicalize_name(project)) if name}


def _required_names(matrix: Matrix, spec: _Spec) -> Iterable[str]:
    if isinstance(spec, KernelSpec):
        return [repo for repos in spec.kernel_depends.values() for repo in repos]
    given = (matrix.project, *(rule.project for rule in matrix.rules))
    lines = [line for settings in given for line in (*settings.build_requires, *settings.test_requires)]
    return [*spec.named, *(canonicalize_name(Requirement(line).name) for line in lines)]


def with_required(spec: _Spec, required: Sequence[RequiredKernel]) -> _Spec:
    """Return a kernel that takes others from the same file: their wheels stand for its requirements.

    A kernel's wheel requires what build.toml has under ``kernel-depends``. A project's own metadata already does so.
    """
    if not required:
        return spec  # as for most kernels, once for each of their cells
    if isinstance(spec, ProjectSpec):
        return replace(spec, requires=_without(spec.requires, required))
    lines = {repo: f"{each.distribution}=={each.version}" for each in required for repo in each.repos}
    scopes = spec.kernel_depends.items()
    return replace(
        spec,
        kernel_depends={scope: tuple(repo for repo in repos if repo not in lines) for scope, repos in scopes},
        set_requires={scope: tuple(lines[repo] for repo in repos if repo in lines) for scope, repos in scopes},
    )


def without_required(settings: ProjectSettings, required: Sequence[RequiredKernel]) -> ProjectSettings:
    """Return the settings of a project's build without requirements that the set provides."""
    if not required:
        return settings
    return replace(
        settings,
        build_requires=_without(settings.build_requires, required),
        test_requires=_without(settings.test_requires, required),
    )


def _without(lines: Iterable[str], required: Sequence[RequiredKernel]) -> tuple[str, ...]:
    provided = {each.project: each for each in required}
    kept = []
    for line in lines:
        wanted = Requirement(line)
        found = provided.get(canonicalize_name(wanted.name))
        if found is None:
            kept.append(line)
        elif not wanted.specifier.contains(found.version, prereleases=True):
            raise NotBuildableError(f"it requires {line}, but {found.name} of this file has version {found.version}")
    return tuple(kept)
