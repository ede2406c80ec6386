"""What is newer than a matrix: releases that wheelsmith knows, the kernel's revisions, and wheelsmith itself."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from packaging.version import Version

from wheelsmith import __version__
from wheelsmith.base.distribution import DISTRIBUTION, running_origin, upgrade_command
from wheelsmith.base.errors import WheelsmithError
from wheelsmith.base.json_dataclass import Record
from wheelsmith.frameworks import framework
from wheelsmith.matrix.edit import version_of
from wheelsmith.matrix.expand import expand
from wheelsmith.matrix.types import KernelRef, Matrix
from wheelsmith.model import NO_FRAMEWORK, Cell
from wheelsmith.plan.lock import Lock, lock_path, read_lock
from wheelsmith.platforms import platforms
from wheelsmith.source.references import list_references
from wheelsmith.source.sdist import newest_release

KERNEL = "kernel"
_TIMEOUT = 30.0  # seconds for all questions to repositories and indexes
_SHOWN = 12  # characters of a commit


@dataclass(frozen=True, slots=True, kw_only=True)
class Component(Record):
    """A framework, toolkit or source that a matrix uses, and the newest of its kind.

    :param current: the releases or the revision in the matrix.
    :param newest: None if it is not known.
    :param revision: the newest revision of a kernel, or the newest version of its sdist, if the matrix has another.
    :param command: takes the newest; None if the matrix has it.
    :param problem: the reason why the newest is not known.
    """

    name: str
    current: str
    newest: str | None = None
    revision: str | None = None
    command: str | None = None
    problem: str | None = None


def find_newer(matrices: Sequence[Matrix], file: Path) -> tuple[Component, ...]:
    """Return a row for each axis with releases, for each kernel and for wheelsmith.

    A repository or index that does not answer in time is a row with the reason.

    :param file: the matrix file.
    """
    lock, base = read_lock(lock_path(file)), file.resolve().parent
    questions: list[tuple[Component, Callable[[], Component]]] = []
    for kernel in (matrix for matrix in matrices if not matrix.kernel.path):
        row = Component(name=kernel.name or KERNEL, current=str(kernel.kernel.sdist or kernel.kernel.revision))
        locked = lock.of_kernel(kernel.name) if lock and kernel.name else lock
        questions.append((row, partial(_kernel_row, row, kernel.kernel, locked, base)))
    if (origin := running_origin()) and (not origin.url or origin.is_pinned_wheel):
        own = Component(name="wheelsmith", current=__version__)
        questions.append((own, partial(_own_row, own)))
    return (*_axis_rows(matrices), *_answers(questions))


def newest_on_axis(matrices: Sequence[Matrix], axis: str) -> str | None:
    """Return the newest release that wheelsmith knows for an axis.

    For CUDA it is the newest one that any torch release of a matrix can be combined with.
    """
    if axis in platforms():
        platform = platforms()[axis]
        for toolkit in reversed([*platform.toolkits()]):
            tried = (replace(matrix, computes=(platform.compute(toolkit),)) for matrix in matrices)
            if any(isinstance(answer, Cell) for matrix in tried for answer in expand(matrix)):
                return toolkit
        return None
    return [*framework(axis).releases()][-1]


def newest_kernel(kernel: KernelRef, base: Path) -> str:
    """Return the newest revision of a repository of the same kind, or the newest sdist as a requirement.

    :param base: the folder for relative paths.
    :raises SourceError: the repository or index cannot be reached.
    """
    if kernel.sdist:
        return _newest_sdist(kernel.sdist)
    return list_references(kernel, base).newest(str(kernel.revision))


def axes_of(matrices: Iterable[Matrix]) -> dict[str, tuple[str, ...]]:
    """Return the axes with releases, and their values in any matrix without ``cpu``."""
    axes: dict[str, dict[str, None]] = {}
    for matrix in matrices:
        if matrix.framework != NO_FRAMEWORK:
            axes.setdefault(matrix.framework, {}).update(dict.fromkeys(matrix.releases))
        for name, platform in platforms().items():
            if found := [version for compute in matrix.computes if (version := platform.version_of(compute))]:
                axes.setdefault(name, {}).update(dict.fromkeys(found))
    return {name: tuple(values) for name, values in axes.items()}


def is_newer(release: str, others: Sequence[str]) -> bool:
    """Return True if a release is newer than all others."""
    return all(Version(release) > version for other in others if (version := version_of(other)))


def _axis_rows(matrices: Sequence[Matrix]) -> Iterator[Component]:
    for axis, values in axes_of(matrices).items():
        newest = newest_on_axis(matrices, axis)
        command = f"wheelsmith bump {axis} {newest}" if newest and is_newer(newest, values) else None
        yield Component(name=axis, current=", ".join(values), newest=newest, command=command)


def _kernel_row(row: Component, kernel: KernelRef, lock: Lock | None, base: Path) -> Component:
    references = None if kernel.sdist else list_references(kernel, base)
    newest = references.newest(row.current) if references else _newest_sdist(row.current)
    if newest != row.current:
        revision = newest.rpartition("==")[2]
        return replace(row, newest=newest, revision=revision, command=f"wheelsmith bump {row.name} {revision}")
    commit, locked = references.commit(newest) if references else None, lock.source if lock else None
    if commit and locked and locked.revision == newest and locked.commit != commit:
        before, now = (f"{newest} ({each[:_SHOWN]})" for each in (locked.commit, commit))
        return replace(row, current=before, newest=now, command="wheelsmith lock --upgrade")
    return replace(row, newest=newest)


def _newest_sdist(requirement: str) -> str:
    name, _, version = requirement.partition("==")
    return f"{name}=={max(version, newest_release(name)[0], key=Version)}"


def _own_row(row: Component) -> Component:
    newest = newest_release(DISTRIBUTION)[1]
    return replace(row, newest=newest, command=upgrade_command() if Version(newest) > Version(row.current) else None)


def _answers(questions: Sequence[tuple[Component, Callable[[], Component]]]) -> Iterator[Component]:
    """Yield the answers to questions that are asked at the same time, or rows with the reasons why there are none."""
    found: dict[str, Component] = {}

    def ask(row: Component, question: Callable[[], Component]) -> None:
        try:
            found[row.name] = question()
        except WheelsmithError as error:
            found[row.name] = replace(row, problem=error.message)

    # Daemons do not keep the process from ending.
    threads = [threading.Thread(target=ask, args=each, daemon=True) for each in questions]
    for thread in threads:
        thread.start()
    end = time.monotonic() + _TIMEOUT
    for thread in threads:
        thread.join(max(end - time.monotonic(), 0))
    for row, _ in questions:
        yield found.get(row.name) or replace(row, problem="no answer in time")
