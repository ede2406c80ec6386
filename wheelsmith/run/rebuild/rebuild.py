"""Build wheels again in a store of their own, and compare each with what was given."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp
from threading import Event as Flag

from wheelsmith.base.errors import WheelError
from wheelsmith.base.files import sha256_file
from wheelsmith.frameworks import read_local_version
from wheelsmith.model import (
    BuildPlan,
    BuildResult,
    CellFinished,
    Listener,
    RebuildAnswer,
    RunStarted,
    Verdict,
    read_wheel_name,
)
from wheelsmith.run.build import limits_of
from wheelsmith.run.executors import BuildOptions, BuildRequest, open_executor
from wheelsmith.run.rebuild.planning import Replanned, plans_of_matrix, plans_of_source
from wheelsmith.run.rebuild.published import LARGEST_WHEEL
from wheelsmith.run.rebuild.request import RebuildRequest, wheels_in
from wheelsmith.run.scratch import scratch
from wheelsmith.store import Store, StoredWheel, in_use
from wheelsmith.wheel.reader import WheelReader
from wheelsmith.wheel.recorded_plan import RecordedPlan
from wheelsmith.wheel.variant import make_variant
from wheelsmith.wheel.variant_format import variant_for, variant_version

_NO_PLAN = "it records no plan: it was not built by wheelsmith, or by one that recorded none"


def rebuild(request: RebuildRequest, listen: Listener, cancel: Flag) -> tuple[RebuildAnswer, ...]:
    """Return how each wheel stands to what its plan makes.

    Everything is compiled anew; nothing that was made before is taken, and nothing that is made stays.

    :raises WheelsmithError: nothing can be planned or built at all.
    """
    run = request.run
    with in_use(run.cache), scratch(run.cache / "work") as folder, WheelReader() as reader:
        recorded = {path: _recorded(path, reader) for path in wheels_in(request.places, folder / "given", listen)}
        known = [each for each in recorded.values() if isinstance(each, RecordedPlan)]
        if not known:
            return tuple(_not_rebuilt(path, None, (str(why),)) for path, why in recorded.items())
        source = request.source
        planned = plans_of_source(source, known, run, listen) if source else plans_of_matrix(run, listen)
        wanted = dict.fromkeys(each.digest for each in known if each.digest in planned.plans)
        cache = _own_cache(run.cache, folder)
        results = _build(wanted, planned, request, cache, listen, cancel)
        made = _BuiltAgain(results=results, store=Store(cache / "store"), work=folder)
        return tuple(_answer(path, each, planned, made, reader) for path, each in recorded.items())


def _recorded(path: Path, reader: WheelReader) -> RecordedPlan | str:
    """Return what a wheel records of its plan, as far as it is needed to find that one; or why that cannot be read."""
    found = _whole_record(path, reader)
    return found.head if isinstance(found, RecordedPlan) else found


def _whole_record(path: Path, reader: WheelReader) -> RecordedPlan | str:
    try:
        if path.is_file() and path.stat().st_size > LARGEST_WHEEL:
            return f"it has more than {LARGEST_WHEEL >> 30} GiB"
        return reader.recorded_plan(path) or _NO_PLAN
    except WheelError as error:
        return error.message


def _own_cache(shared: Path, folder: Path) -> Path:
    """Make a cache that shares only toolchains with other runs: those are proven, and what was compiled is not."""
    cache, toolchains = folder / "cache", shared / "prefix"
    cache.mkdir()
    toolchains.mkdir(parents=True, exist_ok=True)
    (cache / "prefix").symlink_to(toolchains.resolve())
    return cache


def _build(
    digests: Iterable[str],
    planned: Replanned,
    request: RebuildRequest,
    cache: Path,
    listen: Listener,
    cancel: Flag,
) -> dict[str, BuildResult]:
    plans = tuple(planned.plans[digest] for digest in digests)
    results: dict[str, BuildResult] = {}

    def answered(result: BuildResult) -> None:
        results[result.plan_digest] = result
        listen(CellFinished(result=result))

    if plans:
        label = f"{plans[0].wheel.distribution} {plans[0].wheel.version.partition('+')[0]}, built again"
        listen(RunStarted(kernel=label, engine=planned.engine.name, plans=plans, excluded=(), folded={}))
        for number, apart in enumerate(_of_different_cells(plans)):
            order = _order(apart, planned, request, cache, cache.parent / str(number))
            open_executor(request.run.executor).build(order, listen=listen, on_result=answered, cancel=cancel)
    return results


def _of_different_cells(plans: Iterable[BuildPlan]) -> list[tuple[BuildPlan, ...]]:
    """Part plans so that no two have one cell, as those of other compilers or versions do: builds are named so."""
    parts: list[dict[str, BuildPlan]] = []
    for plan in plans:
        part = next((each for each in parts if plan.cell.id not in each), None)
        if part is None:
            parts.append(part := {})
        part[plan.cell.id] = plan
    return [tuple(part.values()) for part in parts]


def _order(
    plans: tuple[BuildPlan, ...], planned: Replanned, request: RebuildRequest, cache: Path, folder: Path
) -> BuildRequest:
    run = request.run
    options = BuildOptions(
        limits=limits_of(planned.choice),
        jobs=run.jobs,
        cores_per_cell=run.cores_per_cell,
        builds=len(plans),
        memory=run.memory,
        test=None,
        force=True,
        reuse=False,
    )
    folder.mkdir()
    return BuildRequest(
        to_build=plans,
        to_recheck=(),
        options=options,
        source=planned.source,
        engine=planned.engine.name,
        cache=cache,
        folder=folder,
        logs=folder / "logs",
        fail_fast=False,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _BuiltAgain:
    """What was built again, by the digests of plans."""

    results: dict[str, BuildResult]
    store: Store
    work: Path

    def beside(self, given: Path, digest: str) -> Path | tuple[str, ...]:
        """Return the wheel to compare one with, or why there is none."""
        result, stored = self.results.get(digest), self.store.find(digest)
        if result is None or stored is None:
            failure = result.failure if result else None
            # Its log goes away with all else that was made.
            return (f"{failure.stage}: {failure.message}", *failure.tail) if failure else ("it was not built",)
        return self._variant(stored) if read_wheel_name(given.name).label else stored.path

    def _variant(self, stored: StoredWheel) -> Path | tuple[str, ...]:
        """Make of a plain wheel the one with a label, as publishing it does."""
        name = read_wheel_name(stored.path.name)
        version = variant_version(str(name.version))
        if version is None:
            return (f"of {stored.path.name} there is no variant",)
        variant = variant_for(read_local_version(name.version.local).compute or "", stored.wheel.gpu_archs)
        return make_variant(stored.path, variant, version, Path(mkdtemp(dir=self.work)))


def _answer(
    path: Path, recorded: RecordedPlan | str, planned: Replanned, made: _BuiltAgain, reader: WheelReader
) -> RebuildAnswer:
    if isinstance(recorded, str):
        return _not_rebuilt(path, None, (recorded,))
    if recorded.digest not in planned.plans:
        return _not_rebuilt(path, recorded.digest, planned.why_not(recorded, lambda: _whole_record(path, reader)))
    other = made.beside(path, recorded.digest)
    if isinstance(other, tuple):
        return _not_rebuilt(path, recorded.digest, other)
    sha256 = sha256_file(path)
    try:
        differences = tuple(reader.differences(path, other))
    except WheelError as error:  # of the one that was given: the other was checked
        differences = (error.message,)
    if not differences and sha256 != sha256_file(other):
        differences = ("it changed while it was compared",)
    return RebuildAnswer(
        wheel=path.name,
        sha256=sha256,
        plan=recorded.digest,
        verdict=Verdict.DIFFERENT if differences else Verdict.EQUAL,
        differences=differences,
    )


def _not_rebuilt(path: Path, plan: str | None, why: tuple[str, ...]) -> RebuildAnswer:
    # What is no plain file may have no end.
    readable = path.is_file() and path.stat().st_size <= LARGEST_WHEEL
    sha256 = sha256_file(path) if readable else ""
    return RebuildAnswer(wheel=path.name, sha256=sha256, plan=plan, verdict=Verdict.NOT_REBUILT, differences=why)
