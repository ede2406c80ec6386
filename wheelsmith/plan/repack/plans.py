"""Plan the wheel of a build folder: nothing is compiled, and all that it says is decided here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from wheelsmith.base.errors import SourceError
from wheelsmith.base.zlib_fingerprint import other_deflate
from wheelsmith.frameworks import framework, local_version_of
from wheelsmith.model import CUDA, BuildPlan, Cell, ImageId, Recipe, WheelSpec, wheel_stem
from wheelsmith.plan.feasibility import NotBuildableError, python_depends
from wheelsmith.plan.kernel import ENVIRONMENT, RECIPE_VERSION, noarch_requirements
from wheelsmith.plan.recipe import KernelSpec, Requirements, render_metadata
from wheelsmith.plan.recipe.generated import PYPROJECT
from wheelsmith.plan.repack.types import BuildFolder

_EDITION = 5  # of build.toml: those folders are as this one's builder makes them


@dataclass(frozen=True, slots=True, kw_only=True)
class WheelNames:
    """What the wheels of a repo are called.

    :param distribution: the project's name.
    :param version: without a local part.
    :param module: the import name.
    :param repo: the Hub repo; None for a folder.
    :param declared: patterns of files that are meant, though they are outside of their import packages.
    """

    distribution: str
    version: str
    module: str
    repo: str | None = None
    declared: tuple[str, ...] = ()


def plan_repack(
    folders: Sequence[BuildFolder], cells: Sequence[Cell], names: WheelNames, image: ImageId | None
) -> tuple[BuildPlan, ...]:
    """Return the plan of one wheel, once for each cell that it serves.

    :param folders: one; where nothing is compiled all that have the same package, of which the wheel is made.
    :param image: in which it is laid out, for engines with images.
    :raises SourceError: it needs what a wheel cannot require.
    """
    first = folders[0]
    for folder in folders:
        if folder.content != first.content:
            raise SourceError(
                f"{folder.variant.name} and {first.variant.name} hold other files, and are one wheel where nothing is "
                f"compiled: choose one of them with --only"
            )
        if repos := folder.facts.kernel_depends:
            raise SourceError(f"it needs {', '.join(repos)} from the Hub at run time, which a wheel cannot require")
    spec = _spec(folders, names)
    try:
        wheel = (
            _pure(spec, folders, names) if first.variant.release is None else _compiled(spec, first, cells[0], names)
        )
    except NotBuildableError as impossible:
        raise SourceError(str(impossible)) from None
    plan = BuildPlan(
        cell=cells[0],
        image=image,
        source=first.source.id,
        toolset=None,
        toolkit=None,
        headers=None,
        recipe=_recipe(first, wheel),
        environment=ENVIRONMENT,
        wheel=wheel,
        recipe_version=RECIPE_VERSION,
        repacked=True,
        deflate=other_deflate(),
    )
    return tuple(replace(plan, cell=cell) for cell in cells)


def _spec(folders: Sequence[BuildFolder], names: WheelNames) -> KernelSpec:
    """Return the kernel as its build.toml may have had it, as far as its builds say."""
    facts, variant = folders[0].facts, folders[0].variant
    return KernelSpec(
        name=facts.name or names.module.replace("_", "-"),
        edition=_EDITION,
        version=facts.version,
        license=facts.license,
        backends=tuple(dict.fromkeys(backend for folder in folders for backend in folder.variant.backends)),
        upstream=facts.upstream,
        source=facts.source,
        framework=variant.framework,
        import_name=names.module,
        repo_id=names.repo,
        python_depends=_depends(folders),
    )


def _depends(folders: Sequence[BuildFolder]) -> dict[str, tuple[str, ...]]:
    """Return what is needed beside the framework: ``""`` wherever the wheel is, ``cuda`` what CUDA needs more."""
    by_backend = {backend: folder.facts.python_depends for folder in folders for backend in folder.variant.backends}
    others = [names for backend, names in by_backend.items() if backend != CUDA]
    everywhere = tuple(dict.fromkeys(name for names in others for name in names))
    return {"": everywhere, CUDA: tuple(name for name in by_backend.get(CUDA, ()) if name not in everywhere)}


def _pure(spec: KernelSpec, folders: Sequence[BuildFolder], names: WheelNames) -> WheelSpec:
    return WheelSpec(
        distribution=names.distribution,
        version=names.version,
        python_tag="py3",
        abi_tag="none",
        platform="any",
        metadata=_metadata(spec, names, names.version, noarch_requirements(spec), folders[0]),
        module=names.module,
        gpu_archs=(),
        release=None,
        toolkit=None,
        arch="any",
        stable_abi=None,
        declared=names.declared,
    )


def _compiled(spec: KernelSpec, folder: BuildFolder, cell: Cell, names: WheelNames) -> WheelSpec:
    variant, calls = folder.variant, framework(folder.variant.framework)
    release = variant.release or ""
    version = f"{names.version}+{local_version_of(cell, stable_abi=variant.stable_abi)}"
    needed = f"{calls.project}>={release}" if variant.stable_abi else calls.requirement(release)
    own = (*python_depends(spec, ""), *(python_depends(spec, CUDA) if cell.backend == CUDA else ()))
    always = tuple(dict.fromkeys((needed, *own)))
    return WheelSpec(
        distribution=names.distribution,
        version=version,
        python_tag=calls.tags[0],
        abi_tag=calls.tags[1],
        platform=f"linux_{cell.arch}",
        metadata=_metadata(spec, names, version, Requirements(always=always, extras={}), folder),
        module=names.module,
        gpu_archs=(),  # what the code is for, the code says
        framework=variant.framework,
        release=release,
        toolkit=cell.toolkit,
        arch=cell.arch,
        stable_abi=release if variant.stable_abi else None,
        declared=names.declared,
    )


def _metadata(
    spec: KernelSpec, names: WheelNames, version: str, requirements: Requirements, folder: BuildFolder
) -> str:
    return render_metadata(
        spec,
        distribution=names.distribution,
        version=version,
        requirements=requirements,
        source=folder.source,
    )


def _recipe(folder: BuildFolder, wheel: WheelSpec) -> Recipe:
    """Return where the content of the wheel comes from; its licences are the repo's."""
    root = f"src/build/{folder.variant.name}"
    info = f"{wheel_stem(wheel.distribution)}-{wheel.version}.dist-info"
    package = {f"{wheel.module}/{path}": f"{root}/{inside}" for path, inside in folder.package.files.items()}
    licences = {f"{info}/licenses/{path}": f"src/{path}" for path in folder.source.licences}
    return Recipe(
        steps=(),
        generated={"pyproject.toml": PYPROJECT},
        contents={**package, **licences},
        namespace=f"_{wheel.module}",
        extension=None,
    )
