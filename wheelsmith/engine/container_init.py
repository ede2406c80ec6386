"""The first process of a container, as a program for the image's ``python3 -c`` with one argument, SECONDS.

The process exits when wheelsmith closes the other end of its stdin pipe. It is not dumpable: otherwise another process
in the container could open the pipe through /proc and keep it open. The code must run on old Pythons, which images may
have.
"""

import os
import select
import sys
import time

READY = "wheelsmith: ready"
_NOT_DUMPABLE = 4, 0  # prctl(2): PR_SET_DUMPABLE, SUID_DUMP_DISABLE


def hold(seconds: float) -> None:
    """Wait until stdin is closed or the given number of seconds has passed."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if select.select([0], [], [], max(0.0, end - time.monotonic()))[0] and not os.read(0, 4096):
            return


if __name__ == "__main__":
    try:
        import ctypes

        ctypes.CDLL(None).prctl(*_NOT_DUMPABLE, 0, 0, 0)
    except (ImportError, OSError):  # a Python without ctypes; the time limit still applies
        pass
    sys.stdout.write(READY + "\n")
    sys.stdout.flush()
    hold(float(sys.argv[1]))
