"""The text of ``wheelsmith --version``, for bug reports."""

from __future__ import annotations

import platform

from wheelsmith import __version__
from wheelsmith.base.files import default_cache
from wheelsmith.engine import Readiness, engines


def version_text() -> str:
    """Return the versions of wheelsmith, Python and the engines that work, and the kind of machine."""
    probes = {name: engine.probe() for name, engine in engines(default_cache()).items()}
    ready = [
        f"{name} {probe.version}"
        for name, probe in probes.items()
        if probe.version and probe.readiness is Readiness.READY
    ]
    parts = [f"Python {platform.python_version()}", *(ready or ["no sandbox"])]
    return f"wheelsmith {__version__} ({', '.join(parts)}, {platform.system()} {platform.machine()})"
