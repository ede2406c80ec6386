"""Programs of npm's that tests run: each has a package.json and its lock in a folder of its own."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import wants
from filelock import FileLock


def fetched(package: Path, folder: Path) -> Path:
    """Return the node_modules with all that a package's lock names; it is fetched where it is not there."""
    wants.program("npm")
    with FileLock(folder / "lock"):
        _fetch(package, folder)
    return folder / "node_modules"


def _fetch(package: Path, folder: Path) -> None:
    lock = (package / "package-lock.json").read_text()
    if (folder / "done").is_file() and (folder / "done").read_text() == lock:
        return
    for name in ("package.json", "package-lock.json"):
        shutil.copy(package / name, folder)
    npm = ["npm", "ci", "--ignore-scripts", "--omit=optional", "--no-audit", "--no-fund", "--silent"]
    try:
        subprocess.run(npm, cwd=folder, capture_output=True, check=True, timeout=300)
    except subprocess.SubprocessError as error:
        wants.absent(f"npm could not fetch {package.name}: {error}")
    (folder / "done").write_text(lock)
