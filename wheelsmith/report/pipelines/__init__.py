"""Pipelines for CI systems, as files that their owners keep: each system is a template."""

from wheelsmith.report.pipelines.pipeline import WRITTEN, Pipeline
from wheelsmith.report.pipelines.systems import buildkite_pipeline, buildkite_shards, github_workflow, gitlab_pipeline
