"""Records of an index: its wheels, the cells without one, and the state of each project.

States and catalogues may come from untrusted sources. Records therefore reject values that are unsafe in a path, on a
page or in a command.
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
from wheelsmith.index.entries.side_files import BUNDLE, CORE_METADATA, SIGNATURES, AnnouncedFile, file_key, side_files
from wheelsmith.model import NO_FRAMEWORK, Cell, SourceId, WheelName, WheelRecord, read_wheel_name
from wheelsmith.platforms import check_capability, platforms
from wheelsmith.wheel.variant_format import Variant

SCHEMA_VERSION = 6
# Versions for older releases of wheelsmith: of states without wheels on other hosts, without older wheels, and without
# tests and plans.
_SCHEMA_WITHOUT_URLS, _SCHEMA_WITHOUT_OLDER, _SCHEMA_WITHOUT_TESTS = 5, 4, 3
_NEWER_FIELDS = {"side_files", "tests", "older", "served_at", "cpu_features"}
EVERYTHING = "simple"  # the root that lists every wheel
_MAX_SIZE = 1 << 50  # bytes
_HASH = re.compile(r"[0-9a-f]{64}")
_FILE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.!+-]{0,250}\.whl")
_RELEASE = re.compile(r"\d{1,4}\.\d{1,4}(\.\d{1,4}((a|b|rc)\d{1,4}|\.dev\d{1,12}))?", re.ASCII)
_WORD = re.compile(r"[a-z0-9][a-z0-9_]{0,30}")
_ROOT = re.compile(rf"{_WORD.pattern}(\.\d{{1,3}})?")  # with a release, e.g. rocm7.2
_CELL = re.compile(r"[a-z0-9][a-z0-9_.-]{0,120}")
_ADDRESS_PATTERN = re.compile(r"https?://[A-Za-z0-9.:\[\]-]{1,260}(/[A-Za-z0-9._~%+-]+)*/?", re.ASCII)


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
    """The inputs of a wheel's build.

    :param cell: id of the cell that the wheel was compiled for. A shared wheel serves other cells, too.
    :param toolkit: version of the CUDA toolkit, e.g. ``13.0``; None for a CPU build.
    :param compiler: name and version of the host compiler, as the compiler prints them; ``upstream`` if the kernel's
        maker compiled it.
    :param image: digest of the container image.
    :param plan_digest: sha256 of all inputs that determine the wheel's bytes.
    :param wheelsmith: version of wheelsmith that built the wheel.
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
    """A recorded test result of a wheel.

    :param where: description of the machine, e.g. ``H200, driver 580``.
    :param cell: id of the tested cell; None if it was not recorded.
    :param details: URL with details.
    """

    outcome: WheelOutcome
    where: str
    cell: str | None = None
    details: str | None = None

    def __post_init__(self) -> None:
        """Reject values that are unsafe on a page."""
        check_line(self.where)
        if self.details is not None:
            check_link(self.details)
        if self.cell is not None:
            _check_pattern(_CELL, self.cell, "the id of a cell")

    @property
    def machine_and_cell(self) -> tuple[str, str]:
        """Return the key of the result. An entry keeps one result for each key."""
        return self.where, self.cell or ""


_Test = TypeVar("_Test", bound=WheelTest)


def outcome_of(tests: Iterable[WheelTest]) -> WheelOutcome:
    """Return the worst result of the tests."""
    found = {test.outcome for test in tests}
    worst = (WheelOutcome.FAILED, WheelOutcome.FLAKY, WheelOutcome.PASSED)
    return next((each for each in worst if each in found), WheelOutcome.UNTESTED)


def worst_tests(tests: Iterable[_Test], key: Callable[[_Test], tuple[str, ...]]) -> tuple[_Test, ...]:
    """Return the worst test of each key, sorted by key. The first of equal tests wins."""
    worst: dict[tuple[str, ...], _Test] = {}
    for test in tests:
        known = worst.setdefault(key(test), test)
        if outcome_of((known, test)) is not known.outcome:
            worst[key(test)] = test
    return tuple(worst[each] for each in sorted(worst))


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexEntry(WheelRecord):
    """A wheel in an index.

    :param upload_time: UTC, ``yyyy-mm-ddThh:mm:ssZ``; empty before the wheel is published.
    :param cells: every cell that the wheel serves. May be empty for a wheel that wheelsmith did not build.
    :param requires_torch: versions of torch that METADATA requires, e.g. ``==2.11.*``; None if torch is not required.
    :param requires: the other requirements in METADATA, without extras.
    :param variant: the machine properties that a variant wheel needs; None for a plain wheel.
    :param variant_of: file name of the plain wheel with the same content, if the wheel is a variant of one.
    :param yanked: reason of the yank, may be empty; None for a wheel that is not yanked.
    :param about: summary, licence and links from METADATA; None if an older wheelsmith published the wheel.
    :param side_files: suffix → sha256 of each side file, except METADATA.
    :param tests: the latest result of each machine and cell.
    :param older: True if the source of the run that wrote the index differs from the wheel's.
    :param served_at: URL of the wheel if it is not served at its path in the index.
    :param cpu_features: instructions that some of its code uses and not every CPU has, e.g. ``avx512f``.
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
    # Part of comparisons, but not of the hash, because a dict is not hashable.
    side_files: dict[str, str] = field(default_factory=dict, hash=False)
    tests: tuple[WheelTest, ...] = ()
    older: bool = False
    served_at: str | None = None
    cpu_features: tuple[str, ...] = ()

    @classmethod
    def of(cls, wheel: WheelRecord, **more: Any) -> Self:
        """Return the entry of a finished wheel.

        :param more: fields that are not in ``WheelRecord``.
        """
        known = {each.name: getattr(wheel, each.name) for each in fields(WheelRecord)}
        return cls(**{**known, "upload_time": "", **more})

    def __post_init__(self) -> None:
        """Reject values that wheelsmith never writes."""
        if (self.variant.label if self.variant else None) != _read_name(self.filename).label:
            raise ValueError(f"{self.filename} is listed with the variant {self.variant and self.variant.label!r}")
        if self.variant_of is not None:
            _read_name(self.variant_of)
        # Catalogues do not list the hash of METADATA.
        for text in (self.sha256, *filter(None, (self.metadata_sha256,)), *self.side_files.values()):
            _check_pattern(_HASH, text, "a sha256")
        # The hash of METADATA is in metadata_sha256.
        if unknown := self.side_files.keys() - (side_files().keys() - {CORE_METADATA}):
            raise ValueError(f"{min(unknown)[:100]!r} is not a known suffix of side files")
        if not 0 <= self.size < _MAX_SIZE:
            raise ValueError(f"{self.filename} has an invalid size")
        if self.served_at is not None and not _is_url_of(self.served_at, self.filename):
            raise ValueError(f"{redact(self.served_at)[:100]!r} is not a URL of {self.filename}")
        for cell in self.cells:
            _check_cell(cell)
        for text in self.requires:
            Requirement(text)
        for text in self.gpu_archs:
            check_capability(text)

    def to_json(self) -> dict[str, Any]:
        """Return plain data. The newer fields are omitted if they are empty."""
        plain = WheelRecord.to_json(self)
        return {name: value for name, value in plain.items() if value or name not in _NEWER_FIELDS}

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
        return _public_version(self.filename)

    @property
    def outcome(self) -> WheelOutcome:
        """Return the worst result of the wheel's tests."""
        return outcome_of(self.tests)

    @property
    def key(self) -> tuple[str, str]:
        """Return the file name and the hash. An index may list the same bytes under several names."""
        return self.filename, self.sha256

    @property
    def path(self) -> str:
        """Return the wheel's path in the index."""
        return file_key(self.sha256, self.filename)

    @property
    def url(self) -> str:
        """Return the path, quoted for a URL, or the URL of a wheel on another host."""
        return self.served_at or quote_path(self.path)

    @property
    def bundle(self) -> str | None:
        """Return the path of the wheel's signed statement, quoted for a URL; None if the wheel is not signed."""
        found = (side.path for side in self.announced if side.kind.suffix == BUNDLE)
        return next(map(quote_path, found), None)

    @property
    def roots(self) -> tuple[str, ...]:
        """Return the roots that list the wheel: ``simple``, and one for each compute platform that it serves.

        A wheel whose cells all have ``advertise: false`` is on no root. A variant wheel is on ``simple`` only: its
        installer selects the platform, while each other root is for one platform.
        """
        computes = {cell.compute for cell in self.cells if cell.settings.advertise}
        if not computes and self.cells:
            return ()
        return (EVERYTHING,) if self.variant else (EVERYTHING, *sorted(computes))

    @property
    def announced(self) -> tuple[AnnouncedFile, ...]:
        """Return the side files of the wheel, including METADATA."""
        hashes = {CORE_METADATA: self.metadata_sha256, **self.side_files}
        return tuple(
            AnnouncedFile(
                kind=(kind := side_files()[suffix]),
                filename=f"{self.filename}{suffix}",
                sha256=sha256,
                path=kind.key(self.path, self.filename, sha256),
            )
            for suffix, sha256 in hashes.items()
        )

    @property
    def paths(self) -> tuple[str, ...]:
        """Return the paths of the wheel and of its side files."""
        return (self.path, *(side.path for side in self.announced))

    def with_files(self, files: Mapping[str, bytes | None]) -> IndexEntry:
        """Return a copy with changed side files.

        :param files: suffix → content, or None to remove the file.
        """
        hashes = {suffix: hashlib.sha256(data).hexdigest() for suffix, data in files.items() if data is not None}
        metadata = hashes.pop(CORE_METADATA, self.metadata_sha256)
        kept = {suffix: sha256 for suffix, sha256 in self.side_files.items() if suffix not in files}
        return replace(self, metadata_sha256=metadata, side_files={**kept, **hashes})

    def with_missing_files(self, offered: IndexEntry) -> IndexEntry:
        """Return a copy with the additional side files of another entry.

        The files of one signature stay together. If the two have different signatures, no signature file is added.
        """
        files, offered_files = self.side_files, offered.side_files
        if not files.keys().isdisjoint(SIGNATURES) and files.get(BUNDLE) != offered_files.get(BUNDLE):
            offered_files = {suffix: sha256 for suffix, sha256 in offered_files.items() if suffix not in SIGNATURES}
        return replace(self, side_files={**offered_files, **files})


class NoWheel(StrEnum):
    """The reason that a cell has no wheel."""

    FAILED = "failed"
    EXCLUDED = "excluded"


@dataclass(frozen=True, slots=True, kw_only=True)
class CellWithoutWheel(Record):
    """A cell without a wheel, and the reason.

    :param version: version of the kernel, without a local part.
    :param reason: one sentence.
    :param tail: last lines of the log of a failed build.
    """

    cell: Cell
    version: str
    status: NoWheel
    reason: str
    tail: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Reject an invalid cell or version."""
        _check_cell(self.cell)
        Version(self.version)


@dataclass(frozen=True, slots=True, kw_only=True)
class Removed(Record):
    """A wheel that was removed from the index. Its file name cannot be reused for other bytes."""

    filename: str
    sha256: str

    def __post_init__(self) -> None:
        """Reject an invalid file name or hash."""
        _read_name(self.filename)
        _check_pattern(_HASH, self.sha256, "a sha256")

    @property
    def project(self) -> str:
        """Return the normalized project name."""
        return _read_name(self.filename).project

    @property
    def path(self) -> str:
        """Return the path that the wheel had in the index."""
        return file_key(self.sha256, self.filename)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedVersion(Record):
    """The cells for which a version should have a wheel, according to its matrix.

    :param version: version of the kernel, without a local part.
    :param cells: ids of the cells, sorted.
    :param excluded: ids of the cells that a run excluded, sorted.
    :param tried: ids of the cells that a run tried to build, sorted.
    """

    version: str
    cells: tuple[str, ...]
    excluded: tuple[str, ...] = ()
    tried: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Reject an invalid version."""
        Version(self.version)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectState(Record):
    """The state of one project in an index. Its pages are rendered from the state and from METADATA of its wheels.

    :param project: the normalized name (PEP 503).
    :param entries: the wheels, sorted by file name.
    :param answers: the cells of the newest version without a wheel, sorted by cell.
    :param removed: removed wheels, sorted by file name. None of them is in ``entries``.
    :param planned: the planned cells of each version with a known plan, oldest version first.
    :param address: URL of the index with a trailing slash, for links that must be absolute; None if it is not known.
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
        """Reject an invalid address and wheels of other projects."""
        if self.address is not None and check_address(self.address) != self.address:
            raise ValueError(f"{self.address[:100]!r} does not end with a slash")
        wheels: tuple[IndexEntry | Removed, ...] = (*self.entries, *self.removed)
        for each in wheels:
            if each.project != self.project:
                raise ValueError(f"{each.filename} is a wheel of {each.project}, not of {self.project}")

    @property
    def current(self) -> tuple[IndexEntry, ...]:
        """Return the wheels without those of an older source."""
        return tuple(entry for entry in self.entries if not entry.older)

    def to_json(self) -> dict[str, Any]:
        """Return plain data. The older schema is used if it can express the state."""
        plain = Record.to_json(self)
        if self.address is None:
            del plain["address"]
        if not self.planned:
            del plain["planned"]
        if not any(entry.served_at for entry in self.entries):
            plain["schema_version"] = _SCHEMA_WITHOUT_URLS
        if not any(entry.older or entry.served_at for entry in self.entries):
            has_notes = self.address is not None or self.planned or any(entry.tests for entry in self.entries)
            plain["schema_version"] = _SCHEMA_WITHOUT_OLDER if has_notes else _SCHEMA_WITHOUT_TESTS
        return plain


def check_address(text: str) -> str:
    """Return the URL of an index with a trailing slash.

    :raises ValueError: the URL is neither https nor http on this machine, or has other parts than host and path.
    """
    if not _is_address(text):
        shown = repr(redact(text)[:100])
        raise ValueError(f"{shown} is not the address of an index: it must be https://HOST/ or https://HOST/FOLDER/")
    return f"{text.rstrip('/')}/"


def check_root(name: str) -> None:
    """Check that the name of a root is safe in a path.

    :raises ValueError: it is not.
    """
    _check_pattern(_ROOT, name, "the name of a root")


def check_release(text: str) -> None:
    """Check that a release has the form ``2.11``, or that of a pre-release, ``2.16.0rc2``.

    :raises ValueError: it does not.
    """
    _check_pattern(_RELEASE, text, "a release such as 2.11")


def quote_path(path: str) -> str:
    """Quote a path for a URL. Some hosts read ``+`` as a space."""
    return path.replace("+", "%2B")


def _is_url_of(text: str, filename: str) -> bool:
    """Return True if an installer finds a file of this name at a URL."""
    address, slash, name = text.rpartition("/")
    return _is_address(address + slash) and name == quote_path(filename)


def _is_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    is_local = parts.scheme == "http" and parts.hostname in {"127.0.0.1", "localhost", "::1"}
    is_secure = parts.scheme == "https" or is_local
    return bool(_ADDRESS_PATTERN.fullmatch(text) and is_secure and parts.hostname and not parts.username)


def _check_pattern(pattern: re.Pattern[str], text: str, what: str) -> None:
    if not pattern.fullmatch(text):
        raise ValueError(f"{text[:100]!r} is not {what}")


@lru_cache(maxsize=1 << 16)
def _read_name(filename: str) -> WheelName:
    _check_pattern(_FILE, filename, "the plain file name of a wheel")
    return read_wheel_name(filename)


@lru_cache(maxsize=1 << 16)
def _public_version(filename: str) -> Version:
    return Version(_read_name(filename).version.public)


@lru_cache(maxsize=1 << 12)
def _check_cell(cell: Cell) -> None:
    for text in filter(None, (cell.release, cell.python, cell.toolkit)):
        check_release(text.removesuffix("t") if text == cell.python else text)
    for text in (cell.arch, cell.os):
        _check_pattern(_WORD, text, "an architecture or a system")
    if cell.framework not in {*frameworks(), NO_FRAMEWORK} or cell.platform not in platforms():
        raise ValueError(f"{cell.id[:100]!r} has an unknown framework or compute platform")
