"""The jobs of a sharded plan in the formats of CI systems."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from typing import Any

from wheelsmith.plan.shards import Shard, shard_label


def format_shards(shards: Sequence[Shard], output_format: str, options: Sequence[str]) -> str:
    """Return a line of JSON for a CI system, with a job for each shard that is not empty.

    GitHub reads it with ``fromJSON`` in ``strategy.matrix``, GitLab as the ``parallel`` of a job in a child pipeline,
    and Buildkite with ``buildkite-agent pipeline upload``.

    :param output_format: ``github-matrix``, ``gitlab`` or ``buildkite``.
    :param options: options of ``build-matrix`` that reproduce this plan.
    """
    labels = {number: shard_label(number, shards) for number, shard in enumerate(shards, 1) if shard.cells}
    data: dict[str, Any]
    if output_format == "github-matrix":  # artifact names cannot contain the slash of a shard, so there is a number too
        data = {
            "include": [
                {"shard": label, "number": number, **({"arch": arch} if (arch := shards[number - 1].arch) else {})}
                for number, label in labels.items()
            ]
        }
    elif output_format == "gitlab":
        data = {"parallel": {"matrix": [{"SHARD": list(labels.values())}]}}
    else:
        # Buildkite replaces variables, so a dollar is escaped.
        quoted = "".join(f" {shlex.quote(option)}" for option in options).replace("$", "$$")
        build = "wheelsmith build-matrix --shard"
        steps = (
            {"label": f"wheels {label}", "command": f"{build} {label}{quoted}", "env": {"SHARD": label}}
            for label in labels.values()
        )
        data = {"steps": list(steps)}
    return json.dumps(data)
