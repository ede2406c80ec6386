"""A pipeline of GitLab's, run by gitlab-ci-local: a folder of its own for every job, artefacts and caches beside it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

from releases import Ended, Release

_STATE = ".gitlab-ci-local"


class Gitlab:
    """Runs jobs on this machine."""

    def __init__(self, release: Release, tools: Path) -> None:
        self._release, self._tools = release, tools
        # Variables as GitLab keeps them: of an environment, and the key in a file.
        scoped = {name: {"type": "variable", "values": {"release": text}} for name, text in release.secrets.items()}
        scoped["WHEELSMITH_KEY"] = {"type": "file", "values": {"release": release.key}}
        # It is looked for in the repository; JSON is YAML.
        name = os.path.relpath(release.folder / "variables.yml", release.repository)
        (release.folder / "variables.yml").write_text(json.dumps(scoped))
        self._fixed = (
            "--force-shell-executor",
            "--shell-isolation",
            "--no-artifacts-to-source",
            "--variables-file",
            name,
        )

    @property
    def dist(self) -> Path:
        return self._artifacts("join") / "dist"

    def _artifacts(self, job: str) -> Path:
        """Return what a job left; folders are called after jobs in an encoding that keeps letters and digits."""
        found = [each for each in (self._release.repository / _STATE / "artifacts").iterdir() if job in each.name]
        assert len(found) == 1, found
        return found[0]

    def run(self, *, lose: int | None = None, kill: str = "") -> Ended:
        if lose is None:
            return self._run(kill=kill)
        before = self._run("--needs", "wheels:build")
        assert before.code == 0, before.text
        for folder in (self._release.repository / _STATE / "artifacts").iterdir():
            if (folder / "shards" / str(lose)).exists():
                shutil.rmtree(folder)
        return self._run("wheels:join", "wheels:publish")

    def again(self) -> Ended:
        # What GitLab's "Run pipeline" does for the tag: all jobs, with what the caches have.
        return self._run()

    def _run(self, *argv: str, kill: str = "") -> Ended:
        given = {**self._release.endpoint, "CI_COMMIT_TAG": "v1", "KILL": kill}
        given["KILLED"] = str(self._release.folder / "killed")
        words = [word for name, value in given.items() for word in ("--variable", f"{name}={value}")]
        command = [self._tools / ".bin" / "gitlab-ci-local", *self._fixed, *words, *argv]
        answer = subprocess.run(
            command,
            cwd=self._release.repository,
            env=self._release.environment,
            capture_output=True,
            text=True,
            errors="replace",
        )
        return Ended(code=answer.returncode, text=answer.stdout + answer.stderr)
