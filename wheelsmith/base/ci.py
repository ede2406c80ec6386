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


def ci_run() -> CiRun:
    """Return this job of GitHub Actions, GitLab or Buildkite, or a run by a person."""
    for system in (_github, _gitlab, _buildkite):
        if found := system(os.environ):
            return found
    return CiRun(builder=LOCAL)


def _github(given: Mapping[str, str]) -> CiRun | None:
    if given.get("GITHUB_ACTIONS") != "true" or not given.get("GITHUB_WORKFLOW_REF"):
        return None
    server = given.get("GITHUB_SERVER_URL", "")
    repository = f"{server}/{given.get('GITHUB_REPOSITORY', '')}"
    run, attempt = given.get("GITHUB_RUN_ID", ""), given.get("GITHUB_RUN_ATTEMPT", "1")
    return CiRun(
        builder=f"{server}/{given['GITHUB_WORKFLOW_REF']}",
        invocation=f"{repository}/actions/runs/{run}/attempts/{attempt}",
        checkout=_checkout(repository, given.get("GITHUB_REF"), given.get("GITHUB_SHA")),
    )


def _gitlab(given: Mapping[str, str]) -> CiRun | None:
    project = given.get("CI_PROJECT_URL")
    if not given.get("GITLAB_CI") or not project:
        return None
    ref = f"refs/{'tags' if given.get('CI_COMMIT_TAG') else 'heads'}/{given.get('CI_COMMIT_REF_NAME', '')}"
    # A merge request may come from a fork that has a branch of the same name.
    ref = given.get("CI_MERGE_REQUEST_REF_PATH") or ref
    config = given.get("CI_CONFIG_PATH", ".gitlab-ci.yml")
    return CiRun(
        # The configuration may be a file of another project, or a URL.
        builder=f"{project}//{config}@{ref}" if _FILE.fullmatch(config) else f"{LOCAL}:{config}",
        invocation=given.get("CI_PIPELINE_URL"),
        checkout=_checkout(project, ref, given.get("CI_COMMIT_SHA")),
    )


def _buildkite(given: Mapping[str, str]) -> CiRun | None:
    url = given.get("BUILDKITE_BUILD_URL")
    if given.get("BUILDKITE") != "true" or not url:
        return None
    tag, branch = given.get("BUILDKITE_TAG"), given.get("BUILDKITE_BRANCH")
    ref = f"refs/tags/{tag}" if tag else f"refs/heads/{branch}" if branch else None
    return CiRun(
        builder=url.partition("/builds/")[0],
        invocation=url,
        checkout=_checkout(given.get("BUILDKITE_REPO"), ref, given.get("BUILDKITE_COMMIT")),
    )


def _checkout(repository: str | None, ref: str | None, commit: str | None) -> Checkout | None:
    # BUILDKITE_COMMIT is HEAD in a build that was started by hand.
    if not (repository and ref and commit and _COMMIT.fullmatch(commit)):
        return None
    return Checkout(repository=redact(repository), ref=ref, commit=commit)
