"""Run all phases of one compile step in one container, because containers are slow to start.

This program runs inside containers, so it uses only the standard library.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

_ID = "--module_id_file_name"
# Matches a module ID that ends with a PID. The ID of a source that defines external names ends with those.
_WITH_PROCESS = re.compile(rb"(\w+_[0-9a-f]{8}_)\d+", re.ASCII)
_FIRST = b"2"


def run_phases(file: str) -> int:
    """Run the phases in order and return the exit code of the first that fails, or 0.

    :param file: JSON file with the phases: commands, and copies of files to make before each.
    """
    for phase in json.loads(Path(file).read_text(encoding="utf-8")):
        for seen, made in phase["copies"].items():
            shutil.copyfile(made, seen)
        code = subprocess.run(phase["argv"], check=False).returncode
        if code:
            return code if code > 0 else 128 - code
        _rename_process(phase["argv"])
    return 0


def _rename_process(argv: list[str]) -> None:
    """Replace the PID in the module ID of cudafe++ with the PID in a new sandbox, as on engines with fast starts."""
    if _ID not in argv:
        return
    path, text = Path(argv[argv.index(_ID) + 1]), Path(argv[argv.index("--gen_c_file_name") + 1])
    module_id = path.read_bytes()
    if match := _WITH_PROCESS.fullmatch(module_id):
        named = match[1] + _FIRST
        path.write_bytes(named)
        text.write_bytes(text.read_bytes().replace(module_id, named))


if __name__ == "__main__":
    sys.exit(run_phases(sys.argv[1]))
