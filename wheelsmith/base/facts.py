"""Facts: data files beside the code that asks for them, each with its source and date."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any


def read_facts(package: str, name: str) -> Any:
    """Return what a data file of a package says, as JSON has it."""
    return json.loads(files(package).joinpath(name).read_text(encoding="utf-8"))
