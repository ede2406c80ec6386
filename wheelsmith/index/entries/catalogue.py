"""The catalogue of a project. The page's picker and ``wheelsmith pick`` choose wheels from it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields, replace
from typing import Any

from packaging.version import Version

from wheelsmith.base.errors import PackageIndexError
from wheelsmith.base.json_dataclass import Record, in_one_line, read_json
from wheelsmith.base.sanitize import visible
from wheelsmith.base.units import is_prerelease
from wheelsmith.frameworks import frameworks
from wheelsmith.index.entries.entry import (
    CellWithoutWheel,
    IndexEntry,
    ProjectState,
    ProjectStatus,
    Provenance,
    WheelTest,
)
from wheelsmith.index.entries.metadata import About
from wheelsmith.index.entries.side_files import BUNDLE
from wheelsmith.index.entries.state import Completeness, all_completeness
from wheelsmith.index.entries.stored_states import newest_about
from wheelsmith.model import NO_FRAMEWORK, TORCH, Cell, CellSettings, SourceId
from wheelsmith.platforms import CPU, platform_of

SCHEMA_VERSION = 1
_MAX_REASON = 2000  # characters of a reason
# Fields of a wheel with the same form as in a state.
_WHEEL_FIELDS = (
    "filename",
    "sha256",
    "size",
    "upload_time",
    "requires_python",
    "requires_torch",
    "requires",
    "gpu_archs",
    "cpu_features",
    "provenance",
    "yanked",
    "tests",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalogue:
    """The public content of a project's state.

    :param wheels: the wheels that a root lists, newest version first, with their advertised cells.
    :param unserved: the cells of the newest version without a wheel.
    :param about: summary, licence and links from METADATA of the newest wheel.
    :param versions: completeness of the listed versions with a known plan, newest first.
    """

    project: str
    wheels: tuple[IndexEntry, ...] = ()
    unserved: tuple[CellWithoutWheel, ...] = ()
    status: ProjectStatus = ProjectStatus.ACTIVE
    status_reason: str | None = None
    about: About | None = None
    versions: tuple[Completeness, ...] = ()


def catalogue_of(state: ProjectState) -> Catalogue:
    """Return the catalogue of a project, without unadvertised cells and without the wheels of a quarantined project."""
    # A variant wheel has the content of its plain wheel. Only installers with variant support choose it.
    plain = (entry for entry in state.entries if entry.variant is None)
    offered = () if state.status is ProjectStatus.QUARANTINED else plain
    listed = sorted((entry for entry in offered if entry.roots), key=lambda entry: entry.filename)
    listed.sort(key=lambda entry: entry.version, reverse=True)
    return Catalogue(
        project=state.project,
        wheels=tuple(map(_public_entry, listed)),
        unserved=tuple(_public_unserved(answer) for answer in state.answers if answer.cell.settings.advertise),
        status=state.status,
        status_reason=state.status_reason,
        about=newest_about(listed),
        versions=_versions(state, {entry.public for entry in listed}) if listed else (),
    )


def public_cell(cell: Cell) -> Cell:
    """Return a cell without its build settings."""
    return replace(cell, settings=CellSettings())


def catalogue_key(project: str) -> str:
    """Return the key of a project's catalogue in the index."""
    return f"projects/{project}/catalogue.json"


def dump_catalogue(catalogue: Catalogue) -> bytes:
    """Return a catalogue as JSON, without empty fields."""
    plain = {
        "project": catalogue.project,
        "wheels": [wheel_json(wheel) for wheel in catalogue.wheels],
        "unserved": [{**answer.to_json(), "cell": _cell_json(answer.cell)} for answer in catalogue.unserved],
        "status": catalogue.status,
        "status_reason": catalogue.status_reason,
        "about": catalogue.about.to_json() if catalogue.about else None,
        "versions": [each.to_json() for each in catalogue.versions],
        "schema_version": SCHEMA_VERSION,
    }
    return json.dumps(_without_empty(plain), sort_keys=True, separators=(",", ":")).encode() + b"\n"


def load_catalogue(data: bytes, place: str) -> Catalogue:
    """Read a catalogue. Unknown fields, frameworks and compute platforms are skipped.

    :param place: the source of the catalogue, for error messages.
    :raises PackageIndexError: the catalogue cannot be read, or a newer wheelsmith wrote it.
    """
    try:
        plain = read_json(data)
        if plain["schema_version"] > SCHEMA_VERSION:
            raise PackageIndexError(f"{place} was written by a newer wheelsmith", remedy="update wheelsmith")
        catalogue = _parse_catalogue(plain)
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise PackageIndexError(f"{place} is not a valid catalogue: {in_one_line(error)}") from None
    return catalogue


def _parse_catalogue(plain: Any) -> Catalogue:
    about, project = plain.get("about"), plain["project"]
    wheels = tuple(filter(None, map(_parse_wheel, plain.get("wheels", ()))))
    if any(wheel.project != project for wheel in wheels):
        raise ValueError(f"it lists a wheel of another project than {project}")
    return Catalogue(
        project=project,
        wheels=wheels,
        unserved=tuple(filter(None, map(_parse_unserved, plain.get("unserved", ())))),
        status=ProjectStatus(plain.get("status", ProjectStatus.ACTIVE)),
        status_reason=plain.get("status_reason"),
        about=None if about is None else About.from_json(_known_fields(About, about)),
        versions=tuple(Completeness.from_json(_known_fields(Completeness, each)) for each in plain.get("versions", ())),
    )


def _parse_wheel(data: Any) -> IndexEntry | None:
    """Return a wheel, or None if all of its cells have unknown frameworks or compute platforms."""
    cells = tuple(filter(None, map(_parse_cell, data.get("cells", ()))))
    if data.get("cells") and not cells:
        return None
    made, bundle, path = data.get("provenance"), data.get("bundle"), data.get("path", "")
    if made is not None:
        made = {**_known_fields(Provenance, made), "source": _known_fields(SourceId, made["source"])}
    plain = {
        **{name: data[name] for name in (*_WHEEL_FIELDS, "older") if name in data},
        "provenance": made,
        "tests": [_known_fields(WheelTest, test) for test in data.get("tests", ())],
        # The path contains the hash: files/ab/<sha256>/<name>.
        "side_files": {} if bundle is None else {BUNDLE: bundle.split("/")[2]},
        "served_at": path if "://" in path else None,
        "metadata_sha256": "",
    }
    return replace(IndexEntry.from_json(_known_fields(IndexEntry, plain)), cells=cells)


def _parse_unserved(data: Any) -> CellWithoutWheel | None:
    cell = _parse_cell(data["cell"])
    if cell is None:
        return None
    return CellWithoutWheel.from_json(_known_fields(CellWithoutWheel, {**data, "cell": cell.to_json()}))


def _parse_cell(data: Any) -> Cell | None:
    """Return a cell, or None if its framework or compute platform is unknown."""
    framework, found = data.get("framework", TORCH), platform_of(data["compute"])
    if framework not in {*frameworks(), NO_FRAMEWORK} or (found is None and data["compute"] != CPU):
        return None
    return Cell(
        framework=framework,
        release=data[framework],
        **({"platform": found[0].name, "toolkit": found[1]} if found else {"toolkit": None}),
        arch=data["arch"],
        python=data.get("python"),
        os=data.get("os", "linux"),
        cxx11_abi=data.get("cxx11_abi"),
    )


def _known_fields(cls: type[Record], data: Any) -> dict[str, Any]:
    """Return the known fields of a record. Required fields that were omitted as empty become None."""
    known = fields(cls)  # type: ignore[arg-type]  # every Record is a dataclass
    required = [each.name for each in known if each.default is MISSING and each.default_factory is MISSING]
    return {**dict.fromkeys(required), **{each.name: data[each.name] for each in known if each.name in data}}


def _versions(state: ProjectState, listed: set[Version]) -> tuple[Completeness, ...]:
    """Return the completeness of the listed versions and of the newest version."""
    found = all_completeness(state)
    return tuple(each for number, each in enumerate(found) if number == 0 or Version(each.version) in listed)


def _public_entry(entry: IndexEntry) -> IndexEntry:
    """Return a wheel with only the fields that a catalogue contains."""
    return replace(
        entry,
        cells=tuple(public_cell(cell) for cell in entry.cells if cell.settings.advertise),
        side_files={suffix: sha256 for suffix, sha256 in entry.side_files.items() if suffix == BUNDLE},
        metadata_sha256="",
        about=None,
    )


def _public_unserved(answer: CellWithoutWheel) -> CellWithoutWheel:
    reason = visible(" ".join(answer.reason.split()))[:_MAX_REASON]
    return replace(answer, cell=public_cell(answer.cell), reason=reason, tail=tuple(map(visible, answer.tail)))


def wheel_json(wheel: IndexEntry) -> dict[str, Any]:
    """Return the JSON form of a wheel in a catalogue, including empty fields."""
    plain = wheel.to_json()
    return {
        **{name: plain.get(name, []) for name in _WHEEL_FIELDS},
        "version": str(wheel.version),
        "path": wheel.url,
        "roots": list(wheel.roots),
        "cells": [_cell_json(cell) for cell in wheel.cells],
        "bundle": wheel.bundle,
        **({"older": True} if wheel.older else {}),
    }


def _cell_json(cell: Cell) -> dict[str, Any]:
    framework = {} if cell.framework == TORCH else {"framework": cell.framework}
    return {
        **framework,
        cell.framework: cell.release,
        **({"prerelease": True} if is_prerelease(cell.release) else {}),
        "id": cell.id,
        "compute": cell.compute,
        "arch": cell.arch,
        "python": cell.python,
        "os": cell.os,
        "cxx11_abi": cell.cxx11_abi,
    }


def _without_empty(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_empty(item) for key, item in value.items() if item is not None and item != []}
    return [_without_empty(item) for item in value] if isinstance(value, list) else value


@dataclass(frozen=True, slots=True, kw_only=True)
class CellChange:
    """The wheels of one cell in two versions.

    :param before: the wheel of the older version, if any.
    :param now: the wheel of the newer version, if any.
    :param reason: the reason that the newer version has no wheel, if known.
    """

    cell: str
    before: IndexEntry | None
    now: IndexEntry | None
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionChanges:
    """The differences between two versions of a project.

    :param version: the newer version, without a local part.
    :param before: the older version, without a local part; None if there is none.
    :param cells: the cells of both versions and the planned cells, sorted.
    """

    project: str
    version: str
    before: str | None
    cells: tuple[CellChange, ...]


def version_changes(earlier: Catalogue, now: Catalogue, version: str) -> VersionChanges:
    """Compare a version with the newest older version.

    :param earlier: the catalogue that contains the older version.
    :param now: the catalogue that contains the version.
    :param version: the version, without a local part.
    """
    newer = Version(version)
    published = {wheel.public for wheel in earlier.wheels if wheel.yanked is None}
    older = max((version for version in published if version < newer), default=None)
    before = _by_cell(earlier, older) if older else {}
    current = _by_cell(now, newer)
    unserved = (item for item in now.unserved if Version(item.version) == newer)
    explained = {item.cell.id: f"{item.status}: {item.reason}" for item in unserved}
    missing = (each.missing for each in now.versions if Version(each.version) == newer)
    reasons = {name: "planned but not built" for names in missing for name in names} | explained
    cells = tuple(
        CellChange(cell=name, before=before.get(name), now=current.get(name), reason=reasons.get(name))
        for name in sorted({*before, *current, *reasons})
    )
    return VersionChanges(project=now.project, version=str(newer), before=str(older) if older else None, cells=cells)


def _by_cell(catalogue: Catalogue, version: Version) -> Mapping[str, IndexEntry]:
    wheels = (wheel for wheel in catalogue.wheels if wheel.yanked is None and wheel.public == version)
    return {cell.id: wheel for wheel in wheels for cell in wheel.cells}
