"""wheelsmith, as the jobs of a tested pipeline find it.

Only signing and publishing may have credentials. The job whose shard $KILL names is killed once: when it has a wheel,
and not yet all of them.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

SECRETS = {"WHEELSMITH_KEY", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"}


def main() -> None:
    if sys.argv[1] not in {"sign", "publish"} and (seen := SECRETS.intersection(os.environ)):
        sys.exit(f"{sys.argv[1]} sees {', '.join(sorted(seen))}")
    argv = [sys.executable, "-m", "wheelsmith", *sys.argv[1:]]
    killed = Path(os.environ.get("KILLED") or os.devnull)
    if os.environ.get("KILL") not in sys.argv or killed.exists():
        os.execv(sys.executable, argv)
    run = subprocess.Popen([*argv, "--jobs", "1"], stderr=subprocess.PIPE, text=True, start_new_session=True)
    for line in run.stderr or ():
        print(line, end="", file=sys.stderr, flush=True)
        if line.rstrip().endswith(".whl"):
            killed.touch()
            os.killpg(run.pid, signal.SIGKILL)
            break
    run.wait()
    os.kill(os.getpid(), signal.SIGKILL)


main()
