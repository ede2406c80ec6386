"""Rebuild wheels from their recorded plans and compare them, so that users need not trust the builder."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from threading import Event as Flag

from wheelsmith.base.errors import WheelError
from wheelsmith.base.files import sha256_file
from wheelsmith.base.redact import file_name
from wheelsmith.base.units import show_binary_size
from wheelsmith.frameworks import read_local_version
from wheelsmith.index.publish.input_folders import wheels_of_folder
from wheelsmith.model import (
    BuildPlan,
    BuildResult,
    CellFinished,
    Listener,
    RebuildResult,
    RunStarted,
    Verdict,
    read_wheel_name,
)
from wheelsmith.run.build import build_limits
from wheelsmith.run.executors import BuildRequest, KernelInputs, open_executor
from wheelsmith.run.prepare import Request
from wheelsmith.run.published_wheels import MAX_WHEEL_SIZE, published_wheels
from wheelsmith.run.replan import NotRebuiltError, Replanned, plans_of_matrix, plans_of_source
from wheelsmith.run.scratch import scratch
from wheelsmith.store import Store, StoredWheel, in_use
from wheelsmith.wheel.reader import WheelReader
from wheelsmith.wheel.recorded_plan import RecordedPlan
from wheelsmith.wheel.relabel import relabel
from wheelsmith.wheel.variant import make_variant
from wheelsmith.wheel.variant_format import variant_for, variant_version

_ADDRESSES = ("https://", "http://")


def rebuild(
    places: Sequence[str], request: Request, source: str | None, listen: Listener, cancel: Flag
) -> tuple[RebuildResult, ...]:
    """Rebuild each wheel from its plan and compare the two.

    Everything is compiled again. The cache provides only toolchains, and the new wheels are not added to it.

    :param places: wheels, folders with wheels or an index, and addresses of indexes.
    :param request: the options: the matrix, the engine, the cache.
    :param source: the source in the form that ``init`` accepts; None reads the matrix.
    :raises WheelsmithError: no wheel can be planned or built.
    """
    with in_use(request.cache), scratch(request.cache / "work") as folder, WheelReader() as reader:
        answers: dict[Path, RebuildResult | None] = {}
        records: dict[Path, RecordedPlan] = {}
        for path in _wheels_in(places, folder / "given", listen):
            answers[path] = None
            try:
                records[path] = _read_record(path, reader).summary
            except WheelError as error:
                answers[path] = _not_rebuilt(path, None, error.message)
        if records:
            planned = (
                plans_of_source(source, records.values(), request, listen)
                if source
                else plans_of_matrix(request, listen)
            )
            results = _build(records.values(), planned, request, folder, listen, cancel)
            store = Store(folder / "cache/store")
            for path, recorded in records.items():
                find = partial(_rebuilt_wheel, path, results.get(recorded.digest), store.find(recorded.digest), folder)
                answers[path] = _compare(path, recorded, planned, find, reader)
        return tuple(answer for answer in answers.values() if answer)


def _wheels_in(places: Sequence[str], folder: Path, listen: Listener) -> tuple[Path, ...]:
    """Return the given wheels, and all wheels in the given folders and indexes.

    :param folder: an empty folder for downloads.
    :raises PackageIndexError: there is no wheel, or an index is incomplete.
    """
    found: dict[Path, None] = {}
    for number, place in enumerate(places):
        path = Path(place)
        if place.startswith(_ADDRESSES):
            found |= {each.path: None for each in published_wheels(place, folder / str(number), listen)}
        elif path.is_dir():
            found |= dict.fromkeys(wheels_of_folder(path))
        else:
            found[path] = None
    return tuple(found)


def _read_record(path: Path, reader: WheelReader) -> RecordedPlan:
    if path.is_file() and path.stat().st_size > MAX_WHEEL_SIZE:
        raise WheelError(f"it has more than {show_binary_size(MAX_WHEEL_SIZE)}")
    recorded = reader.recorded_plan(path)
    if recorded is None:
        raise WheelError("it records no plan: it was not built by wheelsmith, or by an old version")
    return recorded


def _rebuilt_wheel(given: Path, result: BuildResult | None, stored: StoredWheel | None, work: Path) -> Path:
    """Return the rebuilt wheel to compare with a given one.

    :param work: a folder for relabelled and variant wheels.
    :raises NotRebuiltError: there is none.
    """
    if result is None or stored is None:
        failure = result.failure if result else None
        # The log is removed with the scratch folder, so the reasons include its last lines.
        if failure is None:
            raise NotRebuiltError("it was not built")
        raise NotRebuiltError(f"{failure.stage}: {failure.message}", *failure.tail)
    named, name = read_wheel_name(given.name), read_wheel_name(stored.path.name)
    if not named.label:
        relabelled = name.version.local is not None and str(named.version) == name.version.public
        return relabel(stored.path, Path(tempfile.mkdtemp(dir=work))) if relabelled else stored.path
    # Make the variant wheel from the plain one, as publishing does.
    version = variant_version(str(name.version))
    if version is None:
        raise NotRebuiltError(f"{stored.path.name} has no variant wheel")
    variant = variant_for(read_local_version(name.version.local).compute or "", stored.wheel.gpu_archs)
    return make_variant(stored.path, variant, version, Path(tempfile.mkdtemp(dir=work)))


def _build(
    records: Iterable[RecordedPlan],
    planned: Replanned,
    request: Request,
    folder: Path,
    listen: Listener,
    cancel: Flag,
) -> dict[str, BuildResult]:
    """Return digest of a plan → the result of its build."""
    cache, results = _own_cache(request.cache, folder), dict[str, BuildResult]()
    wanted = dict.fromkeys(each.digest for each in records if each.digest in planned.plans)
    plans = tuple(planned.plans[digest] for digest in wanted)

    def finish(result: BuildResult) -> None:
        results[result.plan_digest] = result
        listen(CellFinished(result=result))

    if plans:
        label = f"{plans[0].wheel.distribution} {plans[0].wheel.version.partition('+')[0]}, rebuilt"
        listen(RunStarted(kernel=label, engine=planned.engine.name, plans=plans, excluded=(), folded={}))
        for number, part in enumerate(_with_distinct_cells(plans)):
            own = folder / str(number)
            own.mkdir()
            work = BuildRequest(
                to_build=part,
                kernels={name: KernelInputs(source=source) for name, source in planned.sources.items()},
                engine=planned.engine.name,
                cache=cache,
                folder=own,
                logs=own / "logs",
                limits=build_limits(planned.limits),
                jobs=request.jobs,
                cores_per_cell=request.cores_per_cell,
                memory=request.memory,
                force=True,
                reuse=False,
            )
            open_executor(request.executor).build(work, listen=listen, on_result=finish, cancel=cancel)
    return results


def _own_cache(shared: Path, folder: Path) -> Path:
    """Create a cache that shares only toolchains with other runs. Toolchains are verified, compiled objects are not."""
    cache, toolchains = folder / "cache", shared / "prefix"
    cache.mkdir()
    toolchains.mkdir(parents=True, exist_ok=True)
    (cache / "prefix").symlink_to(toolchains.resolve())
    return cache


def _with_distinct_cells(plans: Iterable[BuildPlan]) -> list[tuple[BuildPlan, ...]]:
    """Split plans into parts with distinct cells, because a build is named after its cell."""
    parts: list[dict[str, BuildPlan]] = []
    for plan in plans:
        part = next((each for each in parts if plan.cell.id not in each), None)
        if part is None:
            parts.append(part := {})
        part[plan.cell.id] = plan
    return [tuple(part.values()) for part in parts]


def _compare(
    path: Path, recorded: RecordedPlan, planned: Replanned, find: Callable[[], Path], reader: WheelReader
) -> RebuildResult:
    try:
        planned.require(recorded, lambda: _read_record(path, reader))
        other = find()
    except NotRebuiltError as error:
        return _not_rebuilt(path, recorded.digest, *error.reasons)
    except WheelError as error:
        return _not_rebuilt(path, recorded.digest, error.message)
    sha256 = sha256_file(path)
    try:
        differences = tuple(reader.differences(path, other))
    except WheelError as error:  # caused by the given wheel: the rebuilt one was checked
        differences = (error.message,)
    if not differences and sha256 != sha256_file(other):
        differences = ("it changed during the comparison",)
    return RebuildResult(
        wheel=path.name,
        sha256=sha256,
        plan=recorded.digest,
        verdict=Verdict.DIFFERENT if differences else Verdict.EQUAL,
        differences=differences,
    )


def _not_rebuilt(path: Path, plan: str | None, *reasons: str) -> RebuildResult:
    # Hashing a device or a pipe would never end.
    sha256 = sha256_file(path) if path.is_file() and path.stat().st_size <= MAX_WHEEL_SIZE else ""
    return RebuildResult(
        wheel=file_name(path), sha256=sha256, plan=plan, verdict=Verdict.NOT_REBUILT, differences=reasons
    )
