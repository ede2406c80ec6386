"""The Jobs of Kubernetes that build the shards of a plan and join them."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from itertools import groupby
from math import ceil
from pathlib import Path

from wheelsmith.base.errors import SettingError
from wheelsmith.base.templates import text_environment
from wheelsmith.plan.lock import shards_path
from wheelsmith.plan.shards import Shard
from wheelsmith.report.pipelines.pipeline import WRITTEN, check_value

# A reference to an image with a digest.
_IMAGE = re.compile(r"[a-z0-9][A-Za-z0-9._:/-]*@sha256:[0-9a-f]{64}")
_CLAIM = re.compile(r"[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?")
_PATH = re.compile(r"(?!.*\.\.)[A-Za-z0-9_.][A-Za-z0-9_./-]*")
# Architecture of a wheel → its name in the labels of nodes.
_NODE_ARCHS = {"x86_64": "amd64", "aarch64": "arm64"}
_MOST_CPUS = 16
_SHARD_SECONDS = 1800  # A shard gets enough CPUs to take about this long.
_TOOLCHAIN_SECONDS = 1800


@dataclass(frozen=True, slots=True)
class IndexedJob:
    """A Job with one index for each shard of an architecture.

    :param first: the number of its first shard, counted from 1.
    :param arch: the architecture as Kubernetes names it.
    """

    name: str
    first: int
    count: int
    arch: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KubernetesJobs:
    """The Jobs for the shards of a plan.

    :param image: an image with wheelsmith and bubblewrap, by digest.
    :param claim: the name of a claim for a volume that all pods share.
    :param matrix: the path of the matrix in the volume.
    :param locked: fail if anything differs from wheelsmith.lock.
    :param shard_plan: the path of the plan in the volume.
    :param plan_digest: identifies the plan.
    :param shards: the shards of the plan.
    :param arch: the architecture of the machine that planned.
    """

    image: str
    claim: str
    matrix: str
    locked: bool
    shard_plan: str
    plan_digest: str
    shards: tuple[Shard, ...]
    arch: str

    def check(self) -> None:
        """Check that each value is safe in the file.

        :raises SettingError: a value is not, or the image has no digest.
        """
        for option, value, pattern in (
            ("claim", self.claim, _CLAIM),
            ("matrix", self.matrix, _PATH),
            ("shard-plan", self.shard_plan, _PATH),
        ):
            check_value(option, value, pattern)
        if not _IMAGE.fullmatch(self.image):
            raise SettingError(
                "--image names no image by its digest, so each pod could run another one",
                remedy="pass NAME@sha256:DIGEST",
            )

    def command(self) -> str:
        """Return the command that generates this file."""
        arguments = ["--matrix", self.matrix] if self.matrix != "matrix.yaml" else []
        if Path(self.shard_plan) != shards_path(Path(self.matrix)):
            arguments += ["--shard-plan", self.shard_plan]
        arguments += ["--image", self.image, "--claim", self.claim, *(["--locked"] if self.locked else [])]
        return WRITTEN.removeprefix("# Written by: ") + shlex.join(["kubernetes", *arguments])

    @property
    def builds(self) -> tuple[IndexedJob, ...]:
        """Return the Jobs that build, one for each architecture."""
        jobs, first = list[IndexedJob](), 1
        for arch, group in groupby(shard.arch or self.arch for shard in self.shards):
            count, name = len(list(group)), _NODE_ARCHS[arch]
            jobs.append(IndexedJob(f"{self.claim}-build-{name}", first, count, name))
            first += count
        return tuple(jobs)

    @property
    def count(self) -> int:
        """Return the number of shards."""
        return len(self.shards)

    @property
    def cpus(self) -> int:
        """Return the number of CPUs for a shard. Each needs 2 GiB of memory, as much as most compilers take."""
        return min(_MOST_CPUS, max(2, ceil(self._longest / _SHARD_SECONDS)))

    @property
    def deadline(self) -> int:
        """Return the limit of a pod that builds, in seconds."""
        return _TOOLCHAIN_SECONDS + 3 * self._longest // self.cpus

    @property
    def _longest(self) -> int:
        return max(shard.seconds for shard in self.shards)


def kubernetes_jobs(jobs: KubernetesJobs) -> str:
    """Return a file with the Jobs for ``kubectl apply``.

    :raises SettingError: an option is invalid.
    """
    jobs.check()
    template = text_environment(__package__).get_template("kubernetes.yaml")
    return template.render(jobs=jobs, command=jobs.command())
