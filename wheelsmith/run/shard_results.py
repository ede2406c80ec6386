"""What the jobs of a pipeline left, each in a folder: read as a stranger's word, and found whole or named."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wheelsmith.base.beneath import open_file
from wheelsmith.base.errors import ExitCode, PackageIndexError, Place, WheelError
from wheelsmith.base.files import atomic_write, read_bounded
from wheelsmith.base.json_dataclass import Record, in_one_line, read_json
from wheelsmith.base.sanitize import visible
from wheelsmith.model import Failure, Status, Timing, WheelFile
from wheelsmith.plan.shards import ShardedPlan, shard_word

RESULTS = "results.json"
# What results.json says of the shard that it is of.
SHARD = "shard"
# Bytes of results.json, for all that is in it and for each cell: of a failed one it has the end of its log.
_LONGEST, _FOR_EACH = 1 << 20, 64 << 10
_LARGEST = 4 << 30  # bytes of a wheel
_LONGEST_LOG = 64 << 20
_LOG = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,250}")
_STAGES = {"fetch", "compile", "build", "repair", "check", "test", "store", "internal"}
_MADE = {Status.BUILT, Status.CACHED, Status.FOLDED}
_LONGEST_STAGE = 1e7  # seconds
_LONGEST_WORD, _MOST_LINES = 2000, 100  # characters, and lines of a log's end


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardName(Record):
    """Which shard a run was, as its results.json says.

    :param plan: the digest of the plan that all jobs share.
    :param number: from 1.
    """

    plan: str
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ToldResult:
    """What a job tells of a cell: words made harmless, and nothing that another part of the run knows better.

    :param wheel: None where it tells of a failure.
    """

    status: Status
    wheel: WheelFile | None
    failure: Failure | None
    timings: tuple[Timing, ...]
    built_in: tuple[Timing, ...]
    log: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardOutput:
    """What one job left.

    :param results: cell id → what came of it, as the job tells.
    """

    folder: Path
    results: Mapping[str, ToldResult]


class MissingShardsError(PackageIndexError):
    """Shards of a plan have left nothing, or not all that they were to."""

    exit_code = ExitCode.CELLS_FAILED


def shard_outputs(plan: ShardedPlan, folders: Sequence[Path]) -> dict[int, ShardOutput]:
    """Return what every shard that has anything to build left, by its number from 1.

    :param folders: the jobs' output folders, or folders that have those in them.
    :raises PackageIndexError: one is of another plan, or two are of one shard.
    :raises MissingShardsError: a cell has no answer.
    """
    found: dict[int, ShardOutput] = {}
    for folder in _below(folders):
        number, output = _read(folder, plan)
        if known := found.get(number):
            raise PackageIndexError(
                f"{known.folder} and {folder} both say that they are shard {shard_word(number, plan.shards)}",
                remedy="join only what the last run of each job left",
            )
        found[number] = output
    _check_answers(plan, found)
    return found


def _below(folders: Sequence[Path]) -> Iterator[Path]:
    """Yield the folders that runs wrote to: CI systems put what several jobs left into one, each in a folder."""
    for folder in folders:
        if not folder.is_dir():
            raise PackageIndexError(f"there is no folder {folder}")
        if (folder / RESULTS).exists():
            yield folder
            continue
        found = sorted(path.parent for path in folder.glob(f"*/{RESULTS}") if not path.parent.is_symlink())
        if not found:
            raise PackageIndexError(f"no job left anything in {folder}", remedy=f"name what has a {RESULTS} in it")
        yield from found


def _read(folder: Path, plan: ShardedPlan) -> tuple[int, ShardOutput]:
    path = folder / RESULTS
    try:
        data = read_json(read_bounded(path, _LONGEST + len(plan.plans) * _FOR_EACH))
        shard = ShardName.from_json(data.get(SHARD) or {"plan": "", "number": 0})
        told = data["cells"]
        of_it = shard.plan == plan.digest and 1 <= shard.number <= len(plan.shards)
        mine = plan.shards[shard.number - 1].cells if of_it else ()
        results = {name: _result(told[name]) for name in mine if name in told}
    except (OSError, ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        raise PackageIndexError(f"it cannot be read: {in_one_line(error)}", where=Place(file=str(path))) from None
    if not of_it:
        raise PackageIndexError(
            f"{folder} is of no shard of this plan", remedy="join what was built by it: --shard-plan"
        )
    return shard.number, ShardOutput(folder=folder, results=results)


def _result(data: Mapping[str, Any]) -> ToldResult:
    """Read what is told of one cell.

    :raises ValueError: it is told in another way than runs do.
    """
    status, wheel, failure = Status(data["status"]), data.get("wheel"), data.get("failure")
    if (status in _MADE) is not (wheel is not None):
        raise ValueError(f"a cell is {status}, and has {'a' if wheel else 'no'} wheel")
    log = data.get("log")
    return ToldResult(
        status=status,
        wheel=WheelFile.from_json(wheel) if wheel is not None else None,
        failure=_plain(Failure.from_json(failure)) if failure is not None and wheel is None else None,
        timings=_timings(data.get("timings", ())),
        built_in=_timings(data.get("built_in", ())),
        log=log if isinstance(log, str) else None,
    )


def _plain(failure: Failure) -> Failure:
    return Failure(
        stage=failure.stage if failure.stage in _STAGES else "internal",
        message=_word(failure.message),
        remedy=_word(failure.remedy) if failure.remedy else None,
        tail=tuple(map(_word, failure.tail[-_MOST_LINES:])),
    )


def _word(text: str) -> str:
    return visible(text[:_LONGEST_WORD])


def _timings(given: Sequence[Any]) -> tuple[Timing, ...]:
    found = (Timing.from_json(each) for each in given[: len(_STAGES)])
    return tuple(each for each in found if each.stage in _STAGES and 0 <= each.seconds < _LONGEST_STAGE)


def _check_answers(plan: ShardedPlan, found: Mapping[int, ShardOutput]) -> None:
    missing = []
    for number, shard in enumerate(plan.shards, 1):
        results = found[number].results if number in found else {}
        if lost := [
            name for name in shard.cells if name not in results or results[name].status not in {*_MADE, Status.FAILED}
        ]:
            missing.append((shard_word(number, plan.shards), lost))
    if missing:
        named = "; ".join(f"shard {word}: {', '.join(lost)}" for word, lost in missing)
        again = " && ".join(f"wheelsmith build-matrix --shard {word}" for word, _ in missing)
        raise MissingShardsError(f"there is no answer for every cell: {named}", remedy=f"run again: {again}")


def take_wheel(output: ShardOutput, wheel: WheelFile, folder: Path) -> Path:
    """Copy a wheel that a shard tells of.

    :param folder: a scratch folder, for this wheel alone.
    :raises WheelError: it is not there, or not the one that it tells of.
    """
    name = visible(wheel.filename[:_LONGEST_WORD])
    if name != wheel.filename or Path(name).name != name or not name.endswith(".whl"):
        raise WheelError(f"{name!r} is no wheel's name")
    if not 0 <= wheel.size <= _LARGEST:
        raise WheelError(f"{name} is told to have {wheel.size} bytes")
    wheels = output.folder / "wheels"
    try:
        if wheels.is_symlink():
            raise WheelError(f"{wheels} is a link")
        digest, left = hashlib.sha256(), wheel.size
        folder.mkdir(parents=True)
        with open_file(wheels / wheel.filename) as given, (folder / wheel.filename).open("xb") as copy:
            while left > 0 and (chunk := given.read(min(left, 1 << 20))):
                left -= len(chunk)
                digest.update(chunk)
                copy.write(chunk)
            longer = bool(given.read(1))
    except OSError as error:
        raise WheelError(f"{wheel.filename} cannot be read: {error.strerror or error}") from None
    if left or longer or digest.hexdigest() != wheel.sha256:
        raise WheelError(f"{wheel.filename} is not the one that the shard's {RESULTS} tells of")
    return folder / wheel.filename


def copy_log(output: ShardOutput, name: str | None, cell: str, logs: Path) -> str | None:
    """Copy the log of a cell, and return what it is called then; None where there is none that can be copied.

    That it is not there, or too long, is no reason to lose the cell.
    """
    if name is None or not _LOG.fullmatch(name) or (output.folder / "logs").is_symlink():
        return None
    try:
        text = read_bounded(output.folder / "logs" / name, _LONGEST_LOG).decode("utf-8", "replace")
    except (OSError, ValueError):
        return None
    logs.mkdir(exist_ok=True)
    # Whatever a job calls it: it is no other cell's.
    own = f"{cell}.log"
    atomic_write(logs / own, "\n".join(map(visible, text.split("\n"))).encode())
    return own
