"""Generates pipeline files for CI systems from templates."""

from wheelsmith.report.pipelines.kubernetes import KubernetesJobs, kubernetes_jobs
from wheelsmith.report.pipelines.pipeline import WRITTEN, Pipeline
from wheelsmith.report.pipelines.requirement import running_requirement
from wheelsmith.report.pipelines.systems import (
    buildkite_pipeline,
    buildkite_shards,
    github_watch_workflow,
    github_workflow,
    gitlab_pipeline,
    slurm_script,
)
