"""A pipeline for Buildkite."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from wheelsmith.plan.shards import Shard, shard_word
from wheelsmith.report.pipelines.pipeline import Pipeline, common_words, filled, whole


def buildkite_pipeline(pipeline: Pipeline) -> str:
    """Return the text of the pipeline; its first step asks ``buildkite_shards`` for those that build.

    :raises SettingError: a word cannot stand in it.
    """
    return whole(pipeline, "buildkite", _words(pipeline))


def buildkite_shards(pipeline: Pipeline, shards: Sequence[Shard]) -> str:
    """Return the steps of the shards that have anything to build, as ``buildkite-agent pipeline upload`` takes them.

    :raises SettingError: a word cannot stand in it.
    """
    words = _words(pipeline)
    steps = [
        filled("buildkite-shard.yml", {**words, "shard": shard_word(number, shards), "number": str(number)})
        for number, shard in enumerate(shards, 1)
        if shard.cells
    ]
    return filled("buildkite-shards.yml", words) + "".join(steps)


def _words(pipeline: Pipeline) -> dict[str, str]:
    words = common_words(pipeline, "buildkite")
    # What the steps of shards say is the same, whatever is signed and published.
    building = replace(pipeline, shards="auto", sign=False, publish=None)
    return {
        **words,
        "install": filled("buildkite-install.yml", words).rstrip("\n"),
        "steps": f"{building.command('buildkite')} --steps wheelsmith.shards.json",
    }
