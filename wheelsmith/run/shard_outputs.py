"""What the jobs of a pipeline left, each in a folder: read as a stranger's word, and found whole or named."""

from __future__ import annotations

import dataclasses
import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from wheelsmith.base.beneath import open_file
from wheelsmith.base.errors import ExitCode, PackageIndexError, Place, WheelError
from wheelsmith.base.files import atomic_write, read_bounded
from wheelsmith.base.printable import visible
from wheelsmith.base.record import Record, in_one_line, read_json
from wheelsmith.model import BuildResult, Status, WheelFile
from wheelsmith.plan.shards import ShardedPlan

RESULTS = "results.json"
# What results.json says of the shard that it is of.
SHARD = "shard"
_LONGEST = 256 << 20  # bytes
_LONGEST_LOG = 64 << 20
_LOG = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,250}")
_FIELDS = frozenset(field.name for field in dataclasses.fields(BuildResult))
_ANSWERS = {Status.BUILT, Status.CACHED, Status.FOLDED, Status.FAILED}


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardName(Record):
    """Which shard a run was, as its results.json says.

    :param plan: the digest of the plan that all jobs share.
    :param number: from 1.
    """

    plan: str
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardOutput:
    """What one job left.

    :param results: cell id → what came of it, as the job tells.
    """

    folder: Path
    results: Mapping[str, BuildResult]


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
                f"{known.folder} and {folder} both say that they are shard {number}/{len(plan.shards)}",
                remedy="join only what the last run of each job left",
            )
        found[number] = output
    _check_answers(plan, found)
    return found


def _below(folders: Sequence[Path]) -> Iterator[Path]:
    """Yield the folders that runs wrote to: CI systems put what several jobs left into one, each in a folder."""
    for folder in folders:
        if (folder / RESULTS).exists():
            yield folder
            continue
        inner = sorted(path.parent for path in folder.glob(f"*/{RESULTS}"))
        if not inner and not folder.is_dir():
            raise PackageIndexError(f"there is no folder {folder}")
        yield from inner


def _read(folder: Path, plan: ShardedPlan) -> tuple[int, ShardOutput]:
    path = folder / RESULTS
    try:
        data = read_json(read_bounded(path, _LONGEST))
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


def _result(data: Mapping[str, object]) -> BuildResult:
    return BuildResult.from_json({name: value for name, value in data.items() if name in _FIELDS})


def _check_answers(plan: ShardedPlan, found: Mapping[int, ShardOutput]) -> None:
    missing = []
    for number, shard in enumerate(plan.shards, 1):
        results = found[number].results if number in found else {}
        if lost := [name for name in shard.cells if name not in results or results[name].status not in _ANSWERS]:
            missing.append((f"{number}/{len(plan.shards)}", lost))
    if missing:
        named = "; ".join(f"shard {word}: {', '.join(lost)}" for word, lost in missing)
        again = " && ".join(f"wheelsmith build-matrix --shard {word}" for word, _ in missing)
        raise MissingShardsError(f"there is no answer for every cell: {named}", remedy=f"run again: {again}")


def take_wheel(output: ShardOutput, wheel: WheelFile, folder: Path) -> Path:
    """Copy a wheel that a shard tells of.

    :param folder: a scratch folder, for this wheel alone.
    :raises WheelError: it is not there, or not the one that it tells of.
    """
    if Path(wheel.filename).name != wheel.filename:
        raise WheelError(f"{visible(wheel.filename)!r} is no wheel's name")
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


def copy_log(output: ShardOutput, name: str | None, logs: Path) -> bool:
    """Return whether the log of a cell was copied: that it is not there, or too long, is no reason to lose the cell."""
    if name is None or not _LOG.fullmatch(name) or (output.folder / "logs").is_symlink():
        return False
    try:
        text = read_bounded(output.folder / "logs" / name, _LONGEST_LOG)
    except (OSError, ValueError):
        return False
    logs.mkdir(exist_ok=True)
    atomic_write(logs / name, text)
    return True
