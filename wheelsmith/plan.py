"""From a cell to its plan: pure but for what it is handed, with a reason where there can be no plan."""

from __future__ import annotations

from dataclasses import replace

from packaging.version import Version

from wheelsmith import layout
from wheelsmith.errors import BuildTomlError, Place
from wheelsmith.facts import (
    CudaToolkit,
    cuda_prefix,
    cuda_toolkits,
    dependencies,
    torch_prefix,
    torch_releases,
)
from wheelsmith.model import BuildPlan, Cell, Excluded, PrefixId, Recipe, Toolset, WheelSpec
from wheelsmith.recipe import (
    CompileTarget,
    KernelSource,
    KernelSpec,
    Requirements,
    Section,
    compiled_recipe,
    noarch_recipe,
    plain,
    render_metadata,
    resolve,
)
from wheelsmith.recipe.compile import SourceGroup
from wheelsmith.recipe.make import namespace
from wheelsmith.tags import local_version, wheel_stem

# Raised when the same inputs give other bytes than before, so that old wheels are not taken for new ones.
RECIPE_VERSION = 1

ENVIRONMENT = {
    "SOURCE_DATE_EPOCH": layout.SOURCE_DATE_EPOCH,
    "LC_ALL": "C.UTF-8",
    "TZ": "UTC",
    "PYTHONHASHSEED": "0",
}


class _Impossible(Exception):  # it carries a reason, and never leaves this module
    """The cell cannot be built, and this is why."""


def make_plan(
    cell: Cell,
    *,
    spec: KernelSpec,
    source: KernelSource,
    distribution: str | None,
    version: str | None,
    toolset: Toolset | None,
    host_arch: str,
) -> BuildPlan | Excluded:
    """Plan one cell.

    :param distribution: the project's name; None takes the kernel's.
    :param version: the wheel's public version; None takes build.toml's.
    :param toolset: the compilers for the cell's architecture, or None when there are none.
    :param host_arch: the architecture that the CUDA compiler runs on.
    :raises BuildTomlError: the kernel itself is wrong, whatever the cell.
    """
    public = _public_version(spec, version)
    name = distribution or spec.name
    try:
        _check_kernel(cell, spec)
        if spec.torch is None:
            return _noarch_plan(cell, spec, source, name, public)
        return _compiled_plan(cell, spec, source, name, public, toolset, host_arch)
    except _Impossible as impossible:
        return Excluded(cell=cell, reason=str(impossible))


def _backend(cell: Cell) -> str:
    return "cpu" if cell.cuda is None else "cuda"


def _public_version(spec: KernelSpec, version: str | None) -> str:
    if version is not None:
        return version
    if spec.version is None:
        raise BuildTomlError(
            "the kernel names no version",
            where=Place(file="build.toml"),
            remedy="add version = 1 under [general], or a version to matrix.yaml",
        )
    return str(spec.version)


def _no_compiler(arch: str, host_arch: str) -> str:
    package = "g++" if arch == host_arch else f"g++-{arch.replace('_', '-')}-linux-gnu"
    return f"there is no C++ compiler for {arch} here: apt-get install {package}"


# --- reasons ------------------------------------------------------------------------------------------------


def _check_kernel(cell: Cell, spec: KernelSpec) -> None:
    backend = _backend(cell)
    if backend not in spec.backends:
        raise _Impossible(f"the kernel has no {backend} backend: build.toml lists {', '.join(spec.backends) or 'none'}")
    if spec.torch:
        _check_bounds("torch", cell.torch, spec.torch.minver, spec.torch.maxver)
    if cell.cuda:
        _check_bounds("cuda", cell.cuda, spec.cuda_minver, spec.cuda_maxver)
    for scope in ("", backend):
        if repos := spec.kernel_depends.get(scope):
            raise _Impossible(
                f"the kernel needs {', '.join(repos)} from the Hub at run time, which a wheel cannot require"
            )


def _check_bounds(what: str, value: str, minver: str | None, maxver: str | None) -> None:
    # maxver 2.12 admits every 2.12.x: a wheel serves a whole minor, so only that much is compared.
    if minver and Version(value) < Version(minver):
        raise _Impossible(f"the kernel needs {what} {minver} or newer (minver in build.toml)")
    if maxver and Version(value) > Version(maxver):
        raise _Impossible(f"the kernel needs {what} {maxver} or older (maxver in build.toml)")


def _python_depends(spec: KernelSpec, backend: str) -> tuple[str, ...]:
    known = {(item.name, item.backend): item.requires for item in dependencies()}
    found = []
    for name in spec.python_depends.get(backend, ()):
        requirement = known.get((name, None)) or known.get((name, backend or None))
        if requirement is None:
            allowed = sorted({name for name, scope in known if scope in {None, backend}})
            raise _Impossible(
                f"the kernel depends on {name!r}, which is not on kernel-builder's list: {', '.join(allowed)}"
            )
        found.append(requirement)
    return tuple(found)


# --- kernels with nothing compiled --------------------------------------------------------------------------


def _noarch_plan(cell: Cell, spec: KernelSpec, source: KernelSource, name: str, public: str) -> BuildPlan:
    """Plan the one pure wheel that serves every cell, so nothing of the cell may show in it."""
    cuda = _python_depends(spec, "cuda") if "cuda" in spec.backends else ()
    requirements = Requirements(always=("torch", *_python_depends(spec, "")), extras={"cuda": cuda} if cuda else {})
    recipe = noarch_recipe(spec, source)
    wheel = WheelSpec(
        distribution=name,
        version=public,
        python_tag="py3",
        abi_tag="none",
        platform="any",
        metadata=render_metadata(spec, distribution=name, version=public, requirements=requirements, source=source),
        module=spec.module,
        gpu_archs=(),
        torch=None,
        cuda=None,
        arch="any",
        stable_abi=None,
    )
    return _plan(cell, source, None, None, None, recipe, wheel)


# --- kernels with an extension ------------------------------------------------------------------------------


def _compiled_plan(
    cell: Cell,
    spec: KernelSpec,
    source: KernelSource,
    name: str,
    public: str,
    toolset: Toolset | None,
    host_arch: str,
) -> BuildPlan:
    if toolset is None:
        raise _Impossible(_no_compiler(cell.arch, host_arch))
    stable = _stable_abi(cell, spec)
    release = torch_releases()[stable or cell.torch]
    toolkit = cuda_toolkits()[cell.cuda] if cell.cuda else None
    groups = _groups(cell, spec, toolkit)
    target = CompileTarget(
        cxx=toolset.cxx,
        cxx_std=release.cxx_std,
        cuda=cell.cuda,
        namespace=namespace(spec, _backend(cell), source),
        stable_abi=stable,
        cxx11_abi=release.cxx11_abi[cell.arch],
    )
    return _plan(
        cell,
        source,
        toolset,
        cuda_prefix(toolkit, host_arch, cell.arch) if toolkit and toolkit.assembled else None,
        torch_prefix(release, cell.arch),
        compiled_recipe(spec, source, groups, target),
        _wheel(cell, spec, source, name, public, stable, groups),
    )


def _stable_abi(cell: Cell, spec: KernelSpec) -> str | None:
    """Give the release whose headers a stable-ABI kernel is compiled against: its floor, whatever the cell.

    Every torch of the axis is then served by one wheel, because the plans are the same.
    """
    floor = spec.torch.stable_abi.get(_backend(cell)) if spec.torch else None
    if floor is None:
        return None
    if Version(cell.torch) < Version(floor):
        raise _Impossible(f"the kernel uses torch's stable ABI of {floor}, which torch {cell.torch} does not have")
    if floor not in torch_releases():
        known = list(torch_releases())
        raise _Impossible(
            f"the kernel targets the stable ABI of torch {floor}; wheelsmith knows torch {known[0]} to {known[-1]}"
        )
    return floor


def _groups(cell: Cell, spec: KernelSpec, toolkit: CudaToolkit | None) -> tuple[SourceGroup, ...]:
    assert spec.torch is not None  # noqa: S101  # only kernels with a [torch] section come here
    requested = _requested(cell, toolkit)
    binding = SourceGroup(
        src=spec.torch.src,
        include=spec.torch.include,
        cxx_flags=spec.torch.cxx_flags,
        capabilities=requested,
    )
    own = [section for section in spec.sections if section.backend == _backend(cell)]
    sections = [section for section in own if not _left_out(section, cell)]
    # The binding alone may be the kernel; but where sections exist and none applies, it would lack what it calls.
    if not sections and (own or not spec.torch.src):
        raise _Impossible(f"the kernel has no sources for {cell.compute}: no kernel section of build.toml applies")
    return (binding, *(_section_group(section, requested, toolkit) for section in sections))


def _requested(cell: Cell, toolkit: CudaToolkit | None) -> tuple[str, ...]:
    if toolkit is None:
        return ()
    requested = cell.settings.gpu_archs or toolkit.default_capabilities
    if unknown := [text for text in requested if plain(text) not in toolkit.capabilities]:
        raise _Impossible(
            f"CUDA {toolkit.version} cannot make code for {', '.join(unknown)}: "
            f"it knows {', '.join(toolkit.capabilities)}"
        )
    return requested


def _left_out(section: Section, cell: Cell) -> bool:
    return bool(section.cuda_minver and cell.cuda and Version(cell.cuda) < Version(section.cuda_minver))


def _section_group(section: Section, requested: tuple[str, ...], toolkit: CudaToolkit | None) -> SourceGroup:
    for name in section.depends:
        if name != "torch":
            raise _Impossible(f"[kernel.{section.name}] depends on {name}, whose headers wheelsmith cannot provide")
    capabilities = _capabilities(section, requested, toolkit) if toolkit else ()
    return SourceGroup(
        src=section.src,
        include=section.include,
        cxx_flags=section.cxx_flags,
        cuda_flags=section.cuda_flags,
        capabilities=capabilities,
    )


def _capabilities(section: Section, requested: tuple[str, ...], toolkit: CudaToolkit) -> tuple[str, ...]:
    written_for = section.capabilities
    if written_for is not None:
        # A list serves many toolkits: 10.1 is what CUDA 12 called 11.0, and CUDA 13 makes no code for 7.0.
        written_for = tuple(text for text in written_for if plain(text) in toolkit.capabilities)
    found = resolve(written_for, requested)
    if not found:
        raise _Impossible(
            f"[kernel.{section.name}] is written for {', '.join(section.capabilities or ())}, none of which "
            f"CUDA {toolkit.version} makes into code for {', '.join(requested)}"
        )
    return found


def _wheel(
    cell: Cell,
    spec: KernelSpec,
    source: KernelSource,
    name: str,
    public: str,
    stable: str | None,
    groups: tuple[SourceGroup, ...],
) -> WheelSpec:
    floor = _floor(spec, stable)
    version = f"{public}+{local_version(cell, stable_abi=floor)}"
    torch = f"torch>={floor}" if floor else f"torch=={cell.torch}.*"
    requirements = Requirements(
        always=(torch, *_python_depends(spec, ""), *_python_depends(spec, _backend(cell))), extras={}
    )
    device = (group for group in groups if any(path.endswith(".cu") for path in group.src))
    return WheelSpec(
        distribution=name,
        version=version,
        python_tag="cp39",
        abi_tag="abi3",
        platform=f"linux_{cell.arch}",
        metadata=render_metadata(spec, distribution=name, version=version, requirements=requirements, source=source),
        module=spec.module,
        gpu_archs=tuple(dict.fromkeys(text for group in device for text in group.capabilities)),
        torch=stable if floor else cell.torch,
        cuda=cell.cuda,
        arch=cell.arch,
        stable_abi=floor,
    )


def _floor(spec: KernelSpec, stable: str | None) -> str | None:
    """Give the torch from which on a stable-ABI wheel works; None when it serves only its cell's torch.

    A kernel that names a newest torch must not be installed beside a newer one, so its wheels name theirs.
    """
    if stable is None or spec.torch is None or spec.torch.maxver:
        return None
    return max(stable, spec.torch.minver or stable, key=Version)


def _plan(
    cell: Cell,
    source: KernelSource,
    toolset: Toolset | None,
    cuda: PrefixId | None,
    torch: PrefixId | None,
    recipe: Recipe,
    wheel: WheelSpec,
) -> BuildPlan:
    info = f"{wheel_stem(wheel.distribution)}-{wheel.version}.dist-info"
    licences = {f"{info}/licenses/{path}": f"src/{path}" for path in source.licences}
    recipe = replace(recipe, contents={**recipe.contents, **licences})
    return BuildPlan(
        cell=cell,
        source=source.id,
        toolset=toolset,
        cuda=cuda,
        torch=torch,
        recipe=recipe,
        environment=ENVIRONMENT,
        wheel=wheel,
        recipe_version=RECIPE_VERSION,
    )
