"""What an index knows of a project: its wheels, what became of the cells that have none, and its status."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol, TypeVar

from wheelsmith.base.json_dataclass import Record
from wheelsmith.index.entries.about import About
from wheelsmith.model import Cell, SourceId
from wheelsmith.wheel.variant_format import Variant

SCHEMA_VERSION = 4
# Of states that say nothing of tests and of what is planned; who knows no more reads them.
_BEFORE_TESTS = 3


def file_key(sha256: str, filename: str) -> str:
    """Return where a file lies in an index: under the hash of its content, so that it never changes."""
    return f"files/{sha256[:2]}/{sha256}/{filename}"


class ProjectStatus(StrEnum):
    """What a project's owner says of it (PEP 792)."""

    ACTIVE = "active"
    ARCHIVED = "archived"
    QUARANTINED = "quarantined"
    DEPRECATED = "deprecated"

    @property
    def takes_wheels(self) -> bool:
        """Say whether wheels may be added: archived and quarantined forbid it."""
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
    """What came of a wheel's tests."""

    PASSED = "passed"
    FAILED = "failed"
    FLAKY = "flaky"
    UNTESTED = "not tested"


@dataclass(frozen=True, slots=True, kw_only=True)
class WheelTest(Record):
    """What somebody's test of a wheel came to.

    :param where: the machine, in words, e.g. ``H200, driver 580``.
    :param cell: id of the cell whose torch was beside it; None where that is not said.
    :param details: an address that tells more.
    """

    outcome: WheelOutcome
    where: str
    cell: str | None = None
    details: str | None = None

    @property
    def machine_and_cell(self) -> tuple[str, str]:
        """Return what one word counts of."""
        return self.where, self.cell or ""


class HasOutcome(Protocol):
    """A test, of a wheel that is known or is named in it."""

    @property
    def outcome(self) -> WheelOutcome:
        """What it came to."""


_Test = TypeVar("_Test", bound=HasOutcome)


def outcome_of(tests: Iterable[HasOutcome]) -> WheelOutcome:
    """Return what tests come to: the worst of them."""
    found = {test.outcome for test in tests}
    worst = (WheelOutcome.FAILED, WheelOutcome.FLAKY, WheelOutcome.PASSED)
    return next((each for each in worst if each in found), WheelOutcome.UNTESTED)


def worst_by(tests: Iterable[_Test], key: Callable[[_Test], tuple[str, ...]]) -> tuple[_Test, ...]:
    """Return the worst test of each key, sorted by key; of those that are alike the first."""
    found: dict[tuple[str, ...], _Test] = {}
    for test in tests:
        before = found.setdefault(key(test), test)
        if outcome_of((before, test)) is not before.outcome:
            found[key(test)] = test
    return tuple(found[each] for each in sorted(found))


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexEntry(Record):
    """A wheel as the index offers it.

    :param upload_time: UTC, ``yyyy-mm-ddThh:mm:ssZ``.
    :param cells: every cell that the wheel serves; the compute platforms among them are its roots. A wheel that
        was not made by wheelsmith may name none, and is then in the root for everything alone.
    :param requires_torch: the versions of torch that METADATA asks for, e.g. ``==2.11.*``; None asks for none.
    :param requires: what else METADATA asks for, extras left out.
    :param gpu_archs: compute capabilities that are in the binary, e.g. ``8.0``, ``9.0+PTX``.
    :param variant: what a variant wheel needs of a machine; None for a plain wheel, which is all that pip reads.
    :param variant_of: the file name of the plain wheel that has the same content, for a variant wheel that has one.
    :param yanked: why it should not be chosen any more, perhaps empty; None for a wheel in good standing.
    :param about: what METADATA tells people; None where an older wheelsmith published it.
    :param side_files: suffix → sha256 of each file beside the wheel but METADATA.
    :param tests: the last of each machine and cell.
    """

    filename: str
    sha256: str
    size: int
    requires_python: str | None
    metadata_sha256: str
    upload_time: str
    cells: tuple[Cell, ...] = ()
    requires_torch: str | None = None
    requires: tuple[str, ...] = ()
    gpu_archs: tuple[str, ...] = ()
    provenance: Provenance | None = None
    variant: Variant | None = None
    variant_of: str | None = None
    yanked: str | None = None
    about: About | None = None
    # It is compared, but a table has no hash.
    side_files: dict[str, str] = field(default_factory=dict, hash=False)
    tests: tuple[WheelTest, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return plain data; a wheel with METADATA alone beside it is told as it was before there was anything else."""
        plain = Record.to_json(self)
        for name in ("side_files", "tests"):
            if not plain[name]:
                del plain[name]
        return plain

    @property
    def outcome(self) -> WheelOutcome:
        """Return what all of its tests come to."""
        return outcome_of(self.tests)

    @property
    def path(self) -> str:
        """Return the wheel's path in the index."""
        return file_key(self.sha256, self.filename)


class NoWheel(StrEnum):
    """Why a cell has no wheel."""

    FAILED = "failed"
    EXCLUDED = "excluded"


@dataclass(frozen=True, slots=True, kw_only=True)
class CellWithoutWheel(Record):
    """What became of a cell that no wheel serves.

    :param version: of the kernel, without a local part.
    :param reason: one sentence.
    :param tail: the last lines of a failed build's log.
    """

    cell: Cell
    version: str
    status: NoWheel
    reason: str
    tail: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Removed(Record):
    """A wheel that was published and is listed no more: its name never gets other bytes."""

    filename: str
    sha256: str

    @property
    def path(self) -> str:
        """Return where it lay in the index."""
        return file_key(self.sha256, self.filename)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedVersion(Record):
    """The cells that a version is to have a wheel for, as the matrix says that it is built from.

    :param version: of the kernel, without a local part.
    :param cells: ids, sorted.
    :param excluded: those that a run left out with a reason, sorted.
    :param tried: those that a run tried to build, sorted.
    """

    version: str
    cells: tuple[str, ...]
    excluded: tuple[str, ...] = ()
    tried: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectState(Record):
    """All that an index knows of one project; its pages are made from nothing else.

    :param project: the normalized name (PEP 503).
    :param entries: sorted by file name.
    :param answers: for cells of the newest version that no wheel serves, sorted by cell.
    :param removed: sorted by file name; none of them is among the entries.
    :param planned: of the versions of which somebody said so, the oldest first.
    :param address: of the index, with a slash at its end, for what pages must name by a whole address; None where
        nobody has told it.
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

    def to_json(self) -> dict[str, Any]:
        """Return plain data; what says nothing that is new is written as it was."""
        plain = Record.to_json(self)
        if self.address is None:
            del plain["address"]
        if not self.planned:
            del plain["planned"]
        if self.address is None and not self.planned and not any(entry.tests for entry in self.entries):
            plain["schema_version"] = _BEFORE_TESTS
        return plain
