"""Pipelines for CI systems, as files that their owners keep: each system in a module of its own."""

from wheelsmith.report.pipelines.github import GITHUB_FILE, github_workflow
from wheelsmith.report.pipelines.pipeline import WRITTEN, Pipeline

__all__ = ["GITHUB_FILE", "WRITTEN", "Pipeline", "github_workflow"]
