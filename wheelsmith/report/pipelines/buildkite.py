"""A pipeline for Buildkite."""

from __future__ import annotations

from collections.abc import Sequence

from wheelsmith.base.errors import SettingError
from wheelsmith.plan.shards import Shard, shard_word
from wheelsmith.report.pipelines.pipeline import Pipeline, common_words, filled, whole

_RELEASE = "release"  # the queue of the parts that publish and promote


def buildkite_pipeline(pipeline: Pipeline) -> str:
    """Return the text of the pipeline; its first step asks ``buildkite_shards`` for those that build.

    :raises SettingError: a word cannot stand in it, or what a kernel brings would run where it can sign or publish.
    """
    if pipeline.keyless:
        raise SettingError(
            "every step of a pipeline of Buildkite's may have its token, those that run what a kernel brings, too",
            remedy="sign by a key, which only the agents of one queue have: --sign",
        )
    if _RELEASE in pipeline.test_on:
        raise SettingError(
            f"agents of the queue {_RELEASE} have the secrets, and a test runs what a kernel brings",
            remedy="name a queue whose agents have none: --test-on QUEUE",
        )
    waits = (f'      - step: "wheels-test-{number}"\n        allow_failure: true\n' for number, _ in pipeline.runners)
    runners = [
        {
            "number": str(number),
            "name": f"Test on {runner}" if runner else "Test",
            "agents": f'\n    agents:\n      queue: "{runner}"' if runner else "",
        }
        for number, runner in pipeline.runners
    ]
    download = '      buildkite-agent artifact download "wheel-tests/wheelsmith-test-{0}/*" . --step wheels-test-{0}\n'
    downloads = "".join(download.format(number) for number, _ in pipeline.runners)
    more = {"tests": "".join(waits).rstrip("\n"), "downloads": downloads.rstrip("\n")}
    return whole(pipeline, "buildkite", {**_words(pipeline), **more}, runners)


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
    building = Pipeline(
        matrix=pipeline.matrix, locked=pipeline.locked, wheelsmith=pipeline.wheelsmith, python=pipeline.python
    )
    return {
        **words,
        "install": filled("buildkite-install.yml", words).rstrip("\n"),
        "steps": f"{building.command('buildkite')} --steps wheelsmith.shards.json",
    }
