"""What a container runs first, and by which it ends."""

from __future__ import annotations

import shlex
from importlib.resources import files

from wheelsmith.engine.container_init import READY
from wheelsmith.engine.protocol import Limits

_LATE = 60  # seconds after its time limit at which a container ends by itself, though its leash was cut


def first_process(limits: Limits) -> str:
    """Return a shell's words that wait for the end of the pipe, though not for ever.

    Without Python in the image, what runs beside it can hold the pipe open.
    """
    seconds = int(limits.seconds) + _LATE
    program = shlex.quote(files("wheelsmith.engine").joinpath("container_init.py").read_text(encoding="utf-8"))
    without = f'echo "{READY}"; exec timeout {seconds} cat >/dev/null'
    return f"command -v python3 >/dev/null && exec python3 -I -S -c {program} {seconds}; {without}"
