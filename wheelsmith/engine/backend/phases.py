"""Run the phases of one compile step one after another: for engines that take long to start.

Runs inside containers as a program, so it needs nothing but Python.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path


def run_phases(file: str) -> int:
    """Run commands until one fails, and return its exit code."""
    for phase in json.loads(Path(file).read_text(encoding="utf-8")):
        for seen, made in phase["copies"].items():
            shutil.copyfile(made, seen)
        code = subprocess.run(phase["argv"], check=False).returncode
        if code:
            return code if code > 0 else 128 - code
    return 0


if __name__ == "__main__":
    sys.exit(run_phases(sys.argv[1]))
