"""Run builds in podman, docker or bubblewrap, or directly on the machine."""

from wheelsmith.base.sanitize import visible
from wheelsmith.engine.cgroup import available_cores, available_memory
from wheelsmith.engine.choose import choose, engine_for_own_programs, engines
from wheelsmith.engine.containers import ContainerEngine
from wheelsmith.engine.docker import Docker
from wheelsmith.engine.installed_compilers import with_installed_toolkit, with_installed_toolset
from wheelsmith.engine.installed_python import this_machine, with_python_digest
from wheelsmith.engine.local import Local
from wheelsmith.engine.processes import last_line
from wheelsmith.engine.protocol import (
    Command,
    Engine,
    Exit,
    ExitReason,
    Limits,
    Mount,
    Readiness,
)
from wheelsmith.engine.sandbox_selftest import run_selftest
