"""Read a catalogue that anybody may have written."""

from __future__ import annotations

import dataclasses
import re
from typing import Any, TypeVar

from packaging.requirements import Requirement
from packaging.utils import parse_wheel_filename
from packaging.version import Version

from wheelsmith.base.errors import PackageIndexError
from wheelsmith.base.json_dataclass import Record, in_one_line, read_json
from wheelsmith.frameworks import frameworks
from wheelsmith.index.entries.about import About, check_about
from wheelsmith.index.entries.catalogue import (
    SCHEMA_VERSION,
    Catalogue,
    CatalogueCell,
    CatalogueWheel,
    Unserved,
    in_address,
)
from wheelsmith.index.entries.completeness import Completeness
from wheelsmith.index.entries.entry import Provenance, WheelTest, file_key
from wheelsmith.index.entries.validity import check_test
from wheelsmith.model import TORCH, ReleaseRecord
from wheelsmith.platforms import parse_capability
from wheelsmith.wheel.attestation.bundle import SUFFIX

_SLASHES = 3  # in files/<ab>/<sha256>/<name>
_HASH = re.compile(r"[0-9a-f]{64}")
_FILE = re.compile(r"[A-Za-z0-9_.!+-]+\.whl")
_RELEASE = re.compile(r"\d{1,4}\.\d{1,4}", re.ASCII)
_LARGEST = 1 << 50  # bytes of a wheel
_WORD = re.compile(r"[a-z0-9]{1,20}")
R = TypeVar("R", bound=Record)


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
        versions = tuple(_read_version(item) for item in plain.pop("versions", ()))
        catalogue = dataclasses.replace(_read(Catalogue, plain), wheels=wheels, unserved=unserved, versions=versions)
        _check(catalogue)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise PackageIndexError(f"{place} is no catalogue of wheels: {in_one_line(error)}") from None
    return catalogue


def _check(catalogue: Catalogue) -> None:
    """Refuse what would make a command say something else; a catalogue is somebody else's word.

    :raises ValueError: a field is not what it should be.
    """
    for wheel in catalogue.wheels:
        _check_wheel(wheel, catalogue.project)
    if catalogue.about is not None:
        check_about(catalogue.about)
    for found in catalogue.versions:
        Version(found.version)
    for cell in (*(c for wheel in catalogue.wheels for c in wheel.cells), *(u.cell for u in catalogue.unserved)):
        _check_cell(cell)


def _check_wheel(wheel: CatalogueWheel, project: str) -> None:
    name, version, *_ = parse_wheel_filename(wheel.filename)
    path = in_address(file_key(wheel.sha256, wheel.filename))
    if (name, str(version), path) != (project, wheel.version, wheel.path):
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
    for test in wheel.tests:
        check_test(test)


def _is_bundle(path: str, filename: str) -> bool:
    sha256 = path.split("/")[2] if path.count("/") == _SLASHES else ""
    return bool(_HASH.fullmatch(sha256)) and path == in_address(file_key(sha256, f"{filename}{SUFFIX}"))


def _check_cell(cell: CatalogueCell) -> None:
    releases = (cell.release, cell.python or "3.9")
    if not all(map(_RELEASE.fullmatch, releases)) or not _WORD.fullmatch(cell.compute):
        raise ValueError(f"{cell.id!r} is no cell")
    if cell.framework not in frameworks():
        raise ValueError(f"{cell.id!r} is for a framework that is not known")


def _read_wheel(data: Any) -> CatalogueWheel:
    cells = [_known(CatalogueCell, cell) for cell in data.get("cells", ())]
    made = data.get("provenance")
    if made is not None:
        source = {"revision": None, "commit": None, **made["source"]}
        made = {"toolkit": None, "compiler": None, "image": None, **_known(Provenance, made), "source": source}
    tests = [{"cell": None, "details": None, **_known(WheelTest, test)} for test in data.get("tests", ())]
    return _read(CatalogueWheel, {**data, "cells": cells, "provenance": made, "tests": tests})


def _read_version(data: Any) -> Completeness:
    return Completeness.from_json({"planned": [], "missing": [], **_known(Completeness, data)})


def _with_cell(data: Any) -> Any:
    return {**data, "cell": _known(CatalogueCell, data["cell"])}


def _read(cls: type[R], data: Any) -> R:
    return cls.from_json(_known(cls, data))


def _known(cls: type[Record], data: Any) -> Any:
    names = {field.name for field in dataclasses.fields(cls)}  # type: ignore[arg-type]  # every Record is a dataclass
    if issubclass(cls, ReleaseRecord):
        names.add(data.get("framework", TORCH))
    return {name: value for name, value in data.items() if name in names}
