"""pip of several ages, and uv, without this machine's settings and caches."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

UV = Path(sys.executable).with_name("uv")
# The first that knows `--report` is 22.2, the first that reads side-cars as of PEP 714 is 23.2. The first that knows
# manylinux_2_17 is 20.3; it reads HTML alone, and does not run on Python 3.12.
PIPS = {"pip 20.3": "pip==20.3.4", "pip 23.2": "pip==23.2", "newest pip": "pip"}
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
        """Give a virtual environment with these packages and no others.

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

    def _run(self, *argv: object) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(each) for each in argv], env=self._settings(), capture_output=True, text=True, timeout=300
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
    """Give what ``pip install --report -`` would install: name → version."""
    assert answer.returncode == 0, answer.stderr
    return {item["metadata"]["name"]: item["metadata"]["version"] for item in json.loads(answer.stdout)["install"]}


def sources(installer: str, first: str, second: str | None = None) -> tuple[str, ...]:
    """Give the options for looking into one index, or two: pip takes the newest of both, uv the first that has it."""
    if installer == "uv":
        return ("--index", first, "--default-index", second) if second else ("--default-index", first)
    return ("--index-url", first, *(("--extra-index-url", second) if second else ()))
