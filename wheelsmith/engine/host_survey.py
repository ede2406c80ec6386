"""What this machine itself offers to build with, for engines that show it to the commands they run.

Its CUDA toolkit is not part of it: reading one whole takes seconds, and every assembled toolkit is pinned besides.
"""

from __future__ import annotations

from functools import cache

from wheelsmith.engine.backend.survey import compilers_and_pythons
from wheelsmith.model import BuildHost

# What commands find programs by: neither the user's own PATH, nor what /usr/local holds, reaches them.
SYSTEM_PROGRAMS = "/usr/bin:/bin"


@cache
def this_machine() -> BuildHost:
    """Survey this machine, once a process."""
    return BuildHost.from_json({"image": None, "cuda": None, **compilers_and_pythons(SYSTEM_PROGRAMS)})
