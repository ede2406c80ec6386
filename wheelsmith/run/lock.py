"""Plan with a lock file, and create one from the inputs of a planned matrix."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from packaging.utils import canonicalize_name

from wheelsmith.base.errors import MatrixError, NoEnvironmentError, Place, ToolchainError
from wheelsmith.base.offline import is_offline
from wheelsmith.base.redact import redact
from wheelsmith.matrix.types import KernelRef
from wheelsmith.model import BuildPlan, Excluded, Listener, LockedWheel, Notice
from wheelsmith.plan.lock import (
    EnvironmentRequest,
    IndexedWheel,
    Lock,
    LockedEnvironment,
    LockedSource,
    differences,
    lock_path,
    pins_of,
    read_lock,
)
from wheelsmith.source.tree import SourceTree
from wheelsmith.toolchain import Toolchains
from wheelsmith.toolchain.prefixes import Answer
from wheelsmith.toolchain.resolve import FoundWheel

_REMEDY = "review the changes; wheelsmith lock adds what is new, lock --upgrade also takes what changed"


@dataclass(kw_only=True)
class LockedInputs:
    """The source and the build environments of a matrix, from the lock file if it has them.

    :param kernel: the kernel as the matrix names it.
    :param lock: None if there is no lock file.
    :param toolchains: choose the wheels of environments that are not locked.
    :param refresh: choose them again, even if the cache has a result.
    :param nightly: the version of torch that ``nightly`` in the matrix stands for.
    :param strict: fail if an input differs from the lock file or is no longer available.
    """

    kernel: KernelRef
    lock: Lock | None
    toolchains: Toolchains
    refresh: bool = False
    strict: bool = False
    nightly: str | None = None
    _answers: dict[EnvironmentRequest, Answer] = field(default_factory=dict)

    @property
    def kernel_to_fetch(self) -> KernelRef:
        """Return the kernel to fetch: at its locked commit, or with ``strict`` at the newest one, to compare them."""
        source = self.lock.source if self.lock and not self.strict else None
        if source is None or not (self.kernel.hub or self.kernel.git):
            return self.kernel
        same = (source.kernel, source.revision) == (_kernel_name(self.kernel), self.kernel.revision)
        return replace(self.kernel, revision=source.commit) if same else self.kernel

    def resolve_all(self, requests: Iterable[EnvironmentRequest]) -> None:
        """Choose the wheels of several environments at the same time."""
        locked = {each: self.lock.find(each) if self.lock else None for each in requests if each not in self._answers}
        new = [request for request, known in locked.items() if known is None]
        answers = dict(zip(new, self.toolchains.lock_all(new, refresh=self.refresh), strict=True))
        for request, known in locked.items():
            self._answers[request] = tuple(each.wheel for each in known.wheels) if known else answers[request]

    def resolve(
        self, requirements: tuple[str, ...], python: str, arch: str, rather: tuple[str, ...] = ()
    ) -> tuple[LockedWheel, ...]:
        """Return the wheels of an environment.

        :raises NoEnvironmentError: there are none.
        """
        request = EnvironmentRequest(requirements=requirements, rather=rather, python=python, arch=arch)
        self.resolve_all([request])
        answer = self._answers[request]
        if isinstance(answer, NoEnvironmentError):
            raise answer
        return answer

    def new_lock(self, source: SourceTree, plans: tuple[BuildPlan, ...]) -> Lock:
        """Return the lock file for some plans. Its wheels have no addresses yet."""
        users = {
            (plan.project.environment, plan.project.python): plan.cell.id for plan in reversed(plans) if plan.project
        }
        times_used = Counter[str]()
        environments = []
        for request, wheels in self._answers.items():
            if isinstance(wheels, tuple) and (name := users.get((wheels, request.python))):
                # Requests of several cells may resolve to the same environment.
                own = f"{name}-{times_used[name]}" if times_used[name] else name
                times_used[name] += 1
                environments.append(
                    LockedEnvironment(name=own, request=request, wheels=tuple(map(_without_address, wheels)))
                )
        return Lock(
            source=self._source(source),
            cells=tuple(sorted(plan.cell.id for plan in plans)),
            pins=pins_of(plans),
            upstream={plan.cell.id: plan.source.tree for plan in plans if plan.repacked},
            nightly=self.nightly,
            environments=tuple(sorted(environments, key=lambda environment: environment.name)),
        )

    def _source(self, source: SourceTree) -> LockedSource | None:
        if source.id.commit is None:
            return None
        return LockedSource(
            kernel=_kernel_name(self.kernel),
            revision=self.kernel.revision,
            commit=source.id.commit,
            tree=source.id.tree,
        )

    def check(
        self, source: SourceTree, plans: tuple[BuildPlan, ...], matrix: Path, listen: Listener, kernel: str = ""
    ) -> None:
        """Warn about every difference from the lock file, or fail if ``strict`` is set.

        :param kernel: the name of the kernel in a file with several.
        :raises MatrixError: an input differs; the error lists all differences.
        """
        if self.lock is None:
            return
        used = self.new_lock(source, plans)
        found = differences(self.lock, used)
        if not self.strict:
            for difference in found:
                listen(Notice(level="warning", text=f"{lock_path(matrix).name}: {difference}"))
            return
        # Indexes are not available offline. Files are verified by their hashes when they are used.
        wrong = [*found, *(() if is_offline() else _unavailable(used, self.toolchains))]
        if wrong:
            text = f"{kernel}: {'; '.join(wrong)}" if kernel else "; ".join(wrong)
            raise MatrixError(text, where=Place(file=lock_path(matrix).name), remedy=_REMEDY)


def required_lock(matrix: Path) -> Lock:
    """Return the lock file of a matrix.

    :raises MatrixError: there is none, or it cannot be read.
    """
    path = lock_path(matrix)
    lock = read_lock(path)
    if lock is None:
        raise MatrixError("there is no lock file", where=Place(file=path.name), remedy="create it: wheelsmith lock")
    return lock


def reject_dropped_cells(before: Lock | None, excluded: Iterable[Excluded]) -> None:
    """Refuse to drop a cell from a lock file, for instance because an index does not respond.

    :param before: the existing lock file.
    :raises MatrixError: a locked cell cannot be planned any more.
    """
    known = set(before.cells if before else ())
    for item in excluded:
        if item.cell.id in known and not item.waits:
            raise MatrixError(f"{item.cell.id} was locked and cannot be planned now: {item.reason}")


def with_waiting(updated: Lock, known: Lock, excluded: Iterable[Excluded]) -> Lock:
    """Keep the inputs of combinations that wait for another machine, which has locked them before.

    :param known: the existing lock file.
    """
    waiting = {item.cell.id: item.cell.arch for item in excluded if item.waits and item.cell.id in known.cells}
    if not waiting:
        return updated
    names, requests = {pin.name for pin in updated.pins}, {each.request for each in updated.environments}
    pins = (pin for pin in known.pins if pin.name not in names)
    others = (each for each in known.environments if each.request.arch in waiting.values())
    return replace(
        updated,
        cells=tuple(sorted({*updated.cells, *waiting})),
        pins=tuple(sorted((*updated.pins, *pins), key=lambda pin: pin.name)),
        environments=(*updated.environments, *(each for each in others if each.request not in requests)),
    )


def without_packages(lock: Lock, names: tuple[str, ...]) -> Lock:
    """Return a lock file without the environments that contain any of these packages.

    :raises MatrixError: no environment contains one of them.
    """
    kept = list(lock.environments)
    for name in names:
        wanted = canonicalize_name(name)
        containing = [each for each in lock.environments if any(wheel.name == wanted for wheel in each.wheels)]
        if not containing:
            raise MatrixError(f"no locked environment contains {name[:80]!r}")
        kept = [each for each in kept if each not in containing]
    return replace(lock, environments=tuple(kept))


def with_addresses(used: Lock, known: Lock | None, toolchains: Toolchains) -> Lock:
    """Return a lock file with the address of every wheel, from a known lock file or from the index.

    :raises ToolchainError: a wheel is not available.
    """
    before = {each.wheel: each for old in (known.environments if known else ()) for each in old.wheels}
    return replace(used, environments=tuple(_with_addresses(each, before, toolchains) for each in used.environments))


def _with_addresses(
    environment: LockedEnvironment, before: dict[LockedWheel, IndexedWheel], toolchains: Toolchains
) -> LockedEnvironment:
    wheels = tuple(each.wheel for each in environment.wheels)
    if all(wheel in before for wheel in wheels):
        return replace(environment, wheels=tuple(before[wheel] for wheel in wheels))
    try:
        found = _look_up(environment, toolchains)
    except NoEnvironmentError as error:
        raise ToolchainError(f"the environment of {environment.name} cannot be locked: {error.message}") from None
    return replace(
        environment, wheels=tuple(replace(_without_address(each.wheel), url=redact(each.address)) for each in found)
    )


def _unavailable(used: Lock, toolchains: Toolchains) -> Iterator[str]:
    for environment in used.environments:
        try:
            found = _look_up(environment, toolchains)
        except NoEnvironmentError as error:
            yield f"{environment.name}: {error.message}"
            continue
        for each in found:
            if each.is_yanked:
                yield f"{each.wheel.name} {each.wheel.version} of {environment.name} was yanked"


def _look_up(environment: LockedEnvironment, toolchains: Toolchains) -> tuple[FoundWheel, ...]:
    request = environment.request
    return toolchains.look_up(tuple(each.wheel for each in environment.wheels), request.python, request.arch)


def _kernel_name(kernel: KernelRef) -> str:
    for kind in ("hub", "git", "sdist", "path"):
        if place := getattr(kernel, kind):
            place = redact(place) if kind == "git" else place
            folder = f"#subdirectory={kernel.subdirectory}" if kernel.subdirectory else ""
            return f"{kind}:{place}{folder}"
    raise MatrixError("the matrix names no kernel")


def _without_address(wheel: LockedWheel) -> IndexedWheel:
    return IndexedWheel(name=wheel.name, version=wheel.version, sha256=wheel.sha256, url="")
