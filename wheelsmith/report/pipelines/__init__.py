"""Pipelines for CI systems, as files that their owners keep: each system in a module of its own."""

from wheelsmith.report.pipelines.buildkite import buildkite_pipeline, buildkite_shards
from wheelsmith.report.pipelines.github import github_workflow
from wheelsmith.report.pipelines.gitlab import gitlab_pipeline
from wheelsmith.report.pipelines.pipeline import WRITTEN, Pipeline
