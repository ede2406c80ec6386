"""A matrix planned by its lock, and a lock made of what a matrix was planned with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from packaging.utils import canonicalize_name

from wheelsmith.base.errors import MatrixError, Place, ToolchainError
from wheelsmith.base.offline import is_offline
from wheelsmith.base.redact import redact
from wheelsmith.matrix import KernelRef
from wheelsmith.model import BuildPlan, Excluded, Listener, LockedWheel, Notice
from wheelsmith.plan import Resolve
from wheelsmith.plan.lock import (
    IndexedWheel,
    Lock,
    LockedEnvironment,
    LockedSource,
    Question,
    differences,
    lock_path,
    pins_of,
    read_lock,
)
from wheelsmith.source import SourceTree
from wheelsmith.toolchain.wheel_lookup import FoundWheel, find_wheels

_REMEDY = "see what changed, then: wheelsmith lock --upgrade, or --upgrade-package NAME"


@dataclass(kw_only=True)
class EnvironmentResolver:
    """Says which wheels an environment is made of: those of the lock, else those that pip chooses.

    :param lock: None where there is none.
    :param ask: asks pip.
    :param answers: is filled with what was found.
    """

    lock: Lock | None
    ask: Resolve
    answers: dict[Question, tuple[LockedWheel, ...]] = field(default_factory=dict)

    def __call__(
        self, requirements: tuple[str, ...], python: str, arch: str, rather: tuple[str, ...] = ()
    ) -> tuple[LockedWheel, ...] | str:
        """Return the wheels, or why there are none."""
        question = Question(requirements=requirements, rather=rather, python=python, arch=arch)
        known = self.lock.answer(question) if self.lock else None
        found = tuple(each.wheel for each in known.wheels) if known else self.ask(requirements, python, arch, rather)
        if not isinstance(found, str):
            self.answers[question] = found
        return found


def lock_of(matrix: Path, *, must_be: bool) -> Lock | None:
    """Return the lock beside a matrix file; None where there is none.

    :param must_be: that there is none is an error.
    :raises MatrixError: it cannot be read, or is not there and must be.
    """
    path = lock_path(matrix)
    lock = read_lock(path)
    if lock is None and must_be:
        raise MatrixError("there is no lock to keep to", where=Place(file=path.name), remedy="wheelsmith lock")
    return lock


def locked_kernel(kernel: KernelRef, lock: Lock | None) -> KernelRef:
    """Return a kernel at the commit that was locked for what the matrix asks for."""
    source = lock.source if lock else None
    if source is None or not (kernel.hub or kernel.git):
        return kernel
    same = (source.kernel, source.revision) == (_named(kernel), kernel.revision)
    return replace(kernel, revision=source.commit) if same else kernel


def as_asked(source: SourceTree, kernel: KernelRef) -> SourceTree:
    """Return a source under the revision that the matrix asks for, whichever commit it was read at."""
    return replace(source, id=replace(source.id, revision=kernel.revision)) if kernel.revision else source


def locked_now(
    kernel: KernelRef, source: SourceTree, plans: Iterable[BuildPlan], answers: dict[Question, tuple[LockedWheel, ...]]
) -> Lock:
    """Return what a matrix was planned with; where indexes have the wheels is left out."""
    plans = tuple(plans)
    used = {(plan.project.environment, plan.project.python): plan.cell.id for plan in reversed(plans) if plan.project}
    named = Counter[str]()
    environments = []
    for question, wheels in answers.items():
        if name := used.get((wheels, question.python)):
            # Another cell may ask something else and get the same.
            own = f"{name}-{named[name]}" if named[name] else name
            named[name] += 1
            environments.append(LockedEnvironment(name=own, question=question, wheels=tuple(map(_nowhere, wheels))))
    return Lock(
        source=_source(kernel, source),
        cells=tuple(sorted(plan.cell.id for plan in plans)),
        pins=pins_of(plans),
        environments=tuple(sorted(environments, key=lambda environment: environment.name)),
    )


def warn_of_differences(lock: Lock, now: Lock, matrix: Path, listen: Listener) -> None:
    """Warn of all that is not as it was locked."""
    for difference in differences(lock, now):
        listen(Notice(level="warning", text=f"{lock_path(matrix).name}: {difference}"))


def keep_to_lock(lock: Lock, now: Lock, matrix: Path) -> None:
    """Refuse to go on where something is not as it was locked, or is not to be had any more.

    :raises MatrixError: with everything that is so.
    """
    # Offline nobody can say what an index has; what is used is compared with its hash.
    wrong = [*differences(lock, now), *(() if is_offline() else _gone(now))]
    if wrong:
        raise MatrixError("; ".join(wrong), where=Place(file=lock_path(matrix).name), remedy=_REMEDY)


def refuse_losses(before: Lock | None, excluded: Iterable[Excluded]) -> None:
    """Refuse to write a lock that lacks a cell for want of an index, say.

    :param before: what is locked now.
    :raises MatrixError: a cell is in it and cannot be planned any more.
    """
    known = set(before.cells if before else ())
    for item in excluded:
        if item.cell.id in known:
            raise MatrixError(f"{item.cell.id} was locked and cannot be planned now: {item.reason}")


def without_packages(lock: Lock, names: tuple[str, ...]) -> Lock:
    """Return a lock without the environments that have any of some packages.

    :raises MatrixError: none has one of them.
    """
    kept = list(lock.environments)
    for name in names:
        wanted = canonicalize_name(name)
        having = [each for each in lock.environments if any(wheel.name == wanted for wheel in each.wheels)]
        if not having:
            raise MatrixError(f"no environment that is locked has {name[:80]!r}")
        kept = [each for each in kept if each not in having]
    return replace(lock, environments=tuple(kept))


def with_places(now: Lock, known: Lock | None) -> Lock:
    """Return a lock that says where each wheel is, by what is known of it, or by asking.

    :raises ToolchainError: one is not to be had.
    """
    return replace(now, environments=tuple(_placed(each, known) for each in now.environments))


def _placed(environment: LockedEnvironment, known: Lock | None) -> LockedEnvironment:
    before = {each.wheel: each.url for old in (known.environments if known else ()) for each in old.wheels}
    wheels = tuple(each.wheel for each in environment.wheels)
    if not all(wheel in before for wheel in wheels):
        found = _look_up(environment)
        if isinstance(found, str):
            raise ToolchainError(f"the environment of {environment.name} cannot be locked: {found}")
        before |= {each.wheel: each.url for each in found}
    return replace(environment, wheels=tuple(replace(_nowhere(wheel), url=before[wheel]) for wheel in wheels))


def _gone(now: Lock) -> Iterable[str]:
    for environment in now.environments:
        found = _look_up(environment)
        if isinstance(found, str):
            yield f"{environment.name}: {found}"
            continue
        for each in found:
            if each.is_yanked:
                yield f"{each.wheel.name} {each.wheel.version} of {environment.name} was yanked"


def _look_up(environment: LockedEnvironment) -> tuple[FoundWheel, ...] | str:
    question = environment.question
    return find_wheels(tuple(each.wheel for each in environment.wheels), question.python, question.arch)


def _source(kernel: KernelRef, source: SourceTree) -> LockedSource | None:
    if source.id.commit is None:
        return None
    return LockedSource(kernel=_named(kernel), revision=kernel.revision, commit=source.id.commit, tree=source.id.tree)


def _named(kernel: KernelRef) -> str:
    for kind in ("hub", "git", "sdist", "path"):
        if place := getattr(kernel, kind):
            place = redact(place) if kind == "git" else place
            folder = f"#subdirectory={kernel.subdirectory}" if kernel.subdirectory else ""
            return f"{kind}:{place}{folder}"
    raise MatrixError("the matrix names no kernel")


def _nowhere(wheel: LockedWheel) -> IndexedWheel:
    return IndexedWheel(name=wheel.name, version=wheel.version, sha256=wheel.sha256, url="")
