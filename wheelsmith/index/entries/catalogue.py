"""What an index tells the world of a project, for programs that choose: the page's picker and ``wheelsmith pick``."""

from __future__ import annotations

import dataclasses
import json
import re
from dataclasses import dataclass
from typing import Any, TypeVar

from packaging.requirements import Requirement
from packaging.utils import parse_wheel_filename
from packaging.version import Version

from wheelsmith.base.errors import PackageIndexError
from wheelsmith.base.record import Record, in_one_line, read_json
from wheelsmith.frameworks import frameworks
from wheelsmith.index.entries.about import About, check_about
from wheelsmith.index.entries.entry import (
    CellWithoutWheel,
    IndexEntry,
    NoWheel,
    ProjectState,
    ProjectStatus,
    Provenance,
    file_key,
)
from wheelsmith.index.entries.listing import newest_about, roots
from wheelsmith.index.entries.side_files.known import announced
from wheelsmith.index.entries.state import version_of
from wheelsmith.model import TORCH, Cell, ReleaseRecord
from wheelsmith.platforms import parse_capability
from wheelsmith.wheel.attestation.bundle import SUFFIX

SCHEMA_VERSION = 1
_SLASHES = 3  # in files/<ab>/<sha256>/<name>
_HASH = re.compile(r"[0-9a-f]{64}")
_FILE = re.compile(r"[A-Za-z0-9_.!+-]+\.whl")
_RELEASE = re.compile(r"\d{1,4}\.\d{1,4}", re.ASCII)
_LARGEST = 1 << 50  # bytes of a wheel
_WORD = re.compile(r"[a-z0-9]{1,20}")
R = TypeVar("R", bound=Record)


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
    """

    project: str
    wheels: tuple[CatalogueWheel, ...] = ()
    unserved: tuple[Unserved, ...] = ()
    status: ProjectStatus = ProjectStatus.ACTIVE
    status_reason: str | None = None
    about: About | None = None
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
    )


def catalogue_key(project: str) -> str:
    """Return where a project's catalogue lies under the index's own address."""
    return f"projects/{project}/catalogue.json"


def dump_catalogue(catalogue: Catalogue) -> bytes:
    """Write a catalogue; what says nothing is left out."""
    return json.dumps(_spoken(catalogue.to_json()), sort_keys=True, separators=(",", ":")).encode() + b"\n"


def load_catalogue(data: bytes, place: str) -> Catalogue:
    """Read a catalogue. Fields that this version does not know are passed over.

    :param place: where it came from, for the error.
    :raises PackageIndexError: it is none, or its fields have other meanings by now.
    """
    try:
        plain = read_json(data)
        if plain["schema_version"] > SCHEMA_VERSION:
            raise PackageIndexError(f"{place} was written by a newer wheelsmith", remedy="update wheelsmith")
        wheels = tuple(_read_wheel(item) for item in plain.pop("wheels", ()))
        if plain.get("about") is not None:
            plain["about"] = _known(About, plain["about"])
        unserved = tuple(_read(Unserved, _with_cell(item)) for item in plain.pop("unserved", ()))
        catalogue = dataclasses.replace(_read(Catalogue, plain), wheels=wheels, unserved=unserved)
        _check(catalogue)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise PackageIndexError(f"{place} is no catalogue of wheels: {in_one_line(error)}") from None
    return catalogue


def _check(catalogue: Catalogue) -> None:
    """Refuse what would make a command say something else; a catalogue is somebody else's word.

    :raises ValueError: a field is not what it should be.
    """
    for wheel in catalogue.wheels:
        name, version, *_ = parse_wheel_filename(wheel.filename)
        path = _in_address(file_key(wheel.sha256, wheel.filename))
        if (name, str(version), path) != (catalogue.project, wheel.version, wheel.path):
            raise ValueError(f"{wheel.filename!r} is listed as {wheel.version!r} at {wheel.path!r}")
        if wheel.bundle is not None and not _is_bundle(wheel.bundle, wheel.filename):
            raise ValueError(f"what is signed of {wheel.filename!r} is listed at {wheel.bundle!r}")
        if not _HASH.fullmatch(wheel.sha256) or not _FILE.fullmatch(wheel.filename):
            raise ValueError(f"{wheel.filename!r} is no name of a wheel, or its hash is none")
        if isinstance(wheel.size, bool) or not 0 <= wheel.size < _LARGEST:
            raise ValueError(f"{wheel.filename} cannot have that size")
        for text in wheel.requires:
            Requirement(text)
        for text in wheel.gpu_archs:
            parse_capability(text)
    if catalogue.about is not None:
        check_about(catalogue.about)
    for cell in (*(c for wheel in catalogue.wheels for c in wheel.cells), *(u.cell for u in catalogue.unserved)):
        _check_cell(cell)


def _is_bundle(path: str, filename: str) -> bool:
    sha256 = path.split("/")[2] if path.count("/") == _SLASHES else ""
    return bool(_HASH.fullmatch(sha256)) and path == _in_address(file_key(sha256, f"{filename}{SUFFIX}"))


def _check_cell(cell: CatalogueCell) -> None:
    releases = (cell.release, cell.python or "3.9")
    if not all(map(_RELEASE.fullmatch, releases)) or not _WORD.fullmatch(cell.compute):
        raise ValueError(f"{cell.id!r} is no cell")
    if cell.framework not in frameworks():
        raise ValueError(f"{cell.id!r} is for a framework that is not known")


def _wheel(entry: IndexEntry, version: Version) -> CatalogueWheel:
    return CatalogueWheel(
        filename=entry.filename,
        version=str(version),
        path=_in_address(entry.path),
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
    )


def _bundle(entry: IndexEntry) -> str | None:
    found = (side.path for side in announced(entry) if side.kind.suffix == SUFFIX)
    return next(map(_in_address, found), None)


def _in_address(path: str) -> str:
    """Return a path as it stands in an address: some hosts read + as a space."""
    return path.replace("+", "%2B")


def _unserved(answer: CellWithoutWheel) -> Unserved:
    return Unserved(
        cell=catalogue_cell(answer.cell),
        version=answer.version,
        status=answer.status,
        reason=answer.reason,
        tail=answer.tail,
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


def _read_wheel(data: Any) -> CatalogueWheel:
    cells = [_known(CatalogueCell, cell) for cell in data.get("cells", ())]
    made = data.get("provenance")
    if made is not None:
        source = {"revision": None, "commit": None, **made["source"]}
        made = {"toolkit": None, "compiler": None, "image": None, **_known(Provenance, made), "source": source}
    return _read(CatalogueWheel, {**data, "cells": cells, "provenance": made})


def _with_cell(data: Any) -> Any:
    return {**data, "cell": _known(CatalogueCell, data["cell"])}


def _read(cls: type[R], data: Any) -> R:
    return cls.from_json(_known(cls, data))


def _known(cls: type[Record], data: Any) -> Any:
    names = {field.name for field in dataclasses.fields(cls)}  # type: ignore[arg-type]  # every Record is a dataclass
    if issubclass(cls, ReleaseRecord):
        names.add(data.get("framework", TORCH))
    return {name: value for name, value in data.items() if name in names}
