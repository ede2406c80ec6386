"""A folder with a matrix, to run wheelsmith in as people do."""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from unittest import mock

from wheelsmith.base.files import default_cache
from wheelsmith.cli.app import main

ROOT = Path(__file__).parent.parent.parent


@dataclass
class Factory:
    """A folder with a matrix, and a cache of its own that shares only the user's toolchains."""

    folder: Path
    cache: Path

    @classmethod
    def at(cls, folder: Path) -> Factory:
        cache = folder / "cache"
        cache.mkdir(parents=True)
        shared = default_cache() / "prefix"
        shared.mkdir(parents=True, exist_ok=True)
        (cache / "prefix").symlink_to(shared)
        locks = default_cache() / "locks"
        locks.mkdir(exist_ok=True)
        (cache / "locks").symlink_to(locks)
        return cls(folder=folder, cache=cache)

    def resolves_alone(self) -> None:
        """Keep what is resolved to itself: a test's own index offers a torch that is no one's."""
        (self.cache / "locks").unlink()
        (self.cache / "locks").mkdir()

    def command(self, *argv: str) -> list[str]:
        return [sys.executable, "-m", "wheelsmith", *argv]

    def environment(self, **env: str) -> dict[str, str]:
        return {**os.environ, "WHEELSMITH_CACHE": str(self.cache), **env}

    def run(self, *argv: str, **env: str) -> subprocess.CompletedProcess[str]:
        answer = subprocess.run(
            self.command(*argv), cwd=self.folder, env=self.environment(**env), capture_output=True, text=True
        )
        assert "Traceback" not in answer.stderr, answer.stderr
        return answer

    def run_in_process(self, *argv: str, **env: str) -> subprocess.CompletedProcess[str]:
        """Run a command as ``run`` does, but in this Python: where a test is of what is built, not of the command."""
        out, err = io.StringIO(), io.StringIO()
        with (
            mock.patch.dict(os.environ, self.environment(**env)),
            mock.patch.object(sys, "argv", ["wheelsmith", *argv]),
            contextlib.chdir(self.folder),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            try:
                main()
            except SystemExit as ended:
                code = int(ended.code or 0)
        assert "Traceback" not in err.getvalue(), err.getvalue()
        return subprocess.CompletedProcess(argv, code, out.getvalue(), err.getvalue())

    def results(self, out: str = "dist") -> dict[str, dict]:
        return json.loads((self.folder / out / "results.json").read_text())["cells"]

    def hashes(self, out: str = "dist") -> dict[str, str]:
        return {name: cell["wheel"]["sha256"] for name, cell in self.results(out).items() if "wheel" in cell}


def gallery(folder: Path, name: str) -> Factory:
    """Lay out the examples elsewhere, to run a matrix of the gallery in its own folder."""
    factory = example(folder)
    return replace(factory, folder=folder / "examples" / "gallery" / name)


def example(folder: Path) -> Factory:
    """Lay out this repository's own matrix and example elsewhere."""
    factory = Factory.at(folder)
    shutil.copy(ROOT / "matrix.yaml", folder)
    shutil.copytree(ROOT / "examples", folder / "examples", ignore=shutil.ignore_patterns("__pycache__"))
    return factory
