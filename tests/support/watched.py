"""wheelsmith, as the jobs of a tested pipeline find it.

Only signing, publishing, recording tests and promoting may have credentials. The job whose shard $KILL names is killed
once: when it has a wheel, and not yet all of them.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

RELEASING = {"sign", "publish", "index", "promote"}
SECRETS = {"WHEELSMITH_KEY", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "HF_TOKEN"}


def main() -> None:
    if sys.argv[1] not in RELEASING and (seen := SECRETS.intersection(os.environ)):
        sys.exit(f"{sys.argv[1]} sees {', '.join(sorted(seen))}")
    if sys.argv[1] == "test":
        # pip finds torch where the tests have it, and nothing of this machine's settings.
        for name in [name for name in os.environ if name.startswith("PIP_")]:
            del os.environ[name]
        os.environ.update(json.loads(Path(os.environ["OUTSIDE"]).read_text()))
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
