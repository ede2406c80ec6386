"""What an index tells the world of a project, for programs that choose: the page's picker and ``wheelsmith pick``."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from packaging.version import Version

from wheelsmith.base.json_dataclass import Record
from wheelsmith.base.sanitize import visible
from wheelsmith.index.entries.about import About
from wheelsmith.index.entries.completeness import Completeness, all_completeness
from wheelsmith.index.entries.entry import (
    CellWithoutWheel,
    IndexEntry,
    NoWheel,
    ProjectState,
    ProjectStatus,
    Provenance,
    WheelOutcome,
    WheelTest,
    outcome_of,
)
from wheelsmith.index.entries.listing import newest_about, roots
from wheelsmith.index.entries.side_files.known import announced
from wheelsmith.index.entries.state import version_of
from wheelsmith.model import TORCH, Cell, ReleaseRecord
from wheelsmith.wheel.attestation.bundle import SUFFIX

SCHEMA_VERSION = 1
_LONGEST = 2000  # characters of a reason


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogueCell(ReleaseRecord):
    """One combination that somebody runs, without what only its build needed.

    :param id: the Hub's variant name, e.g. ``torch211-cxx11-cu130-x86_64-linux``.
    :param compute: the compute platform as torch's own index names it: ``cpu``, ``cu130``.
    """

    id: str
    framework: str = TORCH
    release: str
    compute: str
    arch: str
    python: str | None = None
    os: str = "linux"
    cxx11_abi: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogueWheel(Record):
    """A wheel as it can be chosen.

    :param path: under the index's own address, with ``+`` escaped.
    :param roots: where installers find it: ``simple``, and the compute platforms that it serves.
    :param requires: what METADATA asks for beside torch, extras left out.
    :param yanked: why it should not be chosen any more, perhaps empty; None for a wheel in good standing.
    :param bundle: where that is which somebody signed of it, written as ``path``; None where nothing is.
    :param tests: what its tests came to, on each machine and for each cell.
    """

    filename: str
    version: str
    path: str
    sha256: str
    size: int
    upload_time: str
    roots: tuple[str, ...]
    cells: tuple[CatalogueCell, ...] = ()
    requires_python: str | None = None
    requires_torch: str | None = None
    requires: tuple[str, ...] = ()
    gpu_archs: tuple[str, ...] = ()
    provenance: Provenance | None = None
    yanked: str | None = None
    bundle: str | None = None
    tests: tuple[WheelTest, ...] = ()

    @property
    def outcome(self) -> WheelOutcome:
        """Return what all of its tests come to."""
        return outcome_of(self.tests)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unserved(Record):
    """A cell of the newest version that has no wheel, and why."""

    cell: CatalogueCell
    version: str
    status: NoWheel
    reason: str
    tail: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalogue(Record):
    """A project as its index offers it.

    :param wheels: those that some root lists, the newest version first.
    :param about: what METADATA of the newest tells people.
    :param versions: what those have of what is planned for them, of which somebody said what is; the newest first.
    """

    project: str
    wheels: tuple[CatalogueWheel, ...] = ()
    unserved: tuple[Unserved, ...] = ()
    status: ProjectStatus = ProjectStatus.ACTIVE
    status_reason: str | None = None
    about: About | None = None
    versions: tuple[Completeness, ...] = ()
    schema_version: int = SCHEMA_VERSION


def catalogue_of(state: ProjectState) -> Catalogue:
    """Return what may be told of a project: nothing of cells that are kept back, no wheel of one in quarantine."""
    # A variant wheel has the content of the plain one beside it, and installers choose it themselves or not at all.
    plain = (entry for entry in state.entries if entry.variant is None)
    offered = () if state.status is ProjectStatus.QUARANTINED else plain
    listed = sorted(
        ((version_of(entry), entry) for entry in offered if roots(entry)), key=lambda pair: pair[1].filename
    )
    listed.sort(key=lambda pair: pair[0], reverse=True)
    return Catalogue(
        project=state.project,
        wheels=tuple(_wheel(entry, version) for version, entry in listed),
        unserved=tuple(_unserved(answer) for answer in state.answers if answer.cell.settings.advertise),
        status=state.status,
        status_reason=state.status_reason,
        about=newest_about(entry for _, entry in listed),
        versions=_versions(state, {Version(version.public) for version, _ in listed}) if listed else (),
    )


def _versions(state: ProjectState, listed: set[Version]) -> tuple[Completeness, ...]:
    """Return what the versions have that are on a page, and the newest of all."""
    found = all_completeness(state)
    return tuple(each for number, each in enumerate(found) if number == 0 or Version(each.version) in listed)


def catalogue_key(project: str) -> str:
    """Return where a project's catalogue lies under the index's own address."""
    return f"projects/{project}/catalogue.json"


def dump_catalogue(catalogue: Catalogue) -> bytes:
    """Write a catalogue; what says nothing is left out."""
    return json.dumps(_spoken(catalogue.to_json()), sort_keys=True, separators=(",", ":")).encode() + b"\n"


def _wheel(entry: IndexEntry, version: Version) -> CatalogueWheel:
    return CatalogueWheel(
        filename=entry.filename,
        version=str(version),
        path=in_address(entry.path),
        sha256=entry.sha256,
        size=entry.size,
        upload_time=entry.upload_time,
        roots=roots(entry),
        cells=tuple(catalogue_cell(cell) for cell in entry.cells if cell.settings.advertise),
        requires_python=entry.requires_python,
        requires_torch=entry.requires_torch,
        requires=entry.requires,
        gpu_archs=entry.gpu_archs,
        provenance=entry.provenance,
        yanked=entry.yanked,
        bundle=_bundle(entry),
        tests=entry.tests,
    )


def _bundle(entry: IndexEntry) -> str | None:
    found = (side.path for side in announced(entry) if side.kind.suffix == SUFFIX)
    return next(map(in_address, found), None)


def in_address(path: str) -> str:
    """Return a path as it stands in an address: some hosts read + as a space."""
    return path.replace("+", "%2B")


def _unserved(answer: CellWithoutWheel) -> Unserved:
    return Unserved(
        cell=catalogue_cell(answer.cell),
        version=answer.version,
        status=answer.status,
        reason=visible(" ".join(answer.reason.split()))[:_LONGEST],
        tail=tuple(map(visible, answer.tail)),
    )


def catalogue_cell(cell: Cell) -> CatalogueCell:
    """Return a cell without what only its build needs."""
    return CatalogueCell(
        id=cell.id,
        framework=cell.framework,
        release=cell.release,
        compute=cell.compute,
        arch=cell.arch,
        python=cell.python,
        os=cell.os,
        cxx11_abi=cell.cxx11_abi,
    )


def _spoken(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _spoken(item) for key, item in value.items() if item is not None and item != []}
    return [_spoken(item) for item in value] if isinstance(value, list) else value
