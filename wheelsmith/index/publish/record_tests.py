"""Record the test results from files of jobs in an index: all of them or none.

The files are untrusted, because a job runs code of the kernel.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import partial

from wheelsmith.base.errors import PackageIndexError, WheelTestError
from wheelsmith.base.json_dataclass import Record, in_one_line, read_json
from wheelsmith.base.sanitize import visible
from wheelsmith.index.entries.entry import IndexEntry, ProjectState, WheelOutcome, WheelTest, worst_tests
from wheelsmith.index.entries.state import project_of, record_test
from wheelsmith.index.entries.stored_states import load_existing_project
from wheelsmith.index.publish.writer import Index
from wheelsmith.index.storage.protocol import Storage

SCHEMA_VERSION = 1
MAX_SIZE = 1 << 20  # bytes of a file
_SHOWN = 200  # characters of a name


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedTest(WheelTest):
    """A test result of one wheel.

    :param wheel: file name of the wheel.
    :param sha256: hash of the wheel, which identifies it in an index.
    """

    wheel: str
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _File(Record):
    tests: tuple[RecordedTest, ...]
    schema_version: int


def dump_tests(tests: Iterable[RecordedTest]) -> bytes:
    """Return tests as JSON, for ``load_tests``."""
    file = _File(tests=tuple(tests), schema_version=SCHEMA_VERSION)
    return json.dumps(file.to_json(), indent=1).encode() + b"\n"


def load_tests(data: bytes, place: str) -> tuple[RecordedTest, ...]:
    """Read a file of test results.

    :param place: the source of the file, for error messages.
    :raises WheelTestError: the file does not have the format of ``dump_tests``.
    """
    remedy = "run the test again: wheelsmith test --output FILE, or wheelsmith test-matrix --out FOLDER"
    try:
        file = _File.from_json(read_json(data))
    except (ValueError, TypeError) as error:
        raise WheelTestError(f"{place} cannot be read: {in_one_line(error)}", remedy=remedy) from None
    if file.schema_version != SCHEMA_VERSION:
        raise WheelTestError(f"{place} cannot be read: its schema version is not {SCHEMA_VERSION}", remedy=remedy)
    if any(each.outcome is WheelOutcome.UNTESTED for each in file.tests):
        raise WheelTestError(f"{place} cannot be read: it has a test without a result", remedy=remedy)
    return file.tests


def record_tests(
    storage: Storage, files: Mapping[str, Iterable[RecordedTest]], only: Collection[IndexEntry] | None = None
) -> tuple[RecordedTest, ...]:
    """Record tests with one change of each project. Of several tests of one machine and cell, the worst counts.

    :param files: name of each file, for error messages → its tests.
    :param only: the wheels whose tests are accepted; None accepts all listed wheels.
    :return: the recorded tests, sorted by wheel.
    :raises WheelTestError: a wheel is not listed with that hash or is not accepted. Then nothing is recorded.
    """
    accepted = None if only is None else {entry.key for entry in only}
    by_project: dict[str, list[RecordedTest]] = {}
    for place, tests in files.items():
        for each in tests:
            project = _listed_project(storage, each, place)
            if accepted is not None and (each.wheel, each.sha256) not in accepted:
                raise WheelTestError(f"{place} tests {each.wheel}, which is not one of the built wheels")
            by_project.setdefault(project, []).append(each)
    worst = {
        project: worst_tests(tests, key=lambda each: (each.wheel, *each.machine_and_cell))
        for project, tests in sorted(by_project.items())
    }
    changes = {project: partial(_record, tests=tests) for project, tests in worst.items()}
    # Invalid changes must fail before anything is written.
    for project, change in changes.items():
        change(load_existing_project(storage, project))
    storage.transaction(lambda held: _change(held, changes))
    return tuple(each for tests in worst.values() for each in tests)


def _change(storage: Storage, changes: Mapping[str, Callable[[ProjectState], ProjectState]]) -> None:
    for project, change in changes.items():
        Index(storage).change(project, change)


def _listed_project(storage: Storage, test: RecordedTest, place: str) -> str:
    """Return the project of a wheel.

    :raises WheelTestError: the index does not list the wheel with this hash.
    """
    try:
        project = project_of(test.wheel)
        entries = load_existing_project(storage, project).entries
    except PackageIndexError as error:
        raise WheelTestError(f"{place}: {visible(error.message[:_SHOWN])}", remedy=error.remedy) from None
    if (test.wheel, test.sha256) not in {entry.key for entry in entries}:
        raise WheelTestError(
            f"{place} tests {visible(test.wheel[:_SHOWN])}, which {storage.name} does not list with that sha256",
            remedy="test a wheel from this index: wheelsmith test PROJECT --index URL",
        )
    return project


def _record(state: ProjectState, tests: Iterable[RecordedTest]) -> ProjectState:
    for each in tests:
        # Another writer may have removed it since.
        if (each.wheel, each.sha256) not in {entry.key for entry in state.entries}:
            raise WheelTestError(f"{each.wheel} is no longer listed")
        test = WheelTest(outcome=each.outcome, where=each.where, cell=each.cell, details=each.details)
        state = record_test(state, each.wheel, test)
    return state
