"""What this machine itself offers to build with, for engines that show it to the commands they run.

Its CUDA toolkit is not part of it: reading one whole takes seconds, and every assembled toolkit is pinned besides.
"""

from __future__ import annotations

from functools import cache

from wheelsmith.backend.survey import compilers_and_pythons
from wheelsmith.workplace import Workplace


@cache
def this_machine() -> Workplace:
    """Survey this machine, once a process."""
    return Workplace.from_json({"image": None, "cuda": None, **compilers_and_pythons()})
