"""A workflow of GitHub's, run by act; what GitHub's own actions do is done by copies of files."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

from factory import ROOT
from releases import Ended, Release
from wants import script

from wheelsmith.base.files import read_facts

# This repository, as others name its action.
OWN_ACTION = f"acme/wheelsmith@{'a' * 40}"
_STUBS = ROOT / "tests" / "support" / "actions"


class Github:
    """Runs jobs on this machine, with artefacts and caches in folders."""

    def __init__(self, release: Release) -> None:
        self._release, self._attempt = release, 0
        self._folder = release.folder
        for name in ("artifacts", "caches"):
            (self._folder / name).mkdir()
        # act copies what lies beside an action, too.
        (self._folder / "action").mkdir()
        shutil.copy(ROOT / "action.yml", self._folder / "action")
        event = {"ref": "refs/tags/v1", "ref_type": "tag"}
        (self._folder / "event.json").write_text(json.dumps(event))
        secrets = {**release.secrets, "WHEELSMITH_KEY": release.key}
        text = "".join(f"{name}={json.dumps(value)}\n" for name, value in secrets.items())
        (self._folder / "secrets").write_text(text)

    @property
    def dist(self) -> Path:
        return self._folder / "artifacts" / "wheelsmith-dist"

    def run(self, *, lose: int | None = None, kill: str = "") -> Ended:
        self._attempt += 1
        given = {
            **self._release.endpoint,
            "ARTIFACTS": str(self._folder / "artifacts"),
            "CACHES": str(self._folder / "caches"),
            "LOSE": f"wheelsmith-shard-{lose}" if lose else "",
            "KILL": kill,
            "KILLED": str(self._folder / "killed"),
        }
        return run_act(
            *("push", f"--eventpath={self._folder / 'event.json'}", f"--secret-file={self._folder / 'secrets'}"),
            f"--local-repository={OWN_ACTION}={self._folder / 'action'}",
            repository=self._release.repository,
            given=given,
            environment=self._release.environment | {"XDG_CACHE_HOME": str(self._folder / "act")},
        )

    def again(self) -> Ended:
        # act cannot run the failed jobs alone: all are run, as "Re-run all jobs" does.
        return self.run()


def run_act(*argv: str, repository: Path, given: dict[str, str], environment: dict[str, str]) -> Ended:
    """Run a workflow of a repository on this machine.

    :param argv: the event, and options.
    :param given: variables for its jobs.
    :param environment: what the machine that runs them has.
    """
    command = [
        *(script("act"), *argv, "-P", "ubuntu-latest=-self-hosted", "--pull=false", "--action-offline-mode"),
        *("--no-cache-server", *_stubs(), *(f"--env={name}={value}" for name, value in given.items())),
    ]
    answer = subprocess.run(command, cwd=repository, env=environment, capture_output=True, text=True, errors="replace")
    return Ended(code=answer.returncode, text=answer.stdout + answer.stderr)


def _stubs() -> list[str]:
    stubs = set()
    for action in read_facts("wheelsmith.report.pipelines", "actions.json")["actions"].values():
        name = "/".join(action["uses"].split("/")[:2])
        stubs.add(f"--local-repository={name}@{action['commit']}={_STUBS / name.split('/')[1]}")
    return sorted(stubs)
