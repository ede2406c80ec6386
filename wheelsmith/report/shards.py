"""The shards of a plan, for people and for the CI systems that run a job for each."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from wheelsmith.plan.shards import Shard, shard_word
from wheelsmith.report.style import duration

if TYPE_CHECKING:
    from rich.table import Table


def shard_table(shards: Sequence[Shard], cores: int) -> Table:
    """Return each shard with its cells and what it may take.

    :param cores: that each job has.
    """
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("shard", "about", "cells"):
        table.add_column(column, overflow="fold", no_wrap=column != "cells")
    for number, shard in enumerate(shards, 1):
        table.add_row(
            shard_word(number, shards), duration(shard.seconds / cores), Text("\n".join(shard.cells) or "none")
        )
    return table


def _words(shards: Sequence[Shard]) -> list[str]:
    """Return ``2/3`` for each shard that has anything to build."""
    return [shard_word(number, shards) for number, shard in enumerate(shards, 1) if shard.cells]


def github_matrix(shards: Sequence[Shard]) -> dict[str, Any]:
    """Return what ``strategy.matrix`` takes by fromJSON; the number is for names, which take no slash."""
    return {"include": [{"shard": word, "number": int(word.partition("/")[0])} for word in _words(shards)]}


def gitlab_parallel(shards: Sequence[Shard]) -> dict[str, Any]:
    """Return the ``parallel`` of a job in a child pipeline: JSON is YAML."""
    return {"parallel": {"matrix": [{"SHARD": _words(shards)}]}}


def buildkite_steps(shards: Sequence[Shard], options: Sequence[str] = ()) -> dict[str, Any]:
    """Return what ``buildkite-agent pipeline upload`` takes.

    :param options: of build-matrix, by which it plans as these shards were planned.
    """
    # That command puts a variable in the place of a dollar.
    told = "".join(f" {shlex.quote(word)}" for word in options).replace("$", "$$")
    return {
        "steps": [
            {
                "label": f"wheels {word}",
                "command": f"wheelsmith build-matrix --shard {word}{told}",
                "env": {"SHARD": word},
            }
            for word in _words(shards)
        ]
    }


_JOBS: dict[str, Callable[[Sequence[Shard]], dict[str, Any]]] = {
    "github-matrix": github_matrix,
    "gitlab": gitlab_parallel,
}


def show_shards(shards: Sequence[Shard], form: str, options: Sequence[str]) -> str:
    """Return a line of JSON for a CI system.

    :param options: of build-matrix, by which it plans as these shards were planned.
    """
    return json.dumps(_JOBS[form](shards) if form in _JOBS else buildkite_steps(shards, options))
