"""Storage of measurements. It is written after every measurement, so that a run can be resumed."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.workshop import CORES, ROOT
from wheelsmith.base.errors import WheelsmithError
from wheelsmith.base.files import atomic_write

PATH = ROOT / "bench" / "results.json"
_AGAIN = "run it without --resume"


class Results:
    """Figures with names such as ``usual/stable/torch213-cu130`` in a JSON file.

    :param part: the section of the file, such as ``matrix`` or ``scaling``.
    :param settings: the settings of the run. Figures of different settings are never mixed.
    """

    def __init__(self, part: str, settings: dict[str, Any], path: Path = PATH) -> None:
        self._path, self._part = path, part
        self._data = read_results(path) or {}
        self._settings = {"machine": machine(), "commit": _commit(), **settings}

    def resume(self) -> None:
        """Continue an earlier run.

        :raises WheelsmithError: the earlier run had different settings.
        """
        found = self._data.get(self._part)
        if found is None:
            return self.begin()
        different = [name for name, value in self._settings.items() if found["settings"].get(name) != value]
        if different:
            raise WheelsmithError(f"the run to resume has a different {' and '.join(different)}", remedy=_AGAIN)
        return None

    def begin(self) -> None:
        """Discard the figures of earlier runs."""
        today = datetime.now(tz=UTC).date().isoformat()
        self._data[self._part] = {"date": today, "settings": self._settings, "figures": {}}
        self._write()

    def has(self, name: str) -> bool:
        """Return True if a measurement has succeeded."""
        return "failed" not in self._figures.get(name, {"failed": ""})

    def put(self, name: str, figures: dict[str, Any]) -> None:
        """Store the figures of a measurement."""
        self._figures[name] = figures
        self._write()

    def drop(self, prefix: str) -> None:
        """Discard the figures with a name prefix."""
        for name in [name for name in self._figures if name.startswith(prefix)]:
            del self._figures[name]
        self._write()

    @property
    def _figures(self) -> dict[str, dict[str, Any]]:
        figures: dict[str, dict[str, Any]] = self._data[self._part]["figures"]
        return figures

    def _write(self) -> None:
        atomic_write(self._path, (json.dumps(self._data, indent=1, sort_keys=True) + "\n").encode())


def read_results(path: Path = PATH) -> dict[str, Any] | None:
    """Return the content of a results file, or None if there is none."""
    return json.loads(path.read_text()) if path.exists() else None


def machine() -> dict[str, Any]:
    """Return a description of this machine without its name."""
    processor = next(
        (line.partition(":")[2].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")),
        platform.machine(),
    )
    return {
        "cores": CORES,
        "processor": processor,
        "memory": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "kernel": platform.release().split("-")[0],
        "python": platform.python_version(),
    }


def _lines(path: str) -> list[str]:
    return Path(path).read_text().splitlines() if Path(path).exists() else []


def _commit() -> str:
    answer = subprocess.run(["git", "-C", str(ROOT), "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    return answer.stdout.strip()[:10] or "unknown"
