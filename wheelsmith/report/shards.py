"""The jobs that build the shards of a plan, as CI systems read them."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from typing import Any

from wheelsmith.plan.shards import Shard, shard_word


def show_shards(shards: Sequence[Shard], form: str, options: Sequence[str]) -> str:
    """Return a line of JSON for a CI system, with each shard that has anything to build.

    GitHub's ``strategy.matrix`` takes it by fromJSON, GitLab as the ``parallel`` of a job in a child pipeline, and
    Buildkite by ``buildkite-agent pipeline upload``.

    :param options: of build-matrix, by which it plans as these shards were planned.
    """
    words = {number: shard_word(number, shards) for number, shard in enumerate(shards, 1) if shard.cells}
    data: dict[str, Any]
    if form == "github-matrix":  # the number is for names, which take no slash
        data = {"include": [{"shard": word, "number": number} for number, word in words.items()]}
    elif form == "gitlab":
        data = {"parallel": {"matrix": [{"SHARD": list(words.values())}]}}
    else:
        # Buildkite puts a variable in the place of a dollar.
        told = "".join(f" {shlex.quote(word)}" for word in options).replace("$", "$$")
        build = "wheelsmith build-matrix --shard"
        steps = (
            {"label": f"wheels {word}", "command": f"{build} {word}{told}", "env": {"SHARD": word}}
            for word in words.values()
        )
        data = {"steps": list(steps)}
    return json.dumps(data)
