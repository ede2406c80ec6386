"""Which sources of a kernel are compiled for a cell, and for which GPUs."""

from __future__ import annotations

from packaging.version import Version

from wheelsmith.model import Cell
from wheelsmith.plan.feasibility import NotBuildableError, requested_capabilities
from wheelsmith.plan.recipe import KernelSpec, Section
from wheelsmith.plan.recipe.compile import SourceGroup
from wheelsmith.platforms import HeaderLibrary, header_libraries, platforms


def source_groups(cell: Cell, spec: KernelSpec) -> tuple[SourceGroup, ...]:
    """Return what is compiled for a cell: the binding, and the sections of build.toml that are for it.

    :raises NotBuildableError: it cannot be.
    """
    assert spec.binding is not None  # noqa: S101  # only kernels with one come here
    requested = requested_capabilities(cell)
    binding = SourceGroup(
        src=spec.binding.src,
        include=spec.binding.include,
        cxx_flags=spec.binding.cxx_flags,
        capabilities=requested,
    )
    return (binding, *(_group(section, spec, requested, cell) for section in own_sections(cell, spec)))


def own_sections(cell: Cell, spec: KernelSpec) -> list[Section]:
    """Return the sections that are compiled for a cell.

    :raises NotBuildableError: there are none.
    """
    sections, any_own = applying_sections(cell, spec), any(each.backend == cell.backend for each in spec.sections)
    # The binding alone may be the kernel; but where sections exist and none applies, it would lack what it calls.
    if not sections and (any_own or not (spec.binding and spec.binding.src)):
        raise NotBuildableError(
            f"the kernel has no sources for {cell.compute}: no kernel section of build.toml applies"
        )
    return sections


def applying_sections(cell: Cell, spec: KernelSpec) -> list[Section]:
    """Return the sections for a cell's backend whose oldest toolkit its own is not older than."""
    return [each for each in spec.sections if each.backend == cell.backend and not _left_out(each, cell)]


def _left_out(section: Section, cell: Cell) -> bool:
    return bool(section.toolkit_minver and cell.toolkit and Version(cell.toolkit) < Version(section.toolkit_minver))


def _group(section: Section, spec: KernelSpec, requested: tuple[str, ...], cell: Cell) -> SourceGroup:
    check_depends(section, spec)
    return SourceGroup(
        src=section.src,
        include=section.include,
        cxx_flags=section.cxx_flags,
        device_flags=section.device_flags,
        capabilities=capabilities_of(section, requested, cell),
    )


def check_depends(section: Section, spec: KernelSpec) -> None:
    """Refuse a section that needs headers which its framework does not bring.

    :raises NotBuildableError: it does.
    """
    known = {spec.framework, *header_libraries()}
    if others := [name for name in section.depends if name not in known]:
        raise NotBuildableError(
            f"[kernel.{section.name}] depends on {', '.join(others)}, whose headers wheelsmith cannot provide: "
            f"it has those of {', '.join(header_libraries())}"
        )


def libraries_of(cell: Cell, spec: KernelSpec) -> tuple[HeaderLibrary, ...]:
    """Return the libraries that a cell's sections depend on; every source sees them, as in kernel-builder."""
    names = dict.fromkeys(name for section in own_sections(cell, spec) for name in section.depends)
    return tuple(header_libraries()[name] for name in names if name in header_libraries())


def capabilities_of(section: Section, requested: tuple[str, ...], cell: Cell) -> tuple[str, ...]:
    """Return the capabilities that a section is compiled for.

    :raises NotBuildableError: there are none.
    """
    if cell.toolkit is None:
        return ()
    platform = platforms()[cell.platform]
    found = platform.covers(section.capabilities, requested, cell.toolkit)
    if not found:
        raise NotBuildableError(
            f"[kernel.{section.name}] is written for {', '.join(section.capabilities or ())}; with {platform.title} "
            f"{cell.toolkit} none of that makes code for the gpu-archs {', '.join(requested)}"
        )
    return found
