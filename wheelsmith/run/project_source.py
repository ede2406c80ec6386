"""The source of a matrix: its address from the user, and the metadata in its files."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import fields, replace
from pathlib import Path
from urllib.parse import urlsplit

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from wheelsmith.base.errors import MatrixError, MatrixMistakesError, Place, SourceError, ToolchainError, WheelsmithError
from wheelsmith.base.git_address import GIT_FORM
from wheelsmith.base.offline import is_offline
from wheelsmith.matrix.load import check_kernel
from wheelsmith.matrix.types import CudaCompatibility, KernelRef, Matrix, ProjectSettings
from wheelsmith.model import Listener, Notice, log_notices
from wheelsmith.plan.pypi_names import unique_name, with_import_name
from wheelsmith.plan.recipe.build_toml import parse_build_toml
from wheelsmith.plan.recipe.card import CARD, render_card
from wheelsmith.plan.recipe.project import PROJECT_FILES, ProjectSpec, read_project
from wheelsmith.plan.recipe.recipe import KernelSource, code_digest, includes_python
from wheelsmith.plan.recipe.spec import KernelSpec
from wheelsmith.plan.recipe.static_setup_metadata import may_import
from wheelsmith.source.tree import SourceTree
from wheelsmith.toolchain.pip import pip_settings

BUILD_TOML = "build.toml"
_HUB, _SDIST, _GIT = "hub:", "sdist:", "git+"
_SUBDIRECTORY, _NONE = "subdirectory=", "none"
_INDEX_TIMEOUT = 3.0  # seconds; the answer is only a hint
_FORMS = f"a folder, an archive, name==1.2 from a package index, hub:org/name, or {GIT_FORM}"
# An address such as git@host:org/project.git, with the revision after another @.
_SCP_ADDRESS = re.compile(r"(?P<address>[^@/]+@[^:/]+:[^@]+)(@(?P<revision>.+))?")
# The keys of ``ProjectSettings`` in matrix.yaml.
_OF_PROJECTS = {field.name.replace("_", "-") for field in fields(ProjectSettings)}


def parse_source(argument: str, folder: Path, listen: Listener = log_notices) -> KernelRef:
    """Return the ``kernel`` setting for a source argument. The newest revision or release is the default.

    :param folder: the folder that relative paths start from.
    :param listen: receives a warning if a newer release has no sdist.
    :raises MatrixError: it is not a source.
    :raises SourceError: the newest revision or release cannot be determined.
    """
    try:
        if argument.startswith(_HUB):
            return _parse_hub(argument.removeprefix(_HUB))
        if argument.startswith(_GIT) or "://" in argument or _SCP_ADDRESS.fullmatch(argument):
            return _parse_git(argument.removeprefix(_GIT))
        if not argument.startswith(_SDIST) and os.path.exists(folder / argument):  # noqa: PTH110  # Path.exists raises for invalid paths
            return check_kernel({"path": argument})
        return _parse_sdist(argument.removeprefix(_SDIST), listen)
    except MatrixMistakesError as error:
        raise _invalid_source("; ".join(mistake.message for mistake in error.mistakes)) from None


def with_submodules(kernel: KernelRef, paths: str) -> KernelRef:
    """Return a git repository with only some of its submodules.

    :param paths: the paths of the submodules, separated by commas, or ``none``.
    :raises MatrixError: the kernel is not in a git repository, or a path is invalid.
    """
    if kernel.git is None:
        raise MatrixError("only a git repository has submodules", remedy="remove --submodules")
    place = {"git": kernel.git, "revision": kernel.revision, "subdirectory": kernel.subdirectory}
    try:
        return check_kernel({**place, "submodules": [] if paths == _NONE else paths.split(",")})
    except MatrixMistakesError as error:
        why = "; ".join(mistake.message for mistake in error.mistakes)
        raise MatrixError(
            f"--submodules: {why}", remedy="use paths such as csrc/cutlass,third_party/json, or none"
        ) from None


def _parse_hub(argument: str) -> KernelRef:
    from wheelsmith.source.hub import newest_branch

    repo, _, revision = argument.partition("@")
    kernel = check_kernel({"hub": repo, "revision": revision or "main"})
    return kernel if revision else replace(kernel, revision=newest_branch(repo))


def _parse_git(argument: str) -> KernelRef:
    address, _, fragment = argument.partition("#")
    if fragment and not fragment.startswith(_SUBDIRECTORY):
        raise _invalid_source(f"#{fragment[:80]} is not #{_SUBDIRECTORY}…")
    if match := _SCP_ADDRESS.fullmatch(address):
        place, revision = match["address"], match["revision"]
    else:
        path, _, revision = _url_path(address).partition("@")
        place = address.removesuffix(f"{path}@{revision}") + path if revision else address
    folder = fragment.removeprefix(_SUBDIRECTORY) or None
    return check_kernel({"git": place, "revision": revision or "HEAD", "subdirectory": folder})


def _url_path(address: str) -> str:
    try:
        return urlsplit(address).path
    except ValueError:
        raise _invalid_source("this URL has no valid host") from None


def _parse_sdist(argument: str, listen: Listener) -> KernelRef:
    from wheelsmith.source.sdist import newest_release

    try:
        requirement = Requirement(argument)
    except InvalidRequirement:
        raise _invalid_source(f"{argument[:80]!r} is not a source") from None
    if argument != requirement.name:
        return check_kernel({"sdist": argument})
    chosen, newest = newest_release(argument)
    if chosen != newest:
        text = (
            f"{argument} {newest} has no sdist, so this is {chosen}; for {newest}, use its git repository: {GIT_FORM}"
        )
        listen(Notice(level="warning", text=text))
    return check_kernel({"sdist": f"{argument}=={chosen}"})


def _invalid_source(why: str) -> MatrixError:
    return MatrixError(why, remedy=f"use {_FORMS}")


def describe(source: SourceTree, spec: KernelSpec | ProjectSpec) -> str | None:
    """Return a kernel's description for people; None if it has no readable one."""
    if source.readme is None:
        return None
    text = source.read_text(source.readme)
    if source.readme != CARD or not isinstance(spec, KernelSpec):
        return text
    return render_card(text, spec, source.paths, source.read_bytes)


def kernel_source(source: SourceTree, spec: KernelSpec | ProjectSpec) -> KernelSource:
    """Return the facts about a kernel's files that planning needs."""
    known = KernelSource(id=source.id, paths=source.paths, readme=describe(source, spec))
    if not isinstance(spec, KernelSpec):
        return known

    def read(path: str) -> bytes:
        try:
            return source.read_bytes(path)
        except SourceError:  # larger than any real source file
            return b""

    return replace(
        known,
        includes_python=includes_python(spec, source.paths, read),
        code=code_digest(spec, {file.path: file.sha256 for file in source.files}) if spec.binding else "",
    )


def read_metadata(source: SourceTree, build_toml: str | None = None) -> KernelSpec | ProjectSpec:
    """Read the kernel's own metadata, from build.toml or from the files of a Python project.

    :param build_toml: the path of build.toml in the source; None for ``build.toml``, if there is one.
    :raises SourceError: a file is invalid, or there is none.
    """
    path = build_toml or BUILD_TOML
    if path in source.paths:
        return parse_build_toml(source.read_text(path), file=path)
    if build_toml:
        raise SourceError(f"the kernel has no {build_toml}", remedy="write its path in the kernel's folder")
    if not set(PROJECT_FILES) & set(source.paths):
        if below := next((each for each in source.paths if each.endswith(f"/{BUILD_TOML}")), None):
            remedy = f"add build-toml: {below} under kernel, if it is this kernel's"
            raise SourceError("the kernel has no build.toml in its folder", remedy=remedy)
        raise SourceError(
            f"the kernel has no build.toml, {', '.join(PROJECT_FILES[:-1])} or {PROJECT_FILES[-1]}",
            remedy="name a folder that has one; a project on a package index is named with its version, as in "
            "torch-scatter==2.1.2",
        )
    return read_project(source.paths, source.read_bytes)


def kernels_of(source: SourceTree) -> tuple[KernelSpec, ...]:
    """Return the kernel of each build.toml in a source. One at the top comes first.

    :raises SourceError: the one at the top is invalid. Others may belong to examples or tests, and are left out.
    """
    top = read_metadata(source) if BUILD_TOML in source.paths else None
    found = [top] if isinstance(top, KernelSpec) else []
    for path in (path for path in source.paths if path.endswith(f"/{BUILD_TOML}")):
        with suppress(WheelsmithError):
            found.append(parse_build_toml(source.read_text(path), file=path))
    return tuple(found)


def read_spec(source: SourceTree, matrix: Matrix, file: str) -> KernelSpec | ProjectSpec:
    """Read the kernel's own metadata, and apply the names from the matrix.

    :raises MatrixError: the matrix has a setting that does not apply to this kind of source.
    :raises SourceError: a file is invalid.
    """
    spec = read_metadata(source, matrix.kernel.build_toml)
    if isinstance(spec, KernelSpec):
        _reject_project_settings(matrix, file)
        return named_kernel(spec, source, matrix.kernel, file)
    if matrix.kernel.sdist:
        _check_release(spec, matrix.kernel.sdist)
    if matrix.kernel.builds is not None:
        raise MatrixError(
            "builds is for kernels in kernel-builder layout", where=Place(file=file), remedy="remove builds from kernel"
        )
    if matrix.kernel.module is not None:
        raise MatrixError(
            "module is for kernels in kernel-builder layout; a project's build system decides its module names",
            where=Place(file=file),
            remedy="remove module from kernel",
        )
    if matrix.cuda_compatibility is CudaCompatibility.OLDEST_MINOR:
        raise MatrixError(
            "cuda-compatibility: oldest-minor is for kernels in kernel-builder layout; the result of another build "
            "system with a newer CUDA is not known before it runs",
            where=Place(file=file),
            remedy="write cuda-compatibility: minor, and each CUDA gets its own wheel",
        )
    return spec


def _check_release(spec: ProjectSpec, requested: str) -> None:
    """Reject an sdist with another name or version than the one on the index."""
    name, _, version = requested.partition("==")
    own = (spec.name or name, spec.version or version)
    if (canonicalize_name(own[0]), Version(Version(own[1]).public)) != (canonicalize_name(name), Version(version)):
        raise SourceError(
            f"the sdist of {name} {version} contains {own[0]} {own[1]}",
            remedy="try another release; to use this sdist, download it and write kernel: {path: …}",
        )


def _reject_project_settings(matrix: Matrix, file: str) -> None:
    """Reject settings that do not apply to a kernel in kernel-builder layout, unless they are common to several."""
    if matrix.python and (matrix.name is None or "python" in matrix.own):
        raise MatrixError(
            "one wheel of a kernel in kernel-builder layout supports every Python",
            where=Place(file=file),
            remedy="remove python from axes",
        )
    given = (matrix.project, *(rule.project for rule in matrix.rules))
    if any(each != ProjectSettings() for each in given) and (matrix.name is None or _OF_PROJECTS & {*matrix.own}):
        raise MatrixError(
            "env, build-requires and similar settings are for projects with their own build system; a kernel in "
            "kernel-builder layout is configured in build.toml",
            where=Place(file=file),
            remedy="remove them; set compiler flags with cxx-flags and cuda-flags in build.toml",
        )


def named_kernel(spec: KernelSpec, source: SourceTree, kernel: KernelRef, file: str) -> KernelSpec:
    """Return the kernel with the names of its wheel.

    :param file: the file with these names, for error messages.
    :raises MatrixError: a name belongs to another project, or the kernel imports itself by its original name.
    """
    named = with_import_name(spec, distribution=kernel.distribution, module=kernel.module, repo=kernel.hub, file=file)
    if named.module == named.package:
        return named
    package = f"{named.root}/"
    for path in (path for path in source.paths if path.startswith(package) and path.endswith(".py")):
        if may_import(source.read_bytes(path), named.package):
            raise MatrixError(
                f"the kernel cannot be renamed to {named.module}: {path} imports {named.package} by name",
                where=Place(file=file),
                remedy="make the import relative; the Hub's loader needs this too",
            )
    return named


def kernel_name_notices(spec: KernelSpec | ProjectSpec | None, kernel: KernelRef) -> Iterator[Notice]:
    """Ask pip's index for a project with a kernel's name, unless the matrix sets the name."""
    if isinstance(spec, KernelSpec) and kernel.distribution is None:
        own = unique_name(kernel.hub or spec.repo_id or f"{spec.name}-kernel")
        yield from name_notices(spec.name, f"distribution: {own} under kernel")


def name_notices(name: str, setting: str) -> Iterator[Notice]:
    """Ask pip's index for a project of this name, and suggest the setting for another name."""
    from wheelsmith.toolchain.package_index import list_files

    taken, reason = False, "wheelsmith is offline" if is_offline() else None
    try:
        settings = replace(pip_settings(), timeout=_INDEX_TIMEOUT)
        taken = any(list_files(name, index, settings) for index in settings.indexes[:1])
    except ToolchainError as error:
        reason = error.message
    if reason:
        yield Notice(level="info", text=f"PyPI was not asked whether it has another project {name}: {reason}")
    if taken:
        text = f"{name} is a project on PyPI, too, and installers choose the higher version of the two"
        yield Notice(level="info", text=f"{text}; if it is not yours, set {setting}")
