"""Print the properties of a Python environment as JSON.

The environment's own Python runs this script. It may be as old as 3.8, so only the standard library is used.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import platform
import re
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path


def _torch() -> dict[str, str] | None:
    """Return torch's version and build. torch is not imported, because that takes seconds."""
    try:
        found = {"version": importlib.metadata.version("torch")}
    except importlib.metadata.PackageNotFoundError:
        return None
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        return found
    try:
        text = Path(spec.origin).with_name("version.py").read_text(encoding="utf-8")
    except OSError:
        return found
    for name, value in re.findall(r"^(cuda|hip|xpu)\b[^=\n]*=\s*(?:'([^'\n]*)'|None)", text, re.MULTILINE):
        found[name] = value or "none"
    return found


def _installed(projects: list[str]) -> Iterator[tuple[str, str]]:
    """Yield the installed ones of the given projects, with their versions."""
    for project in projects:
        try:
            yield project, importlib.metadata.version(project)
        except importlib.metadata.PackageNotFoundError:
            continue


def _glibc() -> str:
    """Return the version of glibc, e.g. ``2.36``, or ``0.0`` for another C library."""
    try:
        name, version = (os.confstr("CS_GNU_LIBC_VERSION") or "").split()
    except (AttributeError, OSError, ValueError):
        return "0.0"
    return version if name == "glibc" else "0.0"


json.dump(
    {
        "python": platform.python_version(),
        "implementation": sys.implementation.name,
        "free_threaded": bool(sysconfig.get_config_var("Py_GIL_DISABLED")),
        "platform": sys.platform,
        "arch": platform.machine(),
        "glibc": _glibc(),
        "pip": importlib.util.find_spec("pip") is not None,
        "ensurepip": importlib.util.find_spec("ensurepip") is not None,
        "torch": _torch(),
        "installed": dict(_installed(sys.argv[2:])),
    },
    sys.stdout,
)
