"""Have a test import what its wheel installed, wherever else its source can be found.

Copied beside the wheel under the name that every Python imports when it starts. pytest puts the folder of a project's
tests before all else on the path, and ``cd src`` that of its source: what was not installed would be tested.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType

_SITE = str(Path(__file__).parent.parent / "site")
# The tests themselves: some projects install theirs by mistake.
_TESTS = {"test", "tests", "conftest"}


class _InstalledFirst:
    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Find a package or module that the wheel has; those that several projects share are found as ever."""
        del target
        if path is not None or name in _TESTS:
            return None
        found = PathFinder.find_spec(name, [_SITE])
        return found if found and found.origin else None


sys.meta_path.insert(0, _InstalledFirst)
