"""The jobs of a sharded plan in the formats of CI systems."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from typing import Any

from wheelsmith.plan.shards import Shard, shard_label


def show_shards(shards: Sequence[Shard], form: str, options: Sequence[str]) -> str:
    """Return a line of JSON for a CI system, with a job for each shard that is not empty.

    GitHub reads it with ``fromJSON`` in ``strategy.matrix``, GitLab as the ``parallel`` of a job in a child pipeline,
    and Buildkite with ``buildkite-agent pipeline upload``.

    :param form: ``github-matrix``, ``gitlab`` or ``buildkite``.
    :param options: options of ``build-matrix`` that reproduce this plan.
    """
    words = {number: shard_label(number, shards) for number, shard in enumerate(shards, 1) if shard.cells}
    data: dict[str, Any]
    if form == "github-matrix":  # artifact names cannot contain the slash of a shard, so there is a number too
        data = {"include": [{"shard": word, "number": number} for number, word in words.items()]}
    elif form == "gitlab":
        data = {"parallel": {"matrix": [{"SHARD": list(words.values())}]}}
    else:
        # Buildkite replaces variables, so a dollar is escaped.
        told = "".join(f" {shlex.quote(word)}" for word in options).replace("$", "$$")
        build = "wheelsmith build-matrix --shard"
        steps = (
            {"label": f"wheels {word}", "command": f"{build} {word}{told}", "env": {"SHARD": word}}
            for word in words.values()
        )
        data = {"steps": list(steps)}
    return json.dumps(data)
