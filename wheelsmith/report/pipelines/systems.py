"""Pipelines for GitHub Actions, GitLab, Buildkite and Slurm."""

from __future__ import annotations

import re
from collections.abc import Sequence

from wheelsmith.base.errors import SettingError
from wheelsmith.base.files import read_facts
from wheelsmith.base.templates import text_environment
from wheelsmith.plan.shards import Shard
from wheelsmith.report.pipelines.pipeline import Pipeline

_MAX_GITLAB_JOBS = 200  # GitLab's limit for ``parallel``
_RELEASE_QUEUE = "release"  # Buildkite queue of the steps that publish and promote


def github_workflow(pipeline: Pipeline) -> str:
    """Return a workflow for GitHub Actions. Each action is pinned to a commit.

    :raises SettingError: an option is invalid.
    """
    return _render_github("github.yml", pipeline)


def github_watch_workflow(pipeline: Pipeline) -> str:
    """Return a workflow for GitHub Actions that takes newer releases into the matrix and opens a pull request.

    :raises SettingError: an option is invalid.
    """
    return _render_github("github-watch.yml", pipeline)


def _render_github(template: str, pipeline: Pipeline) -> str:
    facts = read_facts(__package__, "actions.json")["actions"]
    actions = {name: f"{each['uses']}@{each['commit']} # {each['version']}" for name, each in facts.items()}
    return _render(template, pipeline, actions=actions)


def gitlab_pipeline(pipeline: Pipeline) -> str:
    """Return a pipeline for GitLab.

    It has a fixed number of jobs. With a variable number, a job would have to generate the rest of the pipeline,
    including the release. The release would then run generated code instead of code from the repository.

    :raises SettingError: an option is invalid, or the number of jobs is ``auto`` or too large.
    """
    text = _render("gitlab.yml", pipeline)
    if pipeline.shards == "auto":
        raise SettingError(
            "--shards auto is not supported: GitLab needs a fixed number of jobs",
            remedy="pass --shards N; wheelsmith plan --shards auto shows a good number",
        )
    if int(pipeline.shards) > _MAX_GITLAB_JOBS:
        raise SettingError(
            f"GitLab allows at most {_MAX_GITLAB_JOBS} parallel jobs",
            remedy=f"pass --shards {_MAX_GITLAB_JOBS} or less",
        )
    return text


def buildkite_pipeline(pipeline: Pipeline) -> str:
    """Return a pipeline for Buildkite. Its first step adds the build steps from ``buildkite_shards``.

    :raises SettingError: an option is invalid, or a kernel's code would run on an agent that can sign or publish.
    """
    if pipeline.keyless:
        raise SettingError(
            "--keyless is not supported: on Buildkite, steps that run a kernel's code can get the token too",
            remedy="use --sign, with a key that only the agents of the queue release have",
        )
    if _RELEASE_QUEUE in {*pipeline.test_on, pipeline.aarch64_on}:
        raise SettingError(
            f"builds and tests cannot run on the queue {_RELEASE_QUEUE}: its agents have secrets, "
            "and a kernel's code would run there",
            remedy="pass a queue without secrets to --test-on and --aarch64-on",
        )
    # The build steps do not depend on the options for signing and publishing.
    building = Pipeline(
        matrix=pipeline.matrix,
        locked=pipeline.locked,
        wheelsmith=pipeline.wheelsmith,
        python=pipeline.python,
        aarch64_on=pipeline.aarch64_on,
    )
    return _render(
        "buildkite.yml", pipeline, shards_command=f"{building.command('buildkite')} --steps wheelsmith.shards.json"
    )


def buildkite_shards(pipeline: Pipeline, shards: Sequence[Shard]) -> str:
    """Return the build steps of the shards for ``buildkite-agent pipeline upload``.

    :raises SettingError: an option is invalid.
    """
    return _render("buildkite-shards.yml", pipeline, shards=shards)


def slurm_script(pipeline: Pipeline) -> str:
    """Return a shell script that submits an array job to Slurm, with a task for each shard, and a job that joins them.

    :raises SettingError: an option is invalid.
    """
    return _render("slurm.sh", pipeline)


def _render(name: str, pipeline: Pipeline, **context: object) -> str:
    """Return a file for a CI system.

    :param name: the name of the template. It begins with that of the CI system.
    """
    pipeline.check()
    template = text_environment(__package__).get_template(name)
    return template.render(p=pipeline, command=pipeline.command(re.split("[-.]", name)[0]), **context)
