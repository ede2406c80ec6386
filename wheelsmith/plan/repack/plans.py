"""Plan the wheels of build folders: assign folders to cells and define the content of each wheel."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from wheelsmith.base.errors import SourceError
from wheelsmith.base.json_dataclass import Record
from wheelsmith.base.units import numbers
from wheelsmith.base.zlib_fingerprint import non_zlib_fingerprint
from wheelsmith.model import CUDA, TORCH, BuildPlan, Cell, ImageId, Recipe, WheelSpec
from wheelsmith.plan.feasibility import NotBuildableError
from wheelsmith.plan.kernel import ENVIRONMENT, WheelNames, compiled_wheel, licence_files, pure_wheel
from wheelsmith.plan.recipe.recipe import PYPROJECT
from wheelsmith.plan.recipe.spec import KernelSpec
from wheelsmith.plan.repack.folders import BuildFolder
from wheelsmith.plan.repack.variants import cells_of

_RECIPE_VERSION = 4  # as the one of kernels, but for repacked wheels
_EDITION = 5  # the edition of build.toml with this layout of build folders


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantResult(Record):
    """The result of planning a build folder.

    :param reason: the reason why it has no wheel, or None.
    :param refused: the folder was requested but cannot be repacked.
    :param cell: the first cell that its wheel serves.
    """

    variant: str
    reason: str | None = None
    refused: bool = False
    cell: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderPlans:
    """A plan for each cell that build folders serve, and a result for each folder."""

    plans: tuple[BuildPlan, ...] = ()
    results: tuple[VariantResult, ...] = ()


def plan_folders(folders: Iterable[BuildFolder], names: WheelNames, image: ImageId | None) -> FolderPlans:
    """Plan one wheel for each build folder that serves a cell without a wheel, and return a result for every folder.

    :param image: the image that packs the wheels, for engines with images.
    """
    taken: dict[str, str] = {}
    plans: list[BuildPlan] = []
    results: list[VariantResult] = []
    for group in _groups(folders):
        made, result = _plan_group(group, taken, names, image)
        plans += made
        taken |= {plan.cell.id: result.variant for plan in made}
        results += [replace(result, variant=folder.variant.name) for folder in group]
    return FolderPlans(plans=tuple(plans), results=tuple(results))


def _plan_group(
    group: Sequence[BuildFolder], taken: Mapping[str, str], names: WheelNames, image: ImageId | None
) -> tuple[tuple[BuildPlan, ...], VariantResult]:
    """Plan the single wheel of a group of folders.

    :param taken: cell ID → the variant that already serves it.
    """
    name = group[0].variant.name
    cells = {cell.id: cell for folder in group for cell in cells_of(folder.variant)}
    left = [cell for key, cell in cells.items() if key not in taken]
    if not left:
        others = sorted({taken[key] for key in cells})
        return (), VariantResult(variant=name, reason=f"{', '.join(others)} serves all its cells")
    try:
        made = _plan_wheel(group, left, names, image)
    except SourceError as error:
        return (), VariantResult(variant=name, reason=str(error), refused=True)
    return made, VariantResult(variant=name, cell=left[0].id)


def _groups(folders: Iterable[BuildFolder]) -> Iterator[tuple[BuildFolder, ...]]:
    """Yield groups of folders that form one wheel, preferred groups first."""
    ordered = sorted(folders, key=_rank)
    yield from ((folder,) for folder in ordered if folder.variant.release is not None)
    if pure := tuple(folder for folder in ordered if folder.variant.release is None):
        yield pure


def _rank(folder: BuildFolder) -> tuple[bool, bool, tuple[int, ...], str]:
    """Return a sort key by installers' preference.

    Stable-ABI builds come first. Among them the one with the oldest release is first, because it serves the most cells.
    """
    variant = folder.variant
    return not variant.stable_abi, variant.framework != TORCH, numbers(variant.release or "0"), variant.name


def _plan_wheel(
    folders: Sequence[BuildFolder], cells: Sequence[Cell], names: WheelNames, image: ImageId | None
) -> tuple[BuildPlan, ...]:
    """Return the plan of one wheel, once for each cell that it serves.

    :param folders: a single folder, or all folders without compiled code, which must have the same package.
    :param image: the image that packs the wheel, for engines with images.
    :raises SourceError: it has dependencies that a wheel cannot require.
    """
    first = folders[0]
    for folder in folders:
        if folder.content != first.content:
            raise SourceError(
                f"{folder.variant.name} and {first.variant.name} contain different files, but share one wheel because "
                f"nothing is compiled: choose one of them with --only"
            )
        if repos := folder.facts.kernel_depends:
            raise SourceError(f"it needs {', '.join(repos)} from the Hub at run time, which a wheel cannot require")
    try:
        wheel = _wheel(_spec(folders, names), first, cells[0], names)
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
        recipe_version=_RECIPE_VERSION,
        repacked=True,
        deflate=non_zlib_fingerprint(),
    )
    return tuple(replace(plan, cell=cell) for cell in cells)


def _spec(folders: Sequence[BuildFolder], names: WheelNames) -> KernelSpec:
    """Return the kernel's description as far as its build folders contain it."""
    facts, variant = folders[0].facts, folders[0].variant
    return KernelSpec(
        name=facts.name or str(names.module).replace("_", "-"),
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
    """Return the requirements without the framework: ``""`` for every backend, ``cuda`` for further ones of CUDA."""
    by_backend = {backend: folder.facts.python_depends for folder in folders for backend in folder.variant.backends}
    others = [names for backend, names in by_backend.items() if backend != CUDA]
    everywhere = tuple(dict.fromkeys(name for names in others for name in names))
    return {"": everywhere, CUDA: tuple(name for name in by_backend.get(CUDA, ()) if name not in everywhere)}


def _wheel(spec: KernelSpec, folder: BuildFolder, cell: Cell, names: WheelNames) -> WheelSpec:
    variant = folder.variant
    if variant.release is None:
        return pure_wheel(spec, folder.source, names)
    return compiled_wheel(
        spec,
        folder.source,
        cell,
        names,
        release=variant.release,
        floor=variant.release if variant.stable_abi else None,
        gpu_archs=(),  # the check reads them from the code
    )


def _recipe(folder: BuildFolder, wheel: WheelSpec) -> Recipe:
    """Return the wheel's content: the folder's package and the repo's licences."""
    root = f"src/build/{folder.variant.name}"
    package = {f"{wheel.module}/{path}": f"{root}/{inside}" for path, inside in folder.package.files.items()}
    return Recipe(
        steps=(),
        generated={"pyproject.toml": PYPROJECT},
        contents={**package, **licence_files(wheel, folder.source)},
        namespace=f"_{wheel.module}",
        extension=None,
    )
