"""Reasons why a cell cannot be built: features that the kernel, toolkit or build host lacks."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress

from packaging.version import Version

from wheelsmith.base.suggest import hint
from wheelsmith.base.units import numbers
from wheelsmith.frameworks import Torch, TorchRelease, framework
from wheelsmith.model import HOST, PINNED, TORCH, BuildHost, Cell, PrefixId, Toolset
from wheelsmith.model.build_host import IMAGES_OPTION
from wheelsmith.plan.recipe.project_hints import dependencies
from wheelsmith.plan.recipe.spec import KernelSpec
from wheelsmith.platforms import NotInstalledError, cxx_toolchain, platforms

_OLDEST_PYTHON = (3, 10)  # required by the package `build`, which runs in the sandbox


class NotBuildableError(Exception):  # internal; planning turns it into an excluded cell
    """The cell cannot be built. The message is the reason."""


class NeedsOtherMachineError(NotBuildableError):
    """The cell can be built, but only on a machine of its own architecture."""


def collect_reasons(checks: Iterable[Callable[[], object]]) -> tuple[str, ...]:
    """Return all reasons why a cell cannot be built, so that users see them together.

    :param checks: independent functions that raise ``NotBuildableError``.
    """
    found = dict[str, None]()
    for check in checks:
        try:
            check()
        except NotBuildableError as impossible:
            found[str(impossible)] = None
    return tuple(found)


def check_backend(cell: Cell, spec: KernelSpec) -> None:
    """Reject a cell if build.toml does not list its backend."""
    if cell.backend not in spec.backends:
        listed = ", ".join(spec.backends) or "none"
        raise NotBuildableError(f"the kernel has no {cell.backend} backend: build.toml lists {listed}")


def check_framework(cell: Cell, spec: KernelSpec) -> None:
    """Reject a cell of another framework, or of a release outside build.toml's bounds."""
    if cell.framework != spec.framework:
        raise NotBuildableError(
            f"the kernel is for {spec.framework}, not for {cell.framework}: "
            f"use the axis {spec.framework} in matrix.yaml"
        )
    if spec.binding:
        _check_bounds(cell.framework, cell.release, spec.binding.minver, spec.binding.maxver)


def check_toolkit(cell: Cell, spec: KernelSpec) -> None:
    """Reject a cell if its toolkit is outside build.toml's bounds."""
    if cell.toolkit:
        _check_bounds(cell.platform, cell.toolkit, *spec.toolkit_bounds.get(cell.platform, (None, None)))


def check_depends(cell: Cell, spec: KernelSpec) -> None:
    """Reject a kernel that loads other kernels from the Hub."""
    for scope in ("", cell.backend):
        if repos := spec.kernel_depends.get(scope):
            raise NotBuildableError(
                f"the kernel needs {', '.join(repos)} from the Hub at run time, which a wheel cannot require: "
                "build them in the same file, under kernels"
            )


def _check_bounds(what: str, value: str, minver: str | None, maxver: str | None) -> None:
    # maxver 2.12 allows every 2.12.x: a wheel serves all patch releases, so only major and minor are compared.
    release = Version(".".join(map(str, Version(value).release[:2])))
    if minver and release < Version(minver):
        raise NotBuildableError(f"the kernel needs {what} {minver} or newer (minver in build.toml)")
    if maxver and release > Version(maxver):
        raise NotBuildableError(f"the kernel needs {what} {maxver} or older (maxver in build.toml)")


def python_depends(spec: KernelSpec, scope: str) -> tuple[str, ...]:
    """Return the requirements for a kernel's ``python-depends``, and those on other kernels of the matrix file.

    :param scope: a backend, or "" for all backends.
    :raises NotBuildableError: a name is not on kernel-builder's list.
    """
    known = {(item.name, item.backend): item.requires for item in dependencies()}
    found = []
    for name in spec.python_depends.get(scope, ()):
        requirement = known.get((name, None)) or known.get((name, scope or None))
        if requirement is None:
            allowed = sorted({name for name, own in known if own in {None, scope}})
            raise NotBuildableError(
                f"the kernel depends on {name!r}, which is not on kernel-builder's list: "
                f"{hint(name, allowed)}it has {', '.join(allowed)}"
            )
        found.append(requirement)
    return (*found, *spec.set_requires.get(scope, ()))


def find_compilers(cell: Cell, build_host: BuildHost) -> Toolset:
    """Return the compilers for the cell's architecture.

    :raises NotBuildableError: there are none.
    """
    if found := pinned_toolset(cell, build_host):
        return found
    if cell.settings.toolchain not in {None, HOST}:
        raise NotBuildableError(
            f"there are no pinned compilers on {build_host.machine} for {cell.arch} and "
            f"manylinux_{cell.settings.manylinux}: set toolchain: host to use the installed ones"
        )
    return _find_host_compilers(cell, build_host)


def pinned_toolset(cell: Cell, build_host: BuildHost) -> Toolset | None:
    """Return the pinned compilers for a cell, or None if it uses those of the build host."""
    settings = cell.settings
    if settings.toolchain == HOST:
        return None
    found = cxx_toolchain(settings.toolchain or PINNED, settings.manylinux, build_host.machine, cell.arch)
    return found.toolset if found else None


def _find_host_compilers(cell: Cell, build_host: BuildHost) -> Toolset:
    if toolset := build_host.toolset(cell.arch):
        return toolset
    native = cell.arch == build_host.machine
    package = "g++" if native else f"g++-{cell.arch.replace('_', '-')}-linux-gnu"
    if build_host.image is None:
        raise NotBuildableError(f"no C++ compiler for {cell.arch} is installed: apt-get install {package}")
    raise NotBuildableError(f"image {build_host.image.name} has no C++ compiler for {cell.arch}: it needs {package}")


def check_python(python: str, build_host: BuildHost) -> None:
    """Reject a Python that cannot build projects or is not available on the build host.

    :raises NotBuildableError: the message tells how to install it.
    """
    if numbers(python) < _OLDEST_PYTHON:
        raise NotBuildableError(f"Python {python} is too old to build projects: use 3.{_OLDEST_PYTHON[1]} or newer")
    if python in build_host.pythons:
        return
    there = ", ".join(build_host.pythons)
    if build_host.image:
        raise NotBuildableError(
            f"image {build_host.image.name} has no Python {python}: it has {there}; add {python} with its headers"
        )
    if why := build_host.hidden_pythons.get(python):
        raise NotBuildableError(f"the Python {python} of this machine cannot be used in a build: {why}")
    raise NotBuildableError(
        f"this machine has no Python {python}: it has {there}; "
        f"install it: uv python install {python}, or pyenv install {python}"
    )


def find_toolkit(cell: Cell, build_host: BuildHost) -> tuple[str, PrefixId] | None:
    """Return the folder in the sandbox and the ID of a cell's toolkit; None for a CPU cell.

    The toolkit is assembled from packages. If they lack the runtime that it links, it must be in an image.

    :raises NotBuildableError: the image has no toolkit or another one.
    """
    if cell.toolkit is None:
        return None
    platform = platforms()[cell.platform]
    known = platform.toolkits()[cell.toolkit]
    if platform.is_packaged and (known.static_runtime or framework(cell.framework).loads_cuda):
        if known.prefers_image and cell.arch == build_host.machine:
            with suppress(NotInstalledError):
                return platform.find_installed(cell.toolkit, build_host)
        return platform.mount_point, platform.prefix(cell.toolkit, build_host.machine, cell.arch)
    return _find_installed_toolkit(cell, build_host)


def _find_installed_toolkit(cell: Cell, build_host: BuildHost) -> tuple[str, PrefixId]:
    platform = platforms()[cell.platform]
    named = f"{platform.title} {cell.toolkit}"
    if build_host.image is None and platform.is_packaged:
        raise NotBuildableError(
            f"the packages of {named} lack its static runtime: use an image that contains it, with {IMAGES_OPTION}"
        )
    there = build_host.toolkits.get(platform.name)
    made_for = (there and there.arch) or build_host.machine
    where = f"image {build_host.image.name}" if build_host.image else "this machine"
    if cell.arch != made_for:
        message = f"the {platform.title} toolkit of an image compiles only for {made_for}, not for {cell.arch}"
        raise NotBuildableError(message)
    try:
        return platform.find_installed(str(cell.toolkit), build_host)
    except NotInstalledError as found:
        elsewhere = f"name its folder in {platform.home_variable}, or set image to one that contains it"
        remedy = "" if build_host.image else f": install it, {elsewhere}, with {IMAGES_OPTION}"
        raise NotBuildableError(f"{where} has {found}, but the cell needs {named}{remedy}") from None


def cxx_std_of(cell: Cell) -> int:
    """Return the oldest C++ standard that a cell's toolkit accepts; 0 for a CPU cell."""
    return platforms()[cell.platform].toolkits()[cell.toolkit].cxx_std if cell.toolkit else 0


def least_cxx_std(cell: Cell) -> int:
    """Return the oldest C++ standard in which a cell's toolkit accepts the headers of its torch; 0 without torch."""
    if cell.framework != TORCH:
        return 0
    return max(torch_of(cell).least_cxx_std, cxx_std_of(cell))


def torch_of(cell: Cell) -> TorchRelease:
    """Return the torch of a cell. The matrix excludes cells whose torch is not known."""
    found = Torch().release(cell.release, cell.arch, cell.compute)
    assert found  # noqa: S101  # see above
    return found


def known_capabilities(cell: Cell) -> tuple[str, ...]:
    """Return the capabilities that a cell requests and its toolkit can compile for."""
    return tuple(text for text, known in _with_support(cell) if known)


def requested_capabilities(cell: Cell) -> tuple[str, ...]:
    """Return the capabilities that a cell requests.

    :raises NotBuildableError: the toolkit does not know one of them.
    """
    requested = _with_support(cell)
    if unknown := [text for text, known in requested if not known]:
        platform = platforms()[cell.platform]
        raise NotBuildableError(
            f"gpu-archs in matrix.yaml contains {', '.join(unknown)}, but {platform.title} {cell.toolkit} compiles "
            f"only for {', '.join(platform.toolkits()[str(cell.toolkit)].capabilities)}"
        )
    return tuple(text for text, _ in requested)


def _with_support(cell: Cell) -> list[tuple[str, bool]]:
    """Return each requested capability, with True if the toolkit can compile for it."""
    if cell.toolkit is None:
        return []
    platform = platforms()[cell.platform]
    toolkit = platform.toolkits()[cell.toolkit]
    # A matrix for several platforms lists the architectures of all of them.
    named = cell.settings.gpu_archs or ()
    requested = tuple(text for text in named if platform.is_capability(text)) or toolkit.default_capabilities
    return [(text, platform.base_capability(text) in toolkit.capabilities) for text in requested]
