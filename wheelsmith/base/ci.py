"""Detect the CI system of this process by its environment variables."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass

from wheelsmith.base.json_dataclass import Record
from wheelsmith.base.redact import redact

_COMMIT, _FILE = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?"), re.compile(r"[\w./-]+", re.ASCII)
LOCAL = "urn:wheelsmith:builder:local"


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkout(Record):
    """The commit that a CI system checked out for the job.

    :param repository: its address, without credentials.
    :param ref: such as ``refs/tags/v1``.
    :param commit: in hex.
    """

    repository: str
    ref: str
    commit: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CiRun:
    """A job of a CI system, or a run by a person.

    :param builder: URI of the workflow at its revision, or of the pipeline if the system has no such URI.
    :param invocation: URI of this run; None for a run by a person.
    :param checkout: None if the system does not provide it.
    """

    builder: str
    invocation: str | None = None
    checkout: Checkout | None = None


def detect_ci_run() -> CiRun:
    """Return this job of GitHub Actions, GitLab or Buildkite, or a run by a person."""
    for system in (_github, _gitlab, _buildkite):
        if run := system(os.environ):
            return run
    return CiRun(builder=LOCAL)


def _github(variables: Mapping[str, str]) -> CiRun | None:
    if variables.get("GITHUB_ACTIONS") != "true" or not variables.get("GITHUB_WORKFLOW_REF"):
        return None
    server = variables.get("GITHUB_SERVER_URL", "")
    repository = f"{server}/{variables.get('GITHUB_REPOSITORY', '')}"
    run, attempt = variables.get("GITHUB_RUN_ID", ""), variables.get("GITHUB_RUN_ATTEMPT", "1")
    return CiRun(
        builder=f"{server}/{variables['GITHUB_WORKFLOW_REF']}",
        invocation=f"{repository}/actions/runs/{run}/attempts/{attempt}",
        checkout=_checkout(repository, variables.get("GITHUB_REF"), variables.get("GITHUB_SHA")),
    )


def _gitlab(variables: Mapping[str, str]) -> CiRun | None:
    project = variables.get("CI_PROJECT_URL")
    if not variables.get("GITLAB_CI") or not project:
        return None
    ref = f"refs/{'tags' if variables.get('CI_COMMIT_TAG') else 'heads'}/{variables.get('CI_COMMIT_REF_NAME', '')}"
    # A merge request may come from a fork that has a branch of the same name.
    ref = variables.get("CI_MERGE_REQUEST_REF_PATH") or ref
    config = variables.get("CI_CONFIG_PATH", ".gitlab-ci.yml")
    return CiRun(
        # The configuration may be a file of another project, or a URL.
        builder=f"{project}//{config}@{ref}" if _FILE.fullmatch(config) else f"{LOCAL}:{config}",
        invocation=variables.get("CI_PIPELINE_URL"),
        checkout=_checkout(project, ref, variables.get("CI_COMMIT_SHA")),
    )


def _buildkite(variables: Mapping[str, str]) -> CiRun | None:
    url = variables.get("BUILDKITE_BUILD_URL")
    if variables.get("BUILDKITE") != "true" or not url:
        return None
    tag, branch = variables.get("BUILDKITE_TAG"), variables.get("BUILDKITE_BRANCH")
    ref = f"refs/tags/{tag}" if tag else f"refs/heads/{branch}" if branch else None
    return CiRun(
        builder=url.partition("/builds/")[0],
        invocation=url,
        checkout=_checkout(variables.get("BUILDKITE_REPO"), ref, variables.get("BUILDKITE_COMMIT")),
    )


def _checkout(repository: str | None, ref: str | None, commit: str | None) -> Checkout | None:
    # BUILDKITE_COMMIT is HEAD in a build that was started by hand.
    if not (repository and ref and commit and _COMMIT.fullmatch(commit)):
        return None
    return Checkout(repository=redact(repository), ref=ref, commit=commit)
