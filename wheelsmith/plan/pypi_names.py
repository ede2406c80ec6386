"""The names of a kernel's wheel, where another project has them on PyPI.

Of two projects of one name, installers take the higher version, whoever made it; two that install one import name write
over each other's files. A kernel on the Hub is loaded by its path and needs neither name for itself, so many have those
of the project that they come from.
"""

from __future__ import annotations

from dataclasses import replace

from packaging.utils import canonicalize_name

from wheelsmith.base.errors import MatrixError, Place
from wheelsmith.base.projects import known_projects, namesakes
from wheelsmith.plan.recipe.spec import KernelSpec


def with_own_names(
    spec: KernelSpec, *, distribution: str | None, module: str | None, repo: str | None, file: str
) -> KernelSpec:
    """Return the kernel with the import name that the matrix gives it.

    :param distribution: the project's name, if the matrix gives one; whoever names another project's means it.
    :param repo: the Hub repo that it comes from.
    :param file: the matrix, for the error.
    :raises MatrixError: a name that the matrix does not give is another project's; or it gives another's import name.
    """
    named = replace(spec, import_name=module)
    why = why_not_own(spec.name, distribution=distribution, module=named.module)
    if why is None:
        return named
    own = own_name(repo or spec.repo_id or f"{spec.name}-kernel")
    lines = [] if distribution else [f"distribution: {own}"]
    lines.append(f"module: {own.replace('-', '_')}")
    raise MatrixError(
        why,
        where=Place(file=file),
        remedy=f"give it names of its own, under kernel: {', '.join(lines)}",
    )


def why_not_own(name: str, *, distribution: str | None, module: str) -> str | None:
    """Return why a kernel needs names of its own; None where it has them.

    :param name: the kernel's.
    :param distribution: the project's name, if somebody gives one; whoever names another project's means it.
    :param module: the import name.
    """
    project = canonicalize_name(distribution or name)
    taken, owners = distribution is None and _is_a_projects(project), _owners(module)
    if not taken and (not owners or (distribution and project in owners)):
        return None
    reasons = []
    if taken:
        reasons.append(f"{project} is another project on PyPI, and installers take the higher version of the two")
    if owners:
        reasons.append(f"import {module} is {' and '.join(owners)}'s, whose files the wheel would replace")
    return "; ".join(reasons)


def own_name(repo: str) -> str:
    """Return a project's name that is no other's: with the organization in front."""
    return str(canonicalize_name(repo.replace("/", "-")))


def _is_a_projects(name: str) -> bool:
    known = known_projects().modules.values()
    return any(name == item.name for item in namesakes()) or any(name in owners for owners in known)


def _owners(module: str) -> tuple[str, ...]:
    """Return the projects that install an import name."""
    known = known_projects()
    if module in known.standard_library:
        return ("Python",)
    others = (item.name for item in namesakes() if module in item.modules)
    return tuple(dict.fromkeys([*known.modules.get(module, ()), *known.namespaces.get(module, ()), *others]))
