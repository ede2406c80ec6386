"""Records of an index: its wheels, the cells without one, and the state of each project.

States and catalogues come from other people too. A record refuses fields that could not stand in a path, on a page or
in a command.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from functools import lru_cache
from typing import Any, Self, TypeVar
from urllib.parse import urlsplit

from packaging.requirements import Requirement
from packaging.version import Version

from wheelsmith.base.json_dataclass import Record
from wheelsmith.base.redact import redact
from wheelsmith.frameworks import frameworks
from wheelsmith.index.entries.metadata import About, check_line, check_link
from wheelsmith.index.entries.side_files import BUNDLE, CORE_METADATA, SIGNATURES, Announced, file_key, side_files
from wheelsmith.model import Cell, SourceId, WheelName, WheelRecord, read_wheel_name
from wheelsmith.platforms import parse_capability, platforms
from wheelsmith.wheel.variant_format import Variant

SCHEMA_VERSION = 4
_BEFORE_TESTS = 3  # of states without tests and plans, which an older wheelsmith reads too
EVERYTHING = "simple"  # the root that lists every wheel
_LARGEST = 1 << 50  # bytes
_HASH = re.compile(r"[0-9a-f]{64}")
_FILE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.!+-]{0,250}\.whl")
_RELEASE = re.compile(r"\d{1,4}\.\d{1,4}", re.ASCII)
_WORD = re.compile(r"[a-z0-9][a-z0-9_]{0,30}")
_CELL = re.compile(r"[a-z0-9][a-z0-9_.-]{0,120}")
_ADDRESS = re.compile(r"https?://[A-Za-z0-9.:\[\]-]{1,260}(/[A-Za-z0-9._~%+-]+)*/?", re.ASCII)


class ProjectStatus(StrEnum):
    """Status markers of a project (PEP 792)."""

    ACTIVE = "active"
    ARCHIVED = "archived"
    QUARANTINED = "quarantined"
    DEPRECATED = "deprecated"

    @property
    def takes_wheels(self) -> bool:
        """Return True if wheels may be added."""
        return self not in {ProjectStatus.ARCHIVED, ProjectStatus.QUARANTINED}


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance(Record):
    """How a wheel was made.

    :param cell: id of the cell that it was compiled for; the other cells that it serves were folded into it.
    :param toolkit: the CUDA toolkit, e.g. ``13.0``.
    :param compiler: the host compiler as it names itself.
    :param image: the container image by its digest.
    :param plan_digest: sha256 of everything that decided its bytes.
    :param wheelsmith: the version that made it.
    """

    cell: str
    source: SourceId
    toolkit: str | None
    compiler: str | None
    image: str | None
    plan_digest: str
    wheelsmith: str


class WheelOutcome(StrEnum):
    """Result of a wheel's tests."""

    PASSED = "passed"
    FAILED = "failed"
    FLAKY = "flaky"
    UNTESTED = "not tested"


@dataclass(frozen=True, slots=True, kw_only=True)
class WheelTest(Record):
    """Result of one test of a wheel, as somebody recorded it.

    :param where: the machine, in words, e.g. ``H200, driver 580``.
    :param cell: id of the cell that was tested; None if that was not recorded.
    :param details: an address that tells more.
    """

    outcome: WheelOutcome
    where: str
    cell: str | None = None
    details: str | None = None

    def __post_init__(self) -> None:
        """Refuse words that no page could show."""
        check_line(self.where)
        if self.details is not None:
            check_link(self.details)
        if self.cell is not None:
            _require(_CELL, self.cell, "the id of a cell")

    @property
    def machine_and_cell(self) -> tuple[str, str]:
        """Return the key under which one result is kept."""
        return self.where, self.cell or ""


_Test = TypeVar("_Test", bound=WheelTest)


def outcome_of(tests: Iterable[WheelTest]) -> WheelOutcome:
    """Return the worst result of some tests."""
    found = {test.outcome for test in tests}
    worst = (WheelOutcome.FAILED, WheelOutcome.FLAKY, WheelOutcome.PASSED)
    return next((each for each in worst if each in found), WheelOutcome.UNTESTED)


def worst_by(tests: Iterable[_Test], key: Callable[[_Test], tuple[str, ...]]) -> tuple[_Test, ...]:
    """Return the worst test of each key, sorted by key; the first of equal ones."""
    found: dict[tuple[str, ...], _Test] = {}
    for test in tests:
        before = found.setdefault(key(test), test)
        if outcome_of((before, test)) is not before.outcome:
            found[key(test)] = test
    return tuple(found[each] for each in sorted(found))


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexEntry(WheelRecord):
    """A wheel as an index offers it.

    :param upload_time: UTC, ``yyyy-mm-ddThh:mm:ssZ``; empty before it is published.
    :param cells: every cell that the wheel serves. A wheel that wheelsmith did not build may name none.
    :param requires_torch: the versions of torch that METADATA requires, e.g. ``==2.11.*``; None if it requires none.
    :param requires: the other requirements in METADATA, without those of extras.
    :param variant: what a variant wheel needs of a machine; None for a plain wheel.
    :param variant_of: the file name of the plain wheel with the same content, for a variant wheel that has one.
    :param yanked: why it should not be chosen any more, perhaps empty; None for a wheel in good standing.
    :param about: what METADATA tells people; None where an older wheelsmith published it.
    :param side_files: suffix → sha256 of each file beside the wheel but METADATA.
    :param tests: the last of each machine and cell.
    """

    upload_time: str
    cells: tuple[Cell, ...] = ()
    requires_torch: str | None = None
    requires: tuple[str, ...] = ()
    provenance: Provenance | None = None
    variant: Variant | None = None
    variant_of: str | None = None
    yanked: str | None = None
    about: About | None = None
    # It is compared, but a table has no hash.
    side_files: dict[str, str] = field(default_factory=dict, hash=False)
    tests: tuple[WheelTest, ...] = ()

    @classmethod
    def of(cls, wheel: WheelRecord, **more: Any) -> Self:
        """Return the entry of a finished wheel."""
        known = {each.name: getattr(wheel, each.name) for each in fields(WheelRecord)}
        return cls(**{**known, "upload_time": "", **more})

    def __post_init__(self) -> None:
        """Refuse fields that nothing of ours would have written."""
        if (self.variant.label if self.variant else None) != _read_name(self.filename).label:
            raise ValueError(f"{self.filename} is listed with the variant {self.variant and self.variant.label!r}")
        if self.variant_of is not None:
            _read_name(self.variant_of)
        # Catalogues do not list the hash of METADATA.
        for text in (self.sha256, *filter(None, (self.metadata_sha256,)), *self.side_files.values()):
            _require(_HASH, text, "a sha256")
        # The hash of METADATA has a field of its own.
        if unknown := self.side_files.keys() - (side_files().keys() - {CORE_METADATA}):
            raise ValueError(f"this wheelsmith knows no {min(unknown)[:100]!r} beside a wheel")
        if not 0 <= self.size < _LARGEST:
            raise ValueError(f"{self.filename} cannot have that size")
        for cell in self.cells:
            _check_cell(cell)
        for text in self.requires:
            Requirement(text)
        for text in self.gpu_archs:
            parse_capability(text)

    def to_json(self) -> dict[str, Any]:
        """Return plain data, without side files and tests where there are none."""
        plain = WheelRecord.to_json(self)
        return {name: value for name, value in plain.items() if value or name not in {"side_files", "tests"}}

    @property
    def project(self) -> str:
        """Return the normalized project name."""
        return _read_name(self.filename).project

    @property
    def version(self) -> Version:
        """Return the version with its local part."""
        return _read_name(self.filename).version

    @property
    def public(self) -> Version:
        """Return the version without its local part."""
        return _public(self.filename)

    @property
    def outcome(self) -> WheelOutcome:
        """Return the worst result of its tests."""
        return outcome_of(self.tests)

    @property
    def key(self) -> tuple[str, str]:
        """Return its file name and hash: the same bytes may be there under several names."""
        return self.filename, self.sha256

    @property
    def path(self) -> str:
        """Return the wheel's path in the index."""
        return file_key(self.sha256, self.filename)

    @property
    def url(self) -> str:
        """Return the path as it stands in an address."""
        return in_address(self.path)

    @property
    def bundle(self) -> str | None:
        """Return where the signed statement of the wheel is, as it stands in an address; None if there is none."""
        found = (side.path for side in self.announced if side.kind.suffix == BUNDLE)
        return next(map(in_address, found), None)

    @property
    def roots(self) -> tuple[str, ...]:
        """Return the roots whose pages list the wheel: the one for all, and one for each compute platform it serves.

        A wheel whose cells all have ``advertise: false`` is listed nowhere. A variant wheel is in the root for all
        alone: it is what lets an installer choose the platform, and in the others that is done.
        """
        computes = {cell.compute for cell in self.cells if cell.settings.advertise}
        if not computes and self.cells:
            return ()
        return (EVERYTHING,) if self.variant else (EVERYTHING, *sorted(computes))

    @property
    def announced(self) -> tuple[Announced, ...]:
        """Return the files beside the wheel."""
        hashes = {CORE_METADATA: self.metadata_sha256, **self.side_files}
        return tuple(
            Announced(
                kind=(kind := side_files()[suffix]),
                filename=f"{self.filename}{suffix}",
                sha256=sha256,
                path=kind.key(self.path, self.filename, sha256),
            )
            for suffix, sha256 in hashes.items()
        )

    @property
    def paths(self) -> tuple[str, ...]:
        """Return the paths of the wheel and of the files beside it."""
        return (self.path, *(side.path for side in self.announced))

    def with_files(self, files: Mapping[str, bytes | None]) -> IndexEntry:
        """Return the entry with other files beside the wheel: suffix → content, None to remove one."""
        hashes = {suffix: hashlib.sha256(data).hexdigest() for suffix, data in files.items() if data is not None}
        metadata = hashes.pop(CORE_METADATA, self.metadata_sha256)
        kept = {suffix: sha256 for suffix, sha256 in self.side_files.items() if suffix not in files}
        return replace(self, metadata_sha256=metadata, side_files={**kept, **hashes})

    def with_more(self, offered: IndexEntry) -> IndexEntry:
        """Return the entry with the files that another one has besides.

        Files that belong to one signature stay together: nothing is taken of another signature.
        """
        known, more = self.side_files, offered.side_files
        if not known.keys().isdisjoint(SIGNATURES) and known.get(BUNDLE) != more.get(BUNDLE):
            more = {suffix: sha256 for suffix, sha256 in more.items() if suffix not in SIGNATURES}
        return replace(self, side_files={**more, **known})


class NoWheel(StrEnum):
    """Why a cell has no wheel."""

    FAILED = "failed"
    EXCLUDED = "excluded"


@dataclass(frozen=True, slots=True, kw_only=True)
class CellWithoutWheel(Record):
    """A cell that no wheel serves, and why.

    :param version: of the kernel, without a local part.
    :param reason: one sentence.
    :param tail: the last lines of a failed build's log.
    """

    cell: Cell
    version: str
    status: NoWheel
    reason: str
    tail: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse a cell or a version that is none."""
        _check_cell(self.cell)
        Version(self.version)


@dataclass(frozen=True, slots=True, kw_only=True)
class Removed(Record):
    """A wheel that was published and is listed no more: its name never gets other bytes."""

    filename: str
    sha256: str

    def __post_init__(self) -> None:
        """Refuse a name or a hash that is none."""
        _read_name(self.filename)
        _require(_HASH, self.sha256, "a sha256")

    @property
    def project(self) -> str:
        """Return the normalized project name."""
        return _read_name(self.filename).project

    @property
    def path(self) -> str:
        """Return where it lay in the index."""
        return file_key(self.sha256, self.filename)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedVersion(Record):
    """The cells for which a version is to have a wheel, as its matrix says.

    :param version: of the kernel, without a local part.
    :param cells: ids, sorted.
    :param excluded: those that a run left out with a reason, sorted.
    :param tried: those that a run tried to build, sorted.
    """

    version: str
    cells: tuple[str, ...]
    excluded: tuple[str, ...] = ()
    tried: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse a version that is none."""
        Version(self.version)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectState(Record):
    """All that an index knows of one project; its pages are made from nothing else.

    :param project: the normalized name (PEP 503).
    :param entries: sorted by file name.
    :param answers: for cells of the newest version that no wheel serves, sorted by cell.
    :param removed: sorted by file name; none of them is among the entries.
    :param planned: of the versions whose plan is known, the oldest first.
    :param address: of the index, with a slash at its end, for what pages must name by a whole address; None where it
        was not given.
    """

    project: str
    entries: tuple[IndexEntry, ...] = ()
    answers: tuple[CellWithoutWheel, ...] = ()
    status: ProjectStatus = ProjectStatus.ACTIVE
    status_reason: str | None = None
    removed: tuple[Removed, ...] = ()
    planned: tuple[PlannedVersion, ...] = ()
    address: str | None = None
    schema_version: int = SCHEMA_VERSION

    def __post_init__(self) -> None:
        """Refuse wheels of other projects."""
        if self.address is not None and check_address(self.address) != self.address:
            raise ValueError(f"{self.address[:100]!r} has no slash at its end")
        wheels: tuple[IndexEntry | Removed, ...] = (*self.entries, *self.removed)
        for each in wheels:
            if each.project != self.project:
                raise ValueError(f"{each.filename} is a wheel of {each.project}, not of {self.project}")

    def to_json(self) -> dict[str, Any]:
        """Return plain data, in the older schema where that can tell all of it."""
        plain = Record.to_json(self)
        if self.address is None:
            del plain["address"]
        if not self.planned:
            del plain["planned"]
        if self.address is None and not self.planned and not any(entry.tests for entry in self.entries):
            plain["schema_version"] = _BEFORE_TESTS
        return plain


def check_address(text: str) -> str:
    """Return the address of an index with a slash at its end.

    :raises ValueError: a page must not name it: it is neither https nor this machine's own.
    """
    if not _is_address(text):
        shown = repr(redact(text)[:100])
        raise ValueError(f"{shown} is not the address of an index: https://, a host, and perhaps a folder")
    return f"{text.rstrip('/')}/"


def check_root(name: str) -> None:
    """Refuse the name of a root that could not stand in a path.

    :raises ValueError: it could not.
    """
    _require(_WORD, name, "the name of a root")


def check_release(text: str) -> None:
    """Refuse a release that is not written as ``2.11``.

    :raises ValueError: it is not.
    """
    _require(_RELEASE, text, "a release such as 2.11")


def in_address(path: str) -> str:
    """Return a path as it stands in an address: some hosts read + as a space."""
    return path.replace("+", "%2B")


def _is_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    own = parts.scheme == "http" and parts.hostname in {"127.0.0.1", "localhost", "::1"}
    return bool(_ADDRESS.fullmatch(text) and (parts.scheme == "https" or own) and parts.hostname and not parts.username)


def _require(pattern: re.Pattern[str], text: str, what: str) -> None:
    if not pattern.fullmatch(text):
        raise ValueError(f"{text[:100]!r} is not {what}")


@lru_cache(maxsize=1 << 16)
def _read_name(filename: str) -> WheelName:
    _require(_FILE, filename, "the plain file name of a wheel")
    return read_wheel_name(filename)


@lru_cache(maxsize=1 << 16)
def _public(filename: str) -> Version:
    return Version(_read_name(filename).version.public)


@lru_cache(maxsize=1 << 12)
def _check_cell(cell: Cell) -> None:
    for text in filter(None, (cell.release, cell.python, cell.toolkit)):
        check_release(text)
    for text in (cell.arch, cell.os):
        _require(_WORD, text, "an architecture or a system")
    if cell.framework not in frameworks() or cell.platform not in platforms():
        raise ValueError(f"{cell.id[:100]!r} is for a framework or a compute platform that is not known")
