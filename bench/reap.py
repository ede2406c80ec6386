"""Run a command and wait for all that it leaves behind, so that the whole of its tree is accounted for.

A sandbox may end before the processes that it ran are waited for; their CPU seconds would be nobody's. Here they
become children of this process, which the caller waits for. Standard library only, for a start in no time.
"""

import ctypes
import os
import signal
import sys

_SET_CHILD_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER of linux/prctl.h
_MOST_SECONDS = 30


def main() -> int:
    """Run the command line; gives its exit status."""
    ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # meant for the command, which is in this process's group
    command = os.posix_spawnp(sys.argv[1], sys.argv[1:], os.environ, setsigdef=[signal.SIGTERM])
    status = 0
    while True:
        try:
            pid, ended = os.wait()
        except ChildProcessError:
            return status
        if pid == command:
            status = os.waitstatus_to_exitcode(ended) & 0xFF
            signal.alarm(_MOST_SECONDS)  # who stays longer is not waited for


if __name__ == "__main__":
    sys.exit(main())
