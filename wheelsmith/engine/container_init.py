"""The first process of a container, as a program for its ``python3``: ``leash.py SECONDS``.

It ends when the pipe that wheelsmith holds does. Whoever may look into a process may open its pipe and keep it from
ever ending; so nobody may look into this one. It is read from inside of images, whose Python may be old.
"""

import os
import select
import sys
import time

READY = "wheelsmith: ready"
_NOT_DUMPABLE = 4, 0  # prctl(2): PR_SET_DUMPABLE, to none


def hold(seconds: float) -> None:
    """Wait for the end of stdin, but no longer than so many seconds."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if select.select([0], [], [], max(0.0, end - time.monotonic()))[0] and not os.read(0, 4096):
            return


if __name__ == "__main__":
    try:
        import ctypes

        ctypes.CDLL(None).prctl(*_NOT_DUMPABLE, 0, 0, 0)
    except (ImportError, OSError):  # a Python without it: the time is still bounded
        pass
    sys.stdout.write(READY + "\n")
    sys.stdout.flush()
    hold(float(sys.argv[1]))
