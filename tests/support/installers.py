"""pip of several ages, and uv, without this machine's settings and caches."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

UV = Path(sys.executable).with_name("uv")
# The first that knows `--report` is 22.2, the first that reads side-cars as of PEP 714 is 23.2. The first that knows
# manylinux_2_17 is 20.3; it reads HTML alone, and does not run on Python 3.12.
PIPS = {"pip 20.3": "pip==20.3.4", "pip 23.2": "pip==23.2", "newest pip": "pip"}
# What each program that locks is installed from. pdm 2.29 names no newest of what it needs, and runs with few.
LOCKERS = {"poetry": ("poetry",), "pdm": ("pdm[locked]",), "pipenv": ("pipenv",)}
FOREIGN = ("PIP_", "UV_", "PYTHON", "VIRTUAL_ENV")


@dataclass
class Installers:
    """Environments, made when they are first asked for, under one folder."""

    folder: Path
    _made: dict[str, Path] = field(default_factory=dict)

    def pip(self, age: str, *argv: object) -> subprocess.CompletedProcess[str]:
        """Run one of ``PIPS``."""
        tools = self.environment(age, PIPS[age], *(["setuptools<81"] if age == "pip 20.3" else []))
        return self._run(tools / "bin" / "python", "-m", "pip", *argv)

    def pip_of(self, version: str, *argv: object) -> subprocess.CompletedProcess[str]:
        """Run the pip that a specifier such as ``==22.3.1`` names; the newest for none."""
        # pip before 21.1 needs what setuptools has left out since.
        tools = self.environment(f"pip{version}", f"pip{version}", "setuptools<81")
        return self._run(tools / "bin" / "python", "-m", "pip", *argv)

    def uv(self, *argv: object) -> subprocess.CompletedProcess[str]:
        """Run uv."""
        return self._run(UV, *argv)

    def environment(self, name: str, *requirements: str, index: str | None = None) -> Path:
        """Return a virtual environment with these packages and no others.

        :param index: where from; None is the user's own, which is the network.
        """
        if name not in self._made:
            path = self.folder / name.replace(" ", "-")
            subprocess.run([UV, "venv", "--quiet", "--no-project", path], check=True)
            if requirements:
                # What is not there yet may only come from this machine's own index, so its settings hold for this one.
                source = ["--no-config", "--default-index", index] if index else []
                install = [UV, "pip", "install", "--quiet", *source, "--python", path, *requirements]
                subprocess.run(install, check=True, env=self._settings() if index else None)
            self._made[name] = path
        return self._made[name]

    def run(self, environment: Path, code: str) -> str:
        """Run Python in an environment; gives what it prints."""
        answer = self._run(environment / "bin" / "python", "-c", code)
        assert answer.returncode == 0, answer.stderr
        return answer.stdout.strip()

    def locker(self, program: str, *argv: object, folder: Path) -> subprocess.CompletedProcess[str]:
        """Run poetry, pdm, pipenv or uv in a project, whose environment is to be its ``.venv``."""
        if not (folder / ".venv").exists():
            # pdm would take the Python that runs the tests, and install into it.
            subprocess.run([UV, "venv", "--quiet", "--no-project", folder / ".venv"], check=True, env=self._settings())
        path = UV if program == "uv" else self.environment(program, *LOCKERS[program]) / "bin" / program
        own = {
            # uv would read nothing of its own in pyproject.toml either, so its settings are elsewhere instead.
            "UV_NO_CONFIG": "false",
            "HOME": str(self.folder),
            "XDG_CONFIG_HOME": str(self.folder),
            "XDG_CONFIG_DIRS": str(self.folder),
            "POETRY_VIRTUALENVS_IN_PROJECT": "true",
            "POETRY_CACHE_DIR": str(self.folder / "poetry-cache"),
            "PDM_CACHE_DIR": str(self.folder / "pdm-cache"),
            "PDM_CHECK_UPDATE": "false",
            "PIPENV_VENV_IN_PROJECT": "1",
            "PIPENV_IGNORE_VIRTUALENVS": "1",
            "PIPENV_CACHE_DIR": str(self.folder / "pipenv-cache"),
            "PIPENV_DEFAULT_PYTHON_VERSION": sys.executable,
        }
        return self._run(path, *argv, cwd=folder, env=own)

    def _run(
        self, *argv: object, cwd: Path | None = None, env: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(each) for each in argv],
            env={**self._settings(), **(env or {})},
            cwd=cwd,
            capture_output=True,
            text=True,
            timeout=300,
        )

    def _settings(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)}
        return kept | {
            "NO_PROXY": "127.0.0.1",
            "PIP_CONFIG_FILE": os.devnull,
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "PIP_NO_CACHE_DIR": "1",
            "UV_CACHE_DIR": str(self.folder / "uv-cache"),
            "UV_NO_CONFIG": "1",
            "UV_PYTHON": sys.executable,
        }


def reported(answer: subprocess.CompletedProcess[str]) -> dict[str, str]:
    """Return what ``pip install --report -`` would install: name → version."""
    assert answer.returncode == 0, answer.stderr
    return {item["metadata"]["name"]: item["metadata"]["version"] for item in json.loads(answer.stdout)["install"]}


def sources(installer: str, first: str, second: str | None = None) -> tuple[str, ...]:
    """Return the options for looking into one index, or two: pip takes the newest of both, uv the first that has it."""
    if installer == "uv":
        return ("--index", first, "--default-index", second) if second else ("--default-index", first)
    return ("--index-url", first, *(("--extra-index-url", second) if second else ()))
