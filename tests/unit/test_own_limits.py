"""Where less is allowed to wheelsmith itself than it would allow to others, nothing fails for it."""

import resource
import subprocess
import sys

from wheels import make_wheel

REPAIR = """
import sys
from pathlib import Path
from wheelsmith.wheel import auditwheel
auditwheel.repair(*map(Path, sys.argv[1:]))
"""


def test_a_wheel_is_repaired_within_the_limits_of_a_shell(tmp_path):
    def as_a_shell():
        resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
        resource.setrlimit(resource.RLIMIT_CPU, (600, 600))

    wheel = make_wheel(tmp_path / "left", "pure", "1")
    command = [sys.executable, "-c", REPAIR, wheel, tmp_path]
    answer = subprocess.run(command, preexec_fn=as_a_shell, capture_output=True, text=True)
    assert "no manylinux platform fits" in answer.stderr  # it is a pure one
