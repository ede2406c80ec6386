"""A pipeline of Buildkite's, run by a stand-in: Buildkite's agents run nowhere without Buildkite.

Every step is really run, in a checkout of its own. Of how Buildkite orders steps, what written pipelines use is here:
steps that are uploaded come after the one that uploads them, ``wait`` with ``continue_on_failure``, ``depends_on``
one step or several, ``allow_failure`` of them, ``if`` of a tag.
"""

from __future__ import annotations

import re
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

import buildkite_agent
import yaml
from releases import CACHE, FILES, Ended, Release


class Buildkite:
    """Runs steps one after the other, on agents of two kinds: those of queue ``release`` have the secrets."""

    def __init__(self, release: Release) -> None:
        self._release = release
        self._place = release.folder / "stand-in"
        (self._place / "artifacts").mkdir(parents=True)
        self._agent("buildkite-agent", f'exec "{sys.executable}" "{buildkite_agent.__file__}" "$@"')
        # A virtual environment in which wheelsmith is installed already.
        path = f"{release.folder / 'bin'}:{sysconfig.get_path('scripts')}"
        made = f'mkdir -p "$4/bin" && echo "PATH={path}:\\$PATH" >"$4/bin/activate"'
        self._agent("python3.12", f'[ "$1 $2 $3" = "-I -m venv" ] && {made}')
        self._steps: list[dict[str, Any]] = []
        self._said: list[str] = []

    def _agent(self, name: str, script: str) -> None:
        program = self._release.folder / "bin" / name
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)

    @property
    def dist(self) -> Path:
        return self._place / "artifacts" / "dist"

    @property
    def annotations(self) -> dict[str, str]:
        """Return what is shown above the steps, by context and style."""
        return {path.stem: path.read_text() for path in (self._place / "annotations").glob("*.md")}

    def run(self, *, lose: int | None = None, kill: str = "") -> Ended:
        text = (self._release.repository / FILES["buildkite"]).read_text()
        self._steps = self._read(buildkite_agent.interpolated(text, {}))
        return self._go({"KILL": kill, "LOSE": f"shards/{lose}/*"})

    def again(self) -> Ended:
        """Retry the jobs that failed, and go on with those that waited for them."""
        return self._go({})

    @staticmethod
    def _read(text: str) -> list[dict[str, Any]]:
        read = yaml.safe_load(text)
        return [{**step, "env": read.get("env", {})} for step in read["steps"]]

    def _go(self, given: dict[str, str]) -> Ended:
        self._said = []
        waiting, place = False, 0
        while place < len(self._steps):
            step = self._steps[place]
            place += 1
            before = self._steps[: place - 1]
            if "wait" in step:
                waiting |= _failed(before) and not step.get("continue_on_failure")
            elif step.get("passed") or not self._may_run(step, before, waiting=waiting):
                continue
            else:
                step["passed"] = self._run(step, given)
                uploaded = self._place / "uploaded.yml"
                if uploaded.exists():
                    self._steps[place:place] = self._read(uploaded.read_text())
                    uploaded.unlink()
        return Ended(code=int(_failed(self._steps)), text="".join(self._said))

    @staticmethod
    def _may_run(step: dict[str, Any], before: list[dict[str, Any]], *, waiting: bool) -> bool:
        if told := step.get("if"):
            match = re.fullmatch(r"build\.tag =~ /(.*)/", told)
            assert match, told
            if not re.search(match[1], "v1"):
                return False
        if needed := step.get("depends_on"):
            return all(_done(each, before) for each in ([needed] if isinstance(needed, str) else needed))
        return not waiting

    def _run(self, step: dict[str, Any], given: dict[str, str]) -> bool:
        checkout = Path(tempfile.mkdtemp(dir=self._place))
        clone = ("git", "clone", "-q", "-b", "v1", self._release.repository, checkout)
        subprocess.run(clone, check=True, capture_output=True)
        environment = {
            **self._release.environment,
            **self._release.endpoint,
            **step["env"],
            **given,
            "BUILDKITE_STAND_IN": str(self._place),
            "BUILDKITE_STEP_KEY": step.get("key", ""),
            # The agent's own, which stays.
            "WHEELSMITH_CACHE": str(self._release.repository / CACHE),
        }
        if step.get("agents") == {"queue": "release"}:
            environment |= {**self._release.secrets, "WHEELSMITH_KEY": self._release.key}
        shell = ["bash", "-e", "-c", step["command"]]
        answer = subprocess.run(shell, cwd=checkout, env=environment, capture_output=True, text=True, errors="replace")
        self._said.append(f"--- {step['label']}\n{answer.stdout}{answer.stderr}")
        # Those of a job that was retried are not found any more.
        for path in step.pop("kept", ()):
            path.unlink(missing_ok=True)
        if paths := step.get("artifact_paths"):
            step["kept"] = buildkite_agent.upload(
                paths, checkout, self._place, step.get("key", ""), lose=given.get("LOSE", "")
            )
        return answer.returncode == 0


def _done(needed: str | dict[str, Any], before: list[dict[str, Any]]) -> bool:
    """Say whether a step that another waits for has passed, or has failed and may have."""
    name, may_fail = (needed, False) if isinstance(needed, str) else (needed["step"], needed.get("allow_failure"))
    ended = [each["passed"] for each in before if each.get("key") == name and "passed" in each]
    return bool(ended) and (ended[0] or bool(may_fail))


def _failed(steps: list[dict[str, Any]]) -> bool:
    return any(step.get("passed") is False for step in steps)
