"""The jobs that build the shards of a plan, as CI systems read them."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Sequence
from typing import Any

from wheelsmith.plan.shards import Shard, shard_word


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
