"""Where a build runs: strategies behind one narrow protocol."""

from wheelsmith.engine.choose import Choice, choose, engines
from wheelsmith.engine.local import Local
from wheelsmith.engine.machine import this_machine
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
    "Choice",
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
    "this_machine",
]
