"""Options about shards, which several commands have."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click

from wheelsmith.base.units import counted
from wheelsmith.model import Listener, Notice
from wheelsmith.plan.fold import Build
from wheelsmith.plan.lock import shards_path
from wheelsmith.plan.shards import Shard, fewest, shard_word, split

_F = TypeVar("_F", bound=Callable[..., Any])
_AUTO = 0
_MOST = 256  # jobs, which is what GitHub allows a matrix
_DIGITS = 3
_HOUR = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Splitting:
    """How a plan is split among jobs.

    :param count: of shards; 0 takes as few as the limits allow.
    :param most: shards that there may be of those.
    :param hours: that a job may take.
    :param cores: that a job has.
    """

    count: int
    most: int
    hours: int
    cores: int

    def divide(self, builds: Sequence[Build], known: dict[str, float]) -> tuple[Shard, ...]:
        """Return the shards; ``known`` is what builds took, as cell id → seconds of one core."""
        if self.count:
            return split(builds, known, self.count)
        return fewest(builds, known, longest=self._longest, most=self.most)

    def warn(self, shards: Sequence[Shard], listen: Listener) -> None:
        """Say which shards may take longer than a job may."""
        late = [number for number, shard in enumerate(shards, 1) if shard.seconds > self._longest]
        if late:
            named = ", ".join(shard_word(number, shards) for number in late)
            text = f"may take longer than {self.hours:g} hours on {counted(self.cores, 'core')}: {named}"
            listen(Notice(level="warning", text=text))

    @property
    def _longest(self) -> float:
        return self.hours * _HOUR * self.cores


class _Shards(click.ParamType[int]):
    """A number of shards, or ``auto``."""

    name = "number|auto"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return it; 0 is for auto."""
        if isinstance(value, int):
            return value
        text = str(value)
        if text == "auto":
            return _AUTO
        if not (text.isascii() and text.isdigit()) or len(text) > _DIGITS or not 1 <= int(text) <= _MOST:
            self.fail(f"{text[:20]!r} is neither auto nor a number from 1 to {_MOST}", param, ctx)
        return int(text)


def shards_options(command: _F) -> _F:
    """Add ``--shards`` and what bounds them."""
    for option in (
        click.option("--cores", type=click.IntRange(1, 1024), default=4, show_default=True, help="That a job has."),
        click.option(
            "--max-hours",
            type=click.IntRange(1, 1000),
            default=5,
            show_default=True,
            help="That a job may take, as far as can be told.",
        ),
        click.option(
            "--max-shards", type=click.IntRange(1, _MOST), default=_MOST, show_default=True, help="That auto may make."
        ),
        click.option(
            "--shards", type=_Shards(), help="Split the cells among so many jobs; auto: as few as --max-hours allows."
        ),
    ):
        command = option(command)
    return command


def shard_plan_option(command: _F) -> _F:
    """Add ``--shard-plan``."""
    return click.option(
        "--shard-plan",
        type=click.Path(path_type=Path),
        help="The file that all jobs share; default: wheelsmith.shards.json beside the matrix.",
    )(command)


def shard_plan_path(given: Path | None, matrix: Path) -> Path:
    """Return where the plan of all jobs is."""
    return given or shards_path(matrix)


def build_options(
    *, matrix: Path, engine: str | None, shard_plan: Path | None, locked: bool, offline: bool
) -> tuple[str, ...]:
    """Return the options of build-matrix by which a job plans as all jobs were planned."""
    named = (("--matrix", None if matrix == Path("matrix.yaml") else matrix), ("--engine", engine))
    valued = (*named, ("--shard-plan", shard_plan))
    said = (("--locked", locked), ("--offline", offline))
    return (
        *(str(word) for pair in valued if pair[1] is not None for word in pair),
        *(option for option, given in said if given),
    )
