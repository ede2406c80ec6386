"""A slice of bench/fuzz_index: broken states, lists, catalogues, pages and results end in no traceback."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent


def test_broken_files_are_refused_or_read():
    command = [sys.executable, ROOT / "bench" / "fuzz_index", "--count", "200", "--seed", "11"]
    answer = subprocess.run(command, capture_output=True, text=True)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert "200 files" in answer.stdout
    assert "0 faults" in answer.stdout
