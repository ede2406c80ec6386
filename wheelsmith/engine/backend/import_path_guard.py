"""Make tests import the modules that the wheel installed, and not those of the source tree.

This file is installed as ``sitecustomize.py``, which every Python imports at its start. Without it, a test could
import the source tree: pytest puts the folder of the tests first on ``sys.path``, and ``cd src`` has the same effect.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType

_SITE = str(Path(__file__).parent.parent / "site")
# Some projects install their tests by mistake. Those of the source tree must run.
_TESTS = {"test", "tests", "conftest"}


class _InstalledFirst:
    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Find a top-level module or package of the wheel, but not a namespace package, which projects may share."""
        del target
        if path is not None or name in _TESTS:
            return None
        found = PathFinder.find_spec(name, [_SITE])
        return found if found and found.origin else None


sys.meta_path.insert(0, _InstalledFirst)
