"""What tests of pipelines release: a repository at a tag, a key, a bucket; and what runs its pipeline there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import loopback_s3
from factory import Factory
from kernels import matrix, tiny_kernel
from loopback_hub import Hub, serve
from outside import outside
from served_bucket import fetched, served_bucket
from shop import make_torches

from wheelsmith.base.distribution import DISTRIBUTION
from wheelsmith.base.files import default_cache

INDEX = f"s3://{loopback_s3.BUCKET}/kernels"
HUB_INDEX = "hf://org/wheels"
WORDS = ("--wheelsmith", DISTRIBUTION, "--shards", "3")
TESTING = ("--channel", "test", "--promote", "stable", "--project", "tiny")
# Two cells in the first shard, one in each other.
TORCHES = ("2.10", "2.11", "2.12", "2.13")
# Torch asks for C++20 from 2.12 on.
_FOR_SOME = "#if __cplusplus > 201703L\n#error no C++20 today\n#endif\n"
_WATCHED = Path(__file__).with_name("watched.py")
CACHE = ".wheelsmith-cache"
# Two kernels with two cells each, in place of one.
SET = """\
axes: {torch: [2.12, 2.13], cuda: [cpu]}
toolchain: host
kernels:
  tiny: {path: k}
  other: {path: k, distribution: other, module: other}
"""
# Where each system looks for its pipeline.
FILES = {"github": ".github/workflows/wheels.yml", "gitlab": ".gitlab-ci.yml", "buildkite": ".buildkite/wheels.yml"}


@dataclass(frozen=True)
class Ended:
    """How a pipeline ended, and all that was written meanwhile."""

    code: int
    text: str


class Runner(Protocol):
    """What runs a pipeline at its tag."""

    def run(self, *, lose: int | None = None, kill: str = "") -> Ended:
        """Run all of it.

        :param lose: the number of a shard whose artefact is lost.
        :param kill: the shard whose job is killed, as ``1/3``.
        """
        ...

    def again(self) -> Ended:
        """Run again what failed, as a person does."""
        ...

    @property
    def dist(self) -> Path:
        """Return where what join left is."""
        ...


@dataclass(frozen=True)
class Release:
    """A repository at a tag, and what its pipeline is given.

    :param key: in PEM.
    :param secrets: what publishing reads.
    :param endpoint: where that goes, which is none.
    :param index: where it is published.
    :param url: where the index is served.
    """

    folder: Path
    repository: Path
    key: str
    secrets: dict[str, str]
    endpoint: dict[str, str]
    index: str
    url: str

    @property
    def environment(self) -> dict[str, str]:
        """Return what the machine that runs jobs has: programs, and nobody's credentials."""
        clean = {name: text for name, text in os.environ.items() if not name.startswith((*loopback_s3.CLOUDS, "CI"))}
        path = f"{self.folder / 'bin'}:{sysconfig.get_path('scripts')}:{os.environ['PATH']}"
        return clean | {"HOME": str(self.folder), "PATH": path, "KILLED": str(self.folder / "killed")}

    def catalogue(self, channel: str) -> dict[str, Any]:
        """Return what a channel tells of the kernel; nothing where it has none."""
        return json.loads(fetched(f"{self.url}/{channel}/projects/tiny/catalogue.json") or "{}")

    def verify(self, channel: str = "") -> subprocess.CompletedProcess[str]:
        """Look at what was published."""
        argv = [sys.executable, "-m", "wheelsmith", "index", "verify", f"{self.index}{channel}"]
        environment = {**os.environ, **self.secrets, **self.endpoint}
        return subprocess.run(argv, env=environment, capture_output=True, text=True)


def statuses(dist: Path) -> Counter[str]:
    """Return how many cells ended how."""
    return Counter(cell["status"] for cell in json.loads((dist / "results.json").read_text())["cells"].values())


@contextmanager
def released(
    folder: Path,
    system: str,
    *,
    broken: bool = False,
    workflow: str = "",
    test: str = "",
    hub: bool = False,
    trust: Path | None = None,
    more_kernels: bool = False,
) -> Iterator[Release]:
    """Lay out a repository with a pipeline for a CI system and a tag, a key, and an S3 or a Hub.

    :param broken: two of its four cells do not compile.
    :param workflow: for GitHub, instead of the one that wheelsmith writes.
    :param test: the command line that tests what is published, before it is promoted.
    :param hub: publish to a repo of a Hub, not to a bucket.
    :param trust: the trust configuration of a Sigstore, to sign without a key.
    :param more_kernels: the matrix has several kernels.
    """
    with _hub(folder / "hf") if hub else _bucket() as (index, url, cloud, names), _torches(folder) as torches:
        words = (*WORDS, "--keyless" if trust else "--sign", "--publish", index)
        words += (*TESTING, "--url", url, "--test", test) if test else ()
        repository = _repository(
            folder, ("ci", system, *words), broken=broken, workflow=workflow, trust=trust, more_kernels=more_kernels
        )
        make = ("openssl", "genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256")
        key = subprocess.run(make, check=True, capture_output=True, text=True).stdout
        secrets = {name: cloud.pop(name) for name in names}
        yield Release(
            folder=folder,
            repository=repository,
            key=key,
            secrets=secrets,
            endpoint=cloud | torches,
            index=index,
            url=url,
        )


def _at_another_sigstore(pipeline: Path, trust: Path) -> None:
    text, sign = pipeline.read_text(), "wheelsmith sign dist --keyless"
    assert text.count(sign) == 1
    pipeline.write_text(text.replace(sign, f"{sign} --trust-config {trust}"))


@contextmanager
def _bucket() -> Iterator[tuple[str, str, dict[str, str], tuple[str, ...]]]:
    """Yield an index in a bucket, where that is served, how it is reached, and which of that is secret."""
    with (
        loopback_s3.loopback_s3() as port,
        served_bucket(f"http://127.0.0.1:{port}/{loopback_s3.BUCKET}") as site,
    ):
        cloud = {**loopback_s3.environment(f"http://127.0.0.1:{port}"), "AWS_ALLOW_HTTP": "true"}
        yield INDEX, f"{site}/kernels", cloud, ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION")


@contextmanager
def _hub(home: Path) -> Iterator[tuple[str, str, dict[str, str], tuple[str, ...]]]:
    """Yield the same of an index in a repo of a Hub, which nobody serves."""
    with serve(Hub()) as hub:
        hub.add("org/wheels", kind="models")
        yield HUB_INDEX, "", hub.environment(home, HF_TOKEN="hf_releasing"), ("HF_TOKEN",)


@contextmanager
def _torches(folder: Path) -> Iterator[dict[str, str]]:
    """Yield what tells a test where torch comes from, which is a stand-in."""
    make_torches(folder / "pytorch")
    (folder / "pypi").mkdir()
    roots = {"download.pytorch.org": folder / "pytorch", "pypi.org": folder / "pypi"}
    with outside(roots, folder) as environment:
        changed = {name: text for name, text in environment.items() if os.environ.get(name) != text}
        (folder / "outside.json").write_text(json.dumps(changed))
        yield {"OUTSIDE": str(folder / "outside.json")}


def _repository(
    folder: Path, command: tuple[str, ...], *, broken: bool, workflow: str, trust: Path | None, more_kernels: bool
) -> Path:
    """Lay out a repository at a tag, and the wheelsmith that its jobs find."""
    factory = Factory.at(folder / "repository")
    source = tiny_kernel(factory.folder / "k") / "tiny.cpp"
    source.write_text(_FOR_SOME * broken + source.read_text())
    matrix(factory.folder, "k", torch=", ".join(TORCHES), more="toolchain: host\n")
    if more_kernels:
        (factory.folder / "matrix.yaml").write_text(SET)
    answer = factory.run(*command)
    assert answer.returncode == 0, answer.stderr
    if workflow:
        (factory.folder / ".github" / "workflows" / "wheels.yml").write_text(workflow)
    if trust:
        _at_another_sigstore(factory.folder / FILES[command[1]], trust)
    # Headers are not laid out anew for every job.
    (factory.folder / CACHE).mkdir()
    for shared in ("prefix", "locks"):
        (factory.folder / CACHE / shared).symlink_to(default_cache() / shared)
    (factory.folder / ".gitignore").write_text("cache\n")
    author = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    for argv in (("init", "-q"), ("add", "-A"), (*author, "commit", "-qm", "x"), ("tag", "v1")):
        subprocess.run(["git", *argv], cwd=factory.folder, check=True)
    (folder / "bin").mkdir()
    wrapped = folder / "bin" / "wheelsmith"
    wrapped.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{_WATCHED}" "$@"\n')
    wrapped.chmod(0o755)
    return factory.folder
