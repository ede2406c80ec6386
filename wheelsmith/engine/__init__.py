"""Where a build runs: strategies behind one narrow protocol."""

from wheelsmith.engine.choose import choose, engines
from wheelsmith.engine.local import Local
from wheelsmith.engine.processes import visible
from wheelsmith.engine.protocol import (
    Command,
    Ending,
    Engine,
    Exit,
    Limits,
    Mount,
    Probe,
    Readiness,
)

__all__ = [
    "Command",
    "Ending",
    "Engine",
    "Exit",
    "Limits",
    "Local",
    "Mount",
    "Probe",
    "Readiness",
    "choose",
    "engines",
    "visible",
]
