"""Record in an index what jobs say of wheels that they tested: all that they say, or nothing."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial

from wheelsmith.base.errors import PackageIndexError, WheelTestError
from wheelsmith.base.sanitize import visible
from wheelsmith.index.entries.entry import IndexEntry, ProjectState, worst_by
from wheelsmith.index.entries.recorded_tests import RecordedTest
from wheelsmith.index.entries.state import project_of, record_test
from wheelsmith.index.entries.stored_states import existing_project
from wheelsmith.index.publish.writer import Index
from wheelsmith.index.storage.protocol import Storage

_SHOWN = 200  # characters of a name


def record_tests(
    storage: Storage, said: Mapping[str, Iterable[RecordedTest]], only: Collection[IndexEntry] | None = None
) -> tuple[RecordedTest, ...]:
    """Record tests by one change of each project; where several tell of one machine and cell, the worst counts.

    :param said: the file that says it, for errors → what it says.
    :param only: the wheels that may be told of; None lets it be all that the index lists.
    :return: what was recorded, sorted by wheel.
    :raises WheelTestError: a wheel is not listed with that hash, or may not be told of; nothing is recorded then.
    """
    allowed = None if only is None else {(entry.filename, entry.sha256) for entry in only}
    by_project: dict[str, list[RecordedTest]] = {}
    for place, tests in said.items():
        for each in tests:
            project = _listed(storage, each, place)
            if allowed is not None and (each.wheel, each.sha256) not in allowed:
                raise WheelTestError(f"{place} tells of {each.wheel}, which is not one of those that were built")
            by_project.setdefault(project, []).append(each)
    worst = {project: worst_by(tests, key=_wheel_machine_and_cell) for project, tests in by_project.items()}
    # Refused before anything is written, where it is to be refused.
    changes = {project: partial(_recorded, tests=tests) for project, tests in sorted(worst.items())}
    for project, change in changes.items():
        change(existing_project(storage, project))
    storage.transaction(lambda held: _change(held, changes))
    return tuple(each for project in sorted(worst) for each in worst[project])


def _change(storage: Storage, changes: Mapping[str, Callable[[ProjectState], ProjectState]]) -> None:
    for project, change in changes.items():
        Index(storage).change(project, change)


def _listed(storage: Storage, said: RecordedTest, place: str) -> str:
    """Return the project of a wheel that an index lists with those bytes."""
    try:
        project = project_of(said.wheel)
        entries = existing_project(storage, project).entries
    except PackageIndexError as error:
        raise WheelTestError(f"{place}: {visible(error.message[:_SHOWN])}", remedy=error.remedy) from None
    if (said.wheel, said.sha256) not in {(entry.filename, entry.sha256) for entry in entries}:
        raise WheelTestError(
            f"{place} tells of {visible(said.wheel[:_SHOWN])}, which {storage.name} does not list with that sha256",
            remedy="test what is in this index: wheelsmith test PROJECT --index URL",
        )
    return project


def _wheel_machine_and_cell(each: RecordedTest) -> tuple[str, str, str]:
    return each.wheel, *each.test.machine_and_cell


def _recorded(state: ProjectState, tests: Iterable[RecordedTest]) -> ProjectState:
    for each in tests:
        # Somebody may have taken it off the pages since.
        here = any((entry.filename, entry.sha256) == (each.wheel, each.sha256) for entry in state.entries)
        if not here:
            raise WheelTestError(f"{each.wheel} is listed no more")
        state = record_test(state, each.wheel, each.test)
    return state
