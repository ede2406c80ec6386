"""Join the wheels from the jobs of a pipeline into one index, and check each of them again."""

from __future__ import annotations

import math
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event as Flag

from wheelsmith.base.beneath import open_file
from wheelsmith.base.errors import ExitCode, PackageIndexError, Place, WheelError
from wheelsmith.base.files import atomic_write, read_bounded, sha256_file
from wheelsmith.base.json_dataclass import in_one_line
from wheelsmith.base.sanitize import visible
from wheelsmith.engine import choose
from wheelsmith.index.entries.stored_states import load_states
from wheelsmith.index.publish.publishing import requirement_notes
from wheelsmith.index.publish.run_index import publish_run
from wheelsmith.index.storage.folder import Folder
from wheelsmith.model import (
    BuildPlan,
    BuildResult,
    Failure,
    Listener,
    Notice,
    Status,
    WheelRecord,
)
from wheelsmith.model.build_host import AUTO
from wheelsmith.model.run_record import RESULTS, RunRecord
from wheelsmith.plan.planned_run import Build
from wheelsmith.plan.shards import ShardedPlan, shard_label
from wheelsmith.run.build import ActiveRun, announce_run, make_output_folder
from wheelsmith.run.executors import BuildRequest, KernelInputs, open_executor
from wheelsmith.run.result_collector import ResultCollector
from wheelsmith.run.schedule import BuildCosts
from wheelsmith.run.scratch import scratch
from wheelsmith.source.tree import SourceTree
from wheelsmith.store import Costs, Store
from wheelsmith.wheel.reader import WheelReader

_EXECUTOR = "local"
_NOT_BUILT = {Status.CACHED, Status.UPSTREAM}
_MAX_LOG = 64 << 20  # bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardResult:
    """The result of one cell, as a job reports it.

    :param folder: the job's output folder.
    :param cost: the seconds of one core that the build took; None if they are not known.
    """

    folder: Path
    result: BuildResult
    cost: float | None


class MissingShardsError(PackageIndexError):
    """Cells of a plan have no result."""

    exit_code = ExitCode.CELLS_FAILED


def read_shard_results(plan: ShardedPlan, folders: Sequence[Path]) -> dict[str, ShardResult]:
    """Return cell ID → the result that a job reports.

    :param folders: the jobs' output folders, or folders that contain them.
    :raises PackageIndexError: a folder belongs to another plan, or two belong to one shard.
    :raises MissingShardsError: a cell has no result.
    """
    found: dict[int, Path] = {}
    reported: dict[str, ShardResult] = {}
    digest = plan.digest
    for folder in _output_folders(folders):
        record = _read_record(folder)
        shard = record.shard
        if shard is None or shard.plan != digest or not 1 <= shard.number <= len(plan.shards):
            raise PackageIndexError(
                f"{folder} is not a shard of this plan", remedy="join folders that were built with this --shard-plan"
            )
        if known := found.get(shard.number):
            raise PackageIndexError(
                f"{known} and {folder} are both shard {shard_label(shard.number, plan.shards)}",
                remedy="join only the folder from the last run of each job",
            )
        found[shard.number] = folder
        for name in plan.shards[shard.number - 1].cells:
            if name in record.cells and (result := record.cells[name].result):
                reported[name] = ShardResult(folder=folder, result=_sanitized(result), cost=shard.costs.get(name))
    _require_results(plan, reported)
    return reported


def _output_folders(folders: Sequence[Path]) -> Iterator[Path]:
    """Yield the output folders of runs. A CI system may put those of several jobs into one folder."""
    for folder in folders:
        if not folder.is_dir():
            raise PackageIndexError(f"there is no folder {folder}")
        if (folder / RESULTS).exists():
            yield folder
            continue
        found = sorted(path.parent for path in folder.glob(f"*/{RESULTS}") if not path.parent.is_symlink())
        if not found:
            raise PackageIndexError(f"{folder} has no output of a job", remedy=f"use folders that contain {RESULTS}")
        yield from found


def _read_record(folder: Path) -> RunRecord:
    try:
        return RunRecord.read(folder)
    except (OSError, ValueError) as error:
        reason = f"it cannot be read: {in_one_line(error)}"
        raise PackageIndexError(reason, where=Place(file=str(folder / RESULTS))) from None


def _sanitized(result: BuildResult) -> BuildResult:
    """Return a result with printable texts and valid times."""
    failure = result.failure.escaped() if result.failure else None
    timings, built_in = (
        tuple(each for each in given if each.stage.isalpha() and 0 <= each.seconds < math.inf)
        for given in (result.timings, result.built_in)
    )
    return replace(result, failure=failure, timings=timings, built_in=built_in)


def _require_results(plan: ShardedPlan, reported: Mapping[str, ShardResult]) -> None:
    answered = {name for name, each in reported.items() if each.result.status is not Status.CANCELLED}
    missing = {
        shard_label(number, plan.shards): lost
        for number, shard in enumerate(plan.shards, 1)
        if (lost := [name for name in shard.cells if name not in answered])
    }
    if missing:
        named = "; ".join(f"shard {word}: {', '.join(lost)}" for word, lost in missing.items())
        again = " && ".join(f"wheelsmith build-matrix --shard {word}" for word in missing)
        raise MissingShardsError(f"some combinations have no result: {named}", remedy=f"run again: {again}")


def join(  # one parameter for each option
    plan: ShardedPlan,
    reported: Mapping[str, ShardResult],
    listen: Listener,
    cancel: Flag,
    *,
    out: Path,
    cache: Path,
    engine: str | None,
    jobs: int | None,
) -> RunRecord:
    """Check every wheel again, and publish all of them to one index in one step.

    A cell fails if its wheel is not the one that its job reports, or fails its check.

    :param reported: cell ID → the result that its job reports.
    :param out: the folder for the index, results and logs.
    :param cache: takes the costs of the builds, for the next ``plan --shards``, but not the wheels.
    :raises WheelsmithError: the output folder or the machine cannot be used.
    """
    make_output_folder(out)
    _record_costs(plan, reported, cache)
    chosen = choose(engine or AUTO, images=frozenset({None}), trusted=False, cache=cache).engine.name
    with announce_run(plan, chosen, listen, cancel) as run, scratch(cache / "work") as folder:
        store = Store(folder / "cache/store")
        to_check = _import_wheels(plan, reported, out / "logs", store, folder, run)
        work = BuildRequest(
            to_recheck=tuple(build.plan for build, _ in to_check.values()),
            kernels={
                each.cell.kernel or "": KernelInputs(source=SourceTree(id=each.source, files=())) for each in plan.plans
            },
            engine=chosen,
            cache=folder / "cache",
            folder=folder,
            logs=folder / "logs",
            jobs=jobs,
        )

        def checked(result: BuildResult) -> None:
            given = to_check[result.plan_digest][1]
            result = replace(result, log=given.log)
            if result.wheel and result.status is not Status.FOLDED:
                # The wheel was only checked here, so the status and the times of the build come from the job.
                status = given.status if given.status in _NOT_BUILT else Status.BUILT
                result = replace(result, status=status, timings=given.timings, built_in=given.built_in)
            run.finish(result)

        collector = ResultCollector((build for build, _ in to_check.values()), store, checked)
        open_executor(_EXECUTOR).build(work, listen=run, on_result=collector.take, cancel=cancel)
        if cancel.is_set():
            collector.cancel_rest()
        collector.fail_rest(_EXECUTOR)
        # Publish even after an interruption, so that the index has the wheels in results.json.
        if run.results:
            run.older_wheels = publish_run(plan.by_kernel(run.results), out=out, matrix="", store=store, work=folder)
            index = Folder(out / "index")
            wheels = [wheel for state in load_states(index).values() for wheel in state.entries]
            for text in requirement_notes(index, wheels):
                run(Notice(level="warning", text=text))
    return plan.record(run.results, interrupted=cancel.is_set(), older=run.older_wheels or ())


def _record_costs(plan: ShardedPlan, reported: Mapping[str, ShardResult], cache: Path) -> None:
    """Record what the builds took, for the next ``plan --shards``."""
    costs = Costs.in_cache(cache)
    known = {name: each.cost for name, each in reported.items() if each.cost is not None}
    BuildCosts(costs, (build.plan for build in plan.builds)).learn(known)
    costs.save()


def _import_wheels(
    plan: ShardedPlan, reported: Mapping[str, ShardResult], logs: Path, store: Store, folder: Path, run: ActiveRun
) -> dict[str, tuple[Build, BuildResult]]:
    """Copy the jobs' wheels into a store, and report the result of every cell without a wheel.

    :return: the builds to check: build digest → the build and its job's result.
    """
    to_check: dict[str, tuple[Build, BuildResult]] = {}
    with WheelReader() as reader:
        for number, build in enumerate(plan.builds):
            cell, digest = build.plan.cell, build.plan.build_digest
            given = reported[cell.id]
            log = _copy_log(given, cell.id, logs)
            result = replace(given.result, cell=cell, plan_digest=digest, log=log, untested=None)
            try:
                if result.wheel:
                    copy = _copy_wheel(given.folder / "wheels", result.wheel, folder / "given" / str(number))
                    _store_wheel(build.plan, copy, store, reader)
                    to_check[digest] = (build, result)
                    continue
            except WheelError as error:
                failure = Failure(stage="store", message=error.message, remedy=error.remedy).escaped()
                result = replace(result, status=Status.FAILED, wheel=None, failure=failure, built_in=())
            for answer in build.answers(result):
                run.finish(answer)
    return to_check


def _store_wheel(plan: BuildPlan, path: Path, store: Store, reader: WheelReader) -> None:
    """Put a job's wheel into a store.

    :raises WheelError: it cannot be read, or was not built from this plan.
    """
    recorded = reader.recorded_plan(path)
    if recorded is None or recorded.digest != plan.build_digest:
        raise WheelError(f"{path.name} was not built from this combination's plan")
    store.put(plan.build_digest, path, reader.facts(path).file)


def _copy_wheel(wheels: Path, wheel: WheelRecord, folder: Path) -> Path:
    """Copy a job's wheel and return the copy.

    :param folder: a scratch folder for this wheel only.
    :raises WheelError: it is missing, or not the one that the job reports.
    """
    name = wheel.filename
    if visible(name) != name or Path(name).name != name or not name.endswith(".whl"):
        raise WheelError(f"{visible(name)!r} is not the name of a wheel")
    if wheels.is_symlink():
        raise WheelError(f"{wheels} is a link")
    folder.mkdir(parents=True)
    copy = folder / name
    try:
        with open_file(wheels / name) as given:
            same = os.fstat(given.fileno()).st_size == wheel.size
            if same:
                with copy.open("xb") as file:
                    shutil.copyfileobj(given, file)
    except OSError as error:
        raise WheelError(f"{name} cannot be read: {error.strerror or error}") from None
    if not same or sha256_file(copy) != wheel.sha256:
        raise WheelError(f"{name} is not the wheel in the shard's {RESULTS}")
    return copy


def _copy_log(given: ShardResult, cell: str, logs: Path) -> str | None:
    """Copy a cell's log under the cell's name and return that name; None if there is no readable log."""
    name, folder = given.result.log, given.folder / "logs"
    if name is None or Path(name).name != name or folder.is_symlink():
        return None
    try:
        text = read_bounded(folder / name, _MAX_LOG).decode("utf-8", "replace")
    except (OSError, ValueError):
        return None
    own = f"{cell}.log"
    atomic_write(logs / own, "\n".join(map(visible, text.split("\n"))).encode())
    return own
