"""What a kernel or a project says of itself, read for a matrix: its spec, and the text for people."""

from __future__ import annotations

from dataclasses import replace

from packaging.utils import canonicalize_name
from packaging.version import Version

from wheelsmith.base.errors import MatrixError, Place, SourceError
from wheelsmith.matrix import CudaCompatibility, Matrix, ProjectSettings
from wheelsmith.plan import with_own_names
from wheelsmith.plan.recipe import (
    CARD,
    PROJECT_FILES,
    KernelSource,
    KernelSpec,
    ProjectSpec,
    code_digest,
    includes_python,
    may_import,
    parse_build_toml,
    read_project,
    render_card,
)
from wheelsmith.source import SourceTree


def describe(source: SourceTree, spec: KernelSpec | ProjectSpec) -> str | None:
    """Return the text that describes a kernel to people; None where it has none that can be read."""
    if source.readme is None:
        return None
    text = source.read_text(source.readme)
    if source.readme != CARD or not isinstance(spec, KernelSpec):
        return text
    return render_card(text, spec, source.paths, source.read_bytes)


def kernel_source(source: SourceTree, spec: KernelSpec | ProjectSpec) -> KernelSource:
    """Return what a plan is made of beside a kernel's own words."""
    known = KernelSource(id=source.id, paths=source.paths, readme=describe(source, spec))
    if not isinstance(spec, KernelSpec):
        return known

    def read(path: str) -> bytes:
        try:
            return source.read_bytes(path)
        except SourceError:  # longer than code that anybody writes
            return b""

    return replace(
        known,
        includes_python=includes_python(spec, source.paths, read),
        code=code_digest(spec, {file.path: file.sha256 for file in source.files}) if spec.binding else "",
    )


def own_words(source: SourceTree) -> KernelSpec | ProjectSpec:
    """Return what the kernel says of itself: build.toml, or else what projects at large have.

    :raises SourceError: a file is not as it should be.
    """
    if "build.toml" in source.paths or not set(PROJECT_FILES) & set(source.paths):
        return parse_build_toml(source.read_text("build.toml"), file="build.toml")
    return read_project(source.paths, source.read_bytes)


def read_spec(source: SourceTree, matrix: Matrix, file: str) -> KernelSpec | ProjectSpec:
    """Return what the kernel says of itself, with the names that the matrix gives it.

    :raises MatrixError: the matrix says of one kind what is for the other.
    :raises SourceError: a file is not as it should be.
    """
    spec = own_words(source)
    if isinstance(spec, KernelSpec):
        _refuse_what_projects_have(matrix, file)
        return _named(spec, source, matrix, file)
    if matrix.kernel.sdist:
        _check_release(spec, matrix.kernel.sdist)
    if matrix.kernel.module is not None:
        raise MatrixError(
            "module is for kernels in kernel-builder layout: what a project installs, its own build system decides",
            where=Place(file=file),
            remedy="remove module from kernel",
        )
    if matrix.cuda_compatibility is CudaCompatibility.OLDEST_MINOR:
        raise MatrixError(
            "cuda-compatibility: oldest-minor is for kernels in kernel-builder layout; what another build system makes "
            "of a newer CUDA is not known before it runs",
            where=Place(file=file),
            remedy="write cuda-compatibility: minor, and each CUDA gets a wheel of its own",
        )
    return spec


def _check_release(spec: ProjectSpec, asked: str) -> None:
    """Refuse an sdist that is another project's, or another release's, than the index said."""
    name, _, version = asked.partition("==")
    own = (spec.name or name, spec.version or version)
    if (canonicalize_name(own[0]), Version(Version(own[1]).public)) != (canonicalize_name(name), Version(version)):
        raise SourceError(
            f"the sdist of {name} {version} says that it is {own[0]} {own[1]}",
            remedy="try another release; if it is what you want, fetch it and name the file: kernel: {path: …}",
        )


def _refuse_what_projects_have(matrix: Matrix, file: str) -> None:
    if matrix.python:
        raise MatrixError(
            "a kernel in kernel-builder layout serves every Python with one wheel",
            where=Place(file=file),
            remedy="remove python from axes",
        )
    if any(each != ProjectSettings() for each in (matrix.project, *(rule.project for rule in matrix.rules))):
        raise MatrixError(
            "env, build-requires and the like are for projects with a build system of their own: how a kernel in "
            "kernel-builder layout is compiled, its build.toml says",
            where=Place(file=file),
            remedy="remove them; flags for the compilers are cxx-flags and cuda-flags in build.toml",
        )


def _named(spec: KernelSpec, source: SourceTree, matrix: Matrix, file: str) -> KernelSpec:
    """Return the kernel with the names that its wheel gets."""
    kernel = matrix.kernel
    named = with_own_names(spec, distribution=kernel.distribution, module=kernel.module, repo=kernel.hub, file=file)
    if named.module == named.package:
        return named
    package = f"{named.root}/"
    for path in (path for path in source.paths if path.startswith(package) and path.endswith(".py")):
        if may_import(source.read_bytes(path), named.package):
            raise MatrixError(
                f"the kernel cannot be called {named.module}: {path} imports {named.package} by that name",
                where=Place(file=file),
                remedy="make the import relative, as the Hub's loader needs it too",
            )
    return named
