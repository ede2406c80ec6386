"""Import the packages of the tested wheel from this folder only, whatever a test adds to ``sys.path``.

This module is copied into the environment of a test, and a ``.pth`` file imports it. Without it, pytest would import a
source folder of the same name, because it adds the current folder to ``sys.path``.
"""

from __future__ import annotations

import json
import sys
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import Any

_FOLDER = Path(__file__).parent
_NAMES = frozenset(json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8")))


class InstalledFinder:
    """Finds the top-level modules of the wheel."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """Return the installed module. Return None for other modules, and for folders that several wheels share."""
        del path
        found = PathFinder.find_spec(name, [str(_FOLDER)], target) if name in _NAMES else None
        return found if found and found.has_location else None


sys.meta_path.insert(0, InstalledFinder)
