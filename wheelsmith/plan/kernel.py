"""Plan the wheel of a kernel in the Hub's layout."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial

from packaging.version import Version

from wheelsmith.base import sandbox_paths
from wheelsmith.base.errors import BuildTomlError, Place
from wheelsmith.base.suggest import hint
from wheelsmith.base.units import listed
from wheelsmith.base.zlib_fingerprint import non_zlib_fingerprint
from wheelsmith.frameworks import framework, local_version_of
from wheelsmith.model import (
    BuildHost,
    BuildPlan,
    Cell,
    Excluded,
    PrefixId,
    Recipe,
    Toolset,
    WheelSpec,
    wheel_stem,
)
from wheelsmith.plan.feasibility import (
    NotBuildableError,
    check_backend,
    check_depends,
    check_framework,
    check_toolkit,
    collect_reasons,
    cxx_std_of,
    find_compilers,
    find_toolkit,
    known_capabilities,
    python_depends,
    requested_capabilities,
)
from wheelsmith.plan.recipe.compile import CompileTarget, SourceGroup, is_device_source
from wheelsmith.plan.recipe.recipe import KernelSource, compiled_recipe, namespace, noarch_recipe, render_metadata
from wheelsmith.plan.recipe.spec import KernelSpec, Section
from wheelsmith.platforms import (
    HeaderLibrary,
    features_of_flags,
    gcc_folder,
    header_libraries,
    platforms,
    python_headers,
)

# Increase it if the same inputs produce other bytes than before. Plans then get new digests, and cached wheels expire.
RECIPE_VERSION = 3

ENVIRONMENT = {
    "SOURCE_DATE_EPOCH": sandbox_paths.SOURCE_DATE_EPOCH,
    "LC_ALL": "C.UTF-8",
    "TZ": "UTC",
    "PYTHONHASHSEED": "0",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class WheelNames:
    """The names of a kernel's wheels.

    :param distribution: the project's name.
    :param version: the version without a local part.
    :param module: the import name of a repacked Hub repo; None for the kernel's own.
    :param repo: the repacked Hub repo; None for a folder.
    :param declared: patterns of intended files outside of the wheel's import packages.
    """

    distribution: str
    version: str
    module: str | None = None
    repo: str | None = None
    declared: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _PlanInputs:
    """All inputs for planning one cell."""

    cell: Cell
    spec: KernelSpec
    source: KernelSource
    names: WheelNames
    build_host: BuildHost


def plan_kernel(
    cell: Cell,
    *,
    spec: KernelSpec,
    source: KernelSource,
    distribution: str | None,
    version: str | None,
    build_host: BuildHost,
    declared: tuple[str, ...] = (),
) -> BuildPlan | Excluded:
    """Plan one cell.

    :param distribution: the project's name; None for the kernel's.
    :param version: the wheel's public version; None for build.toml's.
    :param build_host: the compilers and toolkits that are available.
    :param declared: patterns of intended files outside of the wheel's import packages.
    :raises BuildTomlError: the kernel itself is invalid, for every cell.
    """
    public = _public_version(spec, version)
    names = WheelNames(distribution=distribution or spec.name, version=public, declared=declared)
    inputs = _PlanInputs(cell=cell, spec=spec, source=source, names=names, build_host=build_host)
    if found := collect_reasons(_checks(inputs)):
        return Excluded(cell=cell, reason="; ".join(found))
    return _noarch_plan(inputs) if spec.binding is None else _compiled_plan(inputs)


def left_out_capabilities(spec: KernelSpec, cells: Iterable[Cell]) -> Iterator[str]:
    """Yield a line for each toolkit of cells that cannot compile for some capabilities of build.toml."""
    for cell in {cell.compute: cell for cell in cells if cell.toolkit}.values():
        platform, sections = platforms()[cell.platform], dict[str, list[str]]()
        for section in _applying_sections(cell, spec):
            if lacking := platform.lacking_capabilities(section.capabilities or (), str(cell.toolkit)):
                sections.setdefault(", ".join(lacking.values()), []).append(f"[kernel.{section.name}]")
        for texts, names in sections.items():
            yield f"{', '.join(names)}: {platform.title} {cell.toolkit} makes no code for {texts}; left out"


def _checks(inputs: _PlanInputs) -> Iterator[Callable[[], object]]:
    """Yield independent checks, each for one reason why a cell cannot be built."""
    cell, spec = inputs.cell, inputs.spec
    for check in (check_backend, check_framework, check_toolkit, check_depends):
        yield partial(check, cell, spec)
    if cell.backend not in spec.backends:
        return  # the other checks need a backend that the kernel has
    if spec.binding is None:
        yield partial(_noarch_requirements, spec)
        return
    if cell.toolkit and not platforms()[cell.platform].compiles:
        yield partial(_no_compiler, cell)
        return
    for scope in ("", cell.backend):
        yield partial(python_depends, spec, scope)
    yield partial(find_compilers, cell, inputs.build_host)
    yield partial(_stable_abi, cell, spec)
    yield partial(find_toolkit, cell, inputs.build_host)
    yield partial(requested_capabilities, cell)
    yield partial(_own_sections, cell, spec)
    known = known_capabilities(cell)
    for section in _applying_sections(cell, spec):
        yield partial(_check_libraries, section, spec)
    # requested_capabilities reports the unknown ones.
    if known:
        yield partial(_check_capabilities, cell, spec, known)


def _no_compiler(cell: Cell) -> None:
    title = platforms()[cell.platform].title
    raise NotBuildableError(
        f"wheelsmith does not call {title}'s compiler: only kernels without compiled code have wheels for {title}; "
        "kernel-builder compiles the others"
    )


def _public_version(spec: KernelSpec, version: str | None) -> str:
    if version is not None:
        return version
    if spec.version is None:
        raise BuildTomlError(
            "the kernel has no version",
            where=Place(file=spec.file),
            remedy="add version = 1 under [general], or a version to matrix.yaml",
        )
    return str(spec.version)


# --- kernels with nothing compiled --------------------------------------------------------------------------


def _noarch_plan(inputs: _PlanInputs) -> BuildPlan:
    """Plan the pure wheel that serves every cell, so it must not depend on the cell."""
    wheel = pure_wheel(inputs.spec, inputs.source, inputs.names)
    return _plan(inputs, noarch_recipe(inputs.spec, inputs.source), wheel)


def pure_wheel(spec: KernelSpec, source: KernelSource, names: WheelNames) -> WheelSpec:
    """Return the wheel of a kernel without compiled code.

    :raises NotBuildableError: a dependency is not on kernel-builder's list.
    """
    requirements, extras = _noarch_requirements(spec)
    metadata = render_metadata(spec, source, names.distribution, names.version, requirements, extras)
    return make_pure_wheel(names, spec.module, metadata)


def make_pure_wheel(names: WheelNames, module: str, metadata: str | None) -> WheelSpec:
    """Return a wheel without compiled code.

    :param metadata: the content of METADATA; None if the build writes it.
    """
    return WheelSpec(
        distribution=names.distribution,
        version=names.version,
        python_tag="py3",
        abi_tag="none",
        platform="any",
        metadata=metadata,
        module=module,
        gpu_archs=(),
        release=None,
        toolkit=None,
        arch="any",
        stable_abi=None,
        declared=names.declared,
    )


def _noarch_requirements(spec: KernelSpec) -> tuple[tuple[str, ...], dict[str, tuple[str, ...]]]:
    """Return the requirements of a pure wheel: the unconditional ones, and those of each extra."""
    always = ["torch", *python_depends(spec, "")]
    extras = {}
    for backend in (name for name in platforms() if name in spec.backends):
        if needed := python_depends(spec, backend):
            # A kernel for one platform only always needs them.
            if spec.only_backend == backend:
                always += needed
            else:
                extras[backend] = needed
    return tuple(always), extras


# --- kernels with an extension ------------------------------------------------------------------------------


def _compiled_plan(inputs: _PlanInputs) -> BuildPlan:
    cell, build_host = inputs.cell, inputs.build_host
    toolset = find_compilers(cell, build_host)
    stable = _stable_abi(cell, inputs.spec)
    selected = framework(cell.framework)
    name = stable or cell.release
    release = selected.release(name, cell.arch, cell.compute)
    assert release  # noqa: S101  # the matrix excludes cells of unknown releases
    home, toolkit = find_toolkit(cell, build_host) or ("", None)
    groups, libraries = _source_groups(cell, inputs.spec), _libraries(cell, inputs.spec)
    python = inputs.source.includes_python
    libraries += (python_headers(),) if python else ()
    target = CompileTarget(
        framework=selected,
        cxx=toolset.cxx,
        gcc=gcc_folder(toolset),
        cxx_std=max(release.cxx_std, cxx_std_of(cell)),
        platform=platforms()[cell.platform] if cell.toolkit else None,
        toolkit=cell.toolkit,
        home=home,
        namespace=namespace(inputs.spec, cell.backend, inputs.source),
        release=name,
        stable_abi=stable,
        cxx11_abi=selected.cxx11_abi(name, cell.arch, cell.toolkit),
        light_headers=cell.settings.torch_headers == "light",
        libraries=tuple(library.name for library in libraries),
        python=python,
        functions=inputs.spec.binding.functions if inputs.spec.binding else (),
    )
    floor = _find_floor(inputs.spec, stable)
    device = (group for group in groups if any(is_device_source(path) for path in group.src))
    wheel = compiled_wheel(
        inputs.spec,
        inputs.source,
        cell,
        inputs.names,
        release=name if floor else cell.release,
        floor=floor,
        gpu_archs=tuple(dict.fromkeys(text for group in device for text in group.capabilities)),
    )
    recipe = compiled_recipe(inputs.spec, inputs.source, groups, target)
    features = features_of_flags(word for step in recipe.steps for word in step.argv)
    return _plan(
        inputs,
        recipe,
        replace(wheel, cpu_features=features),
        toolset=toolset,
        toolkit=toolkit,
        headers=selected.prefix(release, cell.arch, cell.backend) if selected.headers else None,
        libraries=tuple(library.prefix for library in libraries),
    )


def _stable_abi(cell: Cell, spec: KernelSpec) -> str | None:
    """Return the framework's release whose headers a stable-ABI kernel is compiled against, or None.

    It is the kernel's oldest release for every cell, so all cells get the same plan and share a wheel.
    """
    used, declared = framework(cell.framework), spec.binding.stable_abi.get(cell.backend) if spec.binding else None
    floor, known = used.floor(declared, cell), list(used.releases())
    if floor is None:
        return None
    if Version(cell.release) < Version(floor):
        raise NotBuildableError(
            f"the kernel needs {used.name}'s stable ABI of {floor}, which {used.name} {cell.release} does not have"
        )
    if floor not in known:
        raise NotBuildableError(
            f"the kernel targets the stable ABI of {used.name} {floor}; "
            f"wheelsmith knows {used.name} {known[0]} to {known[-1]}"
        )
    return floor


def compiled_wheel(
    spec: KernelSpec,
    source: KernelSource,
    cell: Cell,
    names: WheelNames,
    *,
    release: str,
    floor: str | None,
    gpu_archs: tuple[str, ...],
) -> WheelSpec:
    """Return the wheel of a kernel with an extension.

    :param release: the framework release that it is compiled against.
    :param floor: the oldest release that it supports through the stable ABI; None if it serves one release.
    :raises NotBuildableError: a dependency is not on kernel-builder's list.
    """
    selected = framework(cell.framework)
    local = f"{names.version}+{local_version_of(cell, stable_abi=floor is not None)}"
    needed = selected.stable_requirements(floor, cell.compute) if floor else (selected.requirement(release),)
    requirements = dict.fromkeys((*needed, *python_depends(spec, ""), *python_depends(spec, cell.backend)))
    return WheelSpec(
        distribution=names.distribution,
        version=local,
        python_tag=selected.tags[0],
        abi_tag=selected.tags[1],
        platform=f"linux_{cell.arch}",
        metadata=render_metadata(spec, source, names.distribution, local, tuple(requirements), selected.extras),
        module=spec.module,
        gpu_archs=gpu_archs,
        framework=cell.framework,
        release=release,
        toolkit=cell.toolkit,
        arch=cell.arch,
        stable_abi=floor,
        declared=names.declared,
    )


def _find_floor(spec: KernelSpec, stable: str | None) -> str | None:
    """Return the oldest release that a stable-ABI wheel supports; None if it serves only its cell's release.

    A kernel with maxver must not be installed with a newer release, so each of its wheels requires one release.
    """
    if stable is None or spec.binding is None or spec.binding.maxver:
        return None
    return max(stable, spec.binding.minver or stable, key=Version)


def _plan(
    inputs: _PlanInputs,
    recipe: Recipe,
    wheel: WheelSpec,
    *,
    toolset: Toolset | None = None,
    toolkit: PrefixId | None = None,
    headers: PrefixId | None = None,
    libraries: tuple[PrefixId, ...] = (),
) -> BuildPlan:
    """Return a plan. Without compiled code, it needs neither compilers nor headers."""
    return BuildPlan(
        cell=inputs.cell,
        image=inputs.build_host.image,
        source=inputs.source.id,
        toolset=toolset,
        toolkit=toolkit,
        headers=headers,
        libraries=libraries,
        recipe=replace(recipe, contents={**recipe.contents, **licence_files(wheel, inputs.source)}),
        environment=ENVIRONMENT,
        wheel=wheel,
        recipe_version=RECIPE_VERSION,
        deflate=non_zlib_fingerprint(),
    )


def licence_files(wheel: WheelSpec, source: KernelSource) -> dict[str, str]:
    """Return the licence files of a wheel: path in the wheel → path in the work folder."""
    info = f"{wheel_stem(wheel.distribution)}-{wheel.version}.dist-info"
    return {f"{info}/licenses/{path}": f"src/{path}" for path in source.licences}


def _source_groups(cell: Cell, spec: KernelSpec) -> tuple[SourceGroup, ...]:
    """Return the sources to compile for a cell: the binding, and the sections of build.toml that apply."""
    assert spec.binding is not None  # noqa: S101  # callers check it
    requested = requested_capabilities(cell)
    binding = SourceGroup(
        src=spec.binding.src,
        include=spec.binding.include,
        cxx_flags=spec.binding.cxx_flags,
        capabilities=requested,
    )
    sections = (
        SourceGroup(
            src=section.src,
            include=section.include,
            cxx_flags=section.cxx_flags,
            device_flags=section.device_flags,
            capabilities=_capabilities(section, requested, cell),
        )
        for section in _own_sections(cell, spec)
    )
    return (binding, *sections)


def _own_sections(cell: Cell, spec: KernelSpec) -> list[Section]:
    """Return the sections that are compiled for a cell.

    :raises NotBuildableError: there are none.
    """
    sections, any_own = _applying_sections(cell, spec), any(each.backend == cell.backend for each in spec.sections)
    # A kernel may consist of the binding alone. If it has sections and none applies, the functions would be missing.
    if not sections and (any_own or not (spec.binding and spec.binding.src)):
        raise NotBuildableError(
            f"the kernel has no sources for {cell.compute}: no kernel section of build.toml applies"
        )
    return sections


def _applying_sections(cell: Cell, spec: KernelSpec) -> list[Section]:
    """Return the sections for a cell's backend that accept its toolkit."""
    toolkit = Version(cell.toolkit or "0")
    return [
        each
        for each in spec.sections
        if each.backend == cell.backend and not (each.toolkit_minver and toolkit < Version(each.toolkit_minver))
    ]


def _check_libraries(section: Section, spec: KernelSpec) -> None:
    """Reject a section that needs headers of unknown libraries."""
    known = {spec.framework, *header_libraries()}
    if others := [name for name in section.depends if name not in known]:
        raise NotBuildableError(
            f"[kernel.{section.name}] depends on {', '.join(others)}, whose headers wheelsmith cannot provide: "
            f"{hint(others[0], known)}it provides {', '.join(header_libraries())}"
        )


def _libraries(cell: Cell, spec: KernelSpec) -> tuple[HeaderLibrary, ...]:
    """Return the libraries that a cell's sections depend on. Every source can include them, as in kernel-builder."""
    names = dict.fromkeys(name for section in _own_sections(cell, spec) for name in section.depends)
    return tuple(header_libraries()[name] for name in names if name in header_libraries())


def _capabilities(section: Section, requested: tuple[str, ...], cell: Cell) -> tuple[str, ...]:
    """Return the capabilities that a section is compiled for."""
    if cell.toolkit is None:
        return ()
    return platforms()[cell.platform].select_capabilities(section.capabilities, requested, cell.toolkit)


def _check_capabilities(cell: Cell, spec: KernelSpec, requested: tuple[str, ...]) -> None:
    """Reject a cell that leaves out sections of a kernel, because its other sources may call their functions."""
    sections = _applying_sections(cell, spec) if cell.toolkit else []
    left_out = [section for section in sections if not _capabilities(section, requested, cell)]
    if not left_out:
        return
    platform = platforms()[cell.platform]
    every = platform.toolkits()[str(cell.toolkit)].capabilities
    compiled = {each.name: _capabilities(each, every, cell) for each in left_out}
    named = [f"[kernel.{each.name}] ({', '.join(each.capabilities or ())})" for each in left_out]
    reason = f"gpu-archs {', '.join(requested)} leave out {listed(named)}, which other sources of the kernel may call"
    if impossible := [name for name, found in compiled.items() if not found]:
        raise NotBuildableError(f"{reason}; {platform.title} {cell.toolkit} makes no code for {listed(impossible)}")
    more = dict.fromkeys((*requested, *(found[0] for found in compiled.values())))
    raise NotBuildableError(f"{reason}: write gpu-archs: [{', '.join(more)}]")
