"""Node packages that tests use, as tests/e2e/web locks them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
import wants
from factory import ROOT
from filelock import FileLock

_LOCKED = ROOT / "tests" / "e2e" / "web"


def node_tools(config: pytest.Config) -> Path:
    """Return node_modules with all of them; they may be those of an earlier run."""
    wants.program("npm")
    folder = Path(config.cache.mkdir("web"))
    lock = (_LOCKED / "package-lock.json").read_text()
    with FileLock(folder / "lock"):
        done = folder / "done"
        if not done.is_file() or done.read_text() != lock:
            for name in ("package.json", "package-lock.json"):
                shutil.copy(_LOCKED / name, folder)
            npm = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--silent"]
            answer = subprocess.run(npm, cwd=folder, capture_output=True, text=True)
            if answer.returncode:
                wants.absent(f"npm could not fetch what tests/e2e/web locks: {answer.stderr[-300:]}")
            done.write_text(lock)
    return folder / "node_modules"
