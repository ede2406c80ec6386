"""Where a build runs: strategies behind one narrow protocol."""

from wheelsmith.base.printable import visible
from wheelsmith.engine.choose import ChosenEngine, choose, engine_for_own_programs, engines
from wheelsmith.engine.containers import ContainerEngine
from wheelsmith.engine.docker import Docker
from wheelsmith.engine.granted import granted_cores, granted_memory
from wheelsmith.engine.installed_python import with_python_digest
from wheelsmith.engine.local import Local
from wheelsmith.engine.machine import this_machine
from wheelsmith.engine.processes import last_words
from wheelsmith.engine.promises import Promise, try_promises
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
    "ChosenEngine",
    "Command",
    "ContainerEngine",
    "Docker",
    "Ending",
    "Engine",
    "Exit",
    "Limits",
    "Local",
    "Mount",
    "Probe",
    "Promise",
    "Readiness",
    "choose",
    "engine_for_own_programs",
    "engines",
    "granted_cores",
    "granted_memory",
    "last_words",
    "this_machine",
    "try_promises",
    "visible",
    "with_python_digest",
]
