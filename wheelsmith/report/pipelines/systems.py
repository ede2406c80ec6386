"""The pipeline as GitHub Actions, GitLab and Buildkite read it: a template for each."""

from __future__ import annotations

from collections.abc import Sequence

from wheelsmith.base.errors import SettingError
from wheelsmith.base.files import read_facts
from wheelsmith.base.templates import text_environment
from wheelsmith.plan.shards import Shard
from wheelsmith.report.pipelines.pipeline import Pipeline

_MOST_OF_GITLAB = 200  # jobs that GitLab allows ``parallel``
_RELEASE_QUEUE = "release"  # of Buildkite's steps that publish and promote


def github_workflow(pipeline: Pipeline) -> str:
    """Return the text of a workflow for GitHub Actions; each action is pinned to the commit of its version.

    :raises SettingError: a word cannot stand in it.
    """
    known = read_facts(__package__, "actions.json")["actions"]
    actions = {name: f"{each['uses']}@{each['commit']} # {each['version']}" for name, each in known.items()}
    return _render("github", pipeline, actions=actions)


def gitlab_pipeline(pipeline: Pipeline) -> str:
    """Return the text of a pipeline for GitLab.

    The number of jobs stands in it. GitLab can learn one from a job only where that job writes the pipeline, with the
    release in it: then what signs would be what a job wrote, and not what stands in the repository.

    :raises SettingError: a word cannot stand in it, or the number of jobs is left open.
    """
    text = _render("gitlab", pipeline)
    if pipeline.shards == "auto":
        raise SettingError(
            "GitLab has to know the number of jobs: a job that finds it would have to write the release, too",
            remedy="wheelsmith plan --shards auto says how many there would be: --shards NUMBER",
        )
    if int(pipeline.shards) > _MOST_OF_GITLAB:
        raise SettingError(
            f"GitLab runs no more than {_MOST_OF_GITLAB} jobs of a kind", remedy=f"--shards {_MOST_OF_GITLAB}"
        )
    return text


def buildkite_pipeline(pipeline: Pipeline) -> str:
    """Return the text of a pipeline for Buildkite; its first step asks ``buildkite_shards`` for those that build.

    :raises SettingError: a word cannot stand in it, or what a kernel brings would run where it can sign or publish.
    """
    if pipeline.keyless:
        raise SettingError(
            "every step of a pipeline of Buildkite's may have its token, those that run what a kernel brings, too",
            remedy="sign by a key, which only the agents of one queue have: --sign",
        )
    if _RELEASE_QUEUE in pipeline.test_on:
        raise SettingError(
            f"agents of the queue {_RELEASE_QUEUE} have the secrets, and a test runs what a kernel brings",
            remedy="name a queue whose agents have none: --test-on QUEUE",
        )
    # What the steps of shards say is the same, whatever is signed and published.
    building = Pipeline(
        matrix=pipeline.matrix, locked=pipeline.locked, wheelsmith=pipeline.wheelsmith, python=pipeline.python
    )
    return _render(
        "buildkite", pipeline, shards_command=f"{building.command('buildkite')} --steps wheelsmith.shards.json"
    )


def buildkite_shards(pipeline: Pipeline, shards: Sequence[Shard]) -> str:
    """Return the steps of the shards that have anything to build, as ``buildkite-agent pipeline upload`` takes them.

    :raises SettingError: a word cannot stand in it.
    """
    return _render("buildkite-shards", pipeline, shards=shards)


def _render(system: str, pipeline: Pipeline, **more: object) -> str:
    pipeline.check()
    template = text_environment(__package__).get_template(f"{system}.yml")
    return template.render(p=pipeline, command=pipeline.command(system), **more)
