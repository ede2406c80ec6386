"""Check that the names of a kernel's wheel do not belong to other projects on PyPI.

If two projects have the same name, installers choose the one with the higher version. If two projects have the same
import name, they overwrite each other's files. The Hub loads kernels by path and needs neither name, so many kernels
reuse the names of the project that they come from.
"""

from __future__ import annotations

from dataclasses import replace

from packaging.utils import canonicalize_name

from wheelsmith.base.errors import MatrixError, Place
from wheelsmith.base.projects import is_known_project, known_projects
from wheelsmith.plan.recipe.spec import KernelSpec


def with_import_name(
    spec: KernelSpec, *, distribution: str | None, module: str | None, repo: str | None, file: str
) -> KernelSpec:
    """Return the kernel with the import name from the matrix.

    :param distribution: the project's name in the matrix, or None. An explicit name may belong to another project.
    :param repo: the Hub repo of the kernel.
    :param file: the matrix file, for the error.
    :raises MatrixError: a default name belongs to another project, or the import name does.
    """
    named = replace(spec, import_name=module)
    conflict = find_name_conflict(spec.name, distribution=distribution, module=named.module)
    if conflict is None:
        return named
    own = unique_name(repo or spec.repo_id or f"{spec.name}-kernel")
    lines = [] if distribution else [f"distribution: {own}"]
    lines.append(f"module: {own.replace('-', '_')}")
    raise MatrixError(
        conflict,
        where=Place(file=file),
        remedy=f"set unique names under kernel: {', '.join(lines)}",
    )


def find_name_conflict(name: str, *, distribution: str | None, module: str) -> str | None:
    """Return the reason why a kernel needs other names, or None.

    :param name: the kernel's name.
    :param distribution: an explicit name of the project, or None. It may belong to another project.
    :param module: the import name.
    """
    project = canonicalize_name(distribution or name)
    taken, owners = distribution is None and is_known_project(project), _owners(module)
    if not taken and (not owners or (distribution and project in owners)):
        return None
    reasons = []
    if taken:
        reasons.append(f"{project} is another project on PyPI, and installers choose the higher version of the two")
    if owners:
        reasons.append(f"import {module} belongs to {' and '.join(owners)}, so the wheel would overwrite its files")
    return "; ".join(reasons)


def unique_name(repo: str) -> str:
    """Return a project name with the organization as prefix, so that no other project has it."""
    return str(canonicalize_name(repo.replace("/", "-")))


def _owners(module: str) -> tuple[str, ...]:
    """Return the projects that install an import name."""
    known = known_projects()
    if module in known.standard_library:
        return ("Python",)
    others = (name for name, own in known.kernels.items() if own == module)
    return tuple(dict.fromkeys([*known.modules.get(module, ()), *known.namespaces.get(module, ()), *others]))
