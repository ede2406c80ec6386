"""Run the phases of one compile step one after another: for engines that take long to start.

Runs inside containers as a program, so it needs nothing but Python.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

_ID = "--module_id_file_name"
# The last number is that of the process; a source that has external names of its own is known by those.
_WITH_PROCESS = re.compile(rb"(\w+_[0-9a-f]{8}_)\d+", re.ASCII)
_FIRST = b"2"


def run_phases(file: str) -> int:
    """Run commands until one fails, and return its exit code."""
    for phase in json.loads(Path(file).read_text(encoding="utf-8")):
        for seen, made in phase["copies"].items():
            shutil.copyfile(made, seen)
        code = subprocess.run(phase["argv"], check=False).returncode
        if code:
            return code if code > 0 else 128 - code
        _rename_process(phase["argv"])
    return 0


def _rename_process(argv: list[str]) -> None:
    """Have what cudafe++ calls after its process be called as where each phase has a sandbox of its own."""
    if _ID not in argv:
        return
    path, text = Path(argv[argv.index(_ID) + 1]), Path(argv[argv.index("--gen_c_file_name") + 1])
    known = path.read_bytes()
    if match := _WITH_PROCESS.fullmatch(known):
        named = match[1] + _FIRST
        path.write_bytes(named)
        text.write_bytes(text.read_bytes().replace(known, named))


if __name__ == "__main__":
    sys.exit(run_phases(sys.argv[1]))
