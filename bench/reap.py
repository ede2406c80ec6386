"""Run a command and wait for all of its processes, so that their CPU time is measured.

A sandbox may end before its processes do. They then become children of this process, and the caller measures this
process. The script uses only the standard library so that it starts quickly.
"""

import ctypes
import os
import signal
import sys

_SET_CHILD_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER of linux/prctl.h
_MOST_SECONDS = 30


def main() -> int:
    """Run the command and return its exit status."""
    ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the signal is for the command in this process group
    command = os.posix_spawnp(sys.argv[1], sys.argv[1:], os.environ, setsigdef=[signal.SIGTERM])
    status = 0
    while True:
        try:
            pid, ended = os.wait()
        except ChildProcessError:
            return status
        if pid == command:
            status = os.waitstatus_to_exitcode(ended) & 0xFF
            signal.alarm(_MOST_SECONDS)  # do not wait longer for remaining processes


if __name__ == "__main__":
    sys.exit(main())
