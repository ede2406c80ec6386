"""Survey the Pythons of this machine, and compute their digests."""

from __future__ import annotations

import ast
import hashlib
from dataclasses import replace
from functools import cache
from pathlib import Path

from wheelsmith.base import sandbox_paths
from wheelsmith.engine.backend.survey import machine_and_pythons
from wheelsmith.frameworks import frameworks
from wheelsmith.model import BuildHost

# The options that setuptools and distutils read from the configuration of their Python.
_OPTIONS = (
    "AR",
    "ARFLAGS",
    "CC",
    "CCSHARED",
    "CFLAGS",
    "CXX",
    "EXT_SUFFIX",
    "LDCXXSHARED",
    "LDFLAGS",
    "LDSHARED",
    "OPT",
)
# Folders where a sandbox mounts something over the machine's files.
_MOUNT_POINTS = (
    *(
        sandbox_paths.WORK,
        sandbox_paths.FINISH,
        *(each.mount_point for each in frameworks().values()),
        sandbox_paths.CUDA,
        sandbox_paths.ROCM,
        sandbox_paths.CXX,
        sandbox_paths.LIBRARIES,
    ),
    *(sandbox_paths.TOOLS, sandbox_paths.ENVIRONMENT, sandbox_paths.REQUIREMENTS),
    *("/tmp", "/run", "/dev", "/proc"),  # noqa: S108  # inside
)
_TABLE_PREFIX = "build_time_vars = "


def hide_unusable_pythons(build_host: BuildHost) -> BuildHost:
    """Move the Pythons of this machine that a sandbox cannot show to ``hidden_pythons``."""
    hidden = {version: reason for version, program in build_host.pythons.items() if (reason := _reason_hidden(program))}
    seen = {version: program for version, program in build_host.pythons.items() if version not in hidden}
    return replace(build_host, pythons=seen, hidden_pythons=hidden)


def _reason_hidden(program: str) -> str | None:
    """Return the reason why a sandbox cannot show the Python at this path, or None."""
    prefix = Path(program).parents[1]
    if covering := next((folder for folder in _MOUNT_POINTS if prefix.is_relative_to(folder)), None):
        return f"it is in {covering}, where the sandbox mounts another folder; install it in another folder"
    if "," in str(prefix):
        return f"compilers split the path of its folder {prefix} at the comma; install it in another folder"
    return None


def with_python_digest(build_host: BuildHost, version: str | None) -> BuildHost:
    """Add the digest of one Python of this machine. Images do not need it, because they have digests themselves."""
    program = build_host.pythons.get(version or "")
    if build_host.image or version is None or program is None:
        return build_host
    return replace(build_host, python_digests={version: _digest(program)})


@cache
def _digest(program: str) -> str:
    """Return the sha256 over a Python's headers and its options for compiling extensions.

    The Python is not run, and its location does not affect the digest.
    """
    prefix, name = Path(program).parents[1], Path(program).name
    digest = hashlib.sha256()
    # Debian has a separate folder for headers that depend on the architecture.
    for folder in (prefix / "include" / name, *sorted((prefix / "include").glob(f"*/{name}"))):
        for header in sorted(path for path in folder.rglob("*") if path.is_file()):
            content = hashlib.sha256(header.read_bytes()).hexdigest()
            digest.update(f"{header.relative_to(prefix)}={content};".encode())
    for data in sorted(prefix.glob(f"lib*/{name}/_sysconfigdata_*.py")):
        digest.update(_options(data).encode())
    return digest.hexdigest()


def _options(data: Path) -> str:
    """Return the build options in a ``_sysconfigdata`` module, or its text if it contains more than a literal table."""
    text = data.read_text(encoding="utf-8")
    try:
        table = ast.literal_eval(text.partition(_TABLE_PREFIX)[2])
        options = "".join(f"{name}={table[name]};" for name in _OPTIONS if name in table)
        return options.replace(str(table["prefix"]), "")
    except (ValueError, TypeError, LookupError, SyntaxError, MemoryError, RecursionError):
        return text


@cache
def this_machine() -> BuildHost:
    """Survey this machine, without its compilers. Cached for the process."""
    return BuildHost.from_json({"image": None, "toolsets": [], "toolkits": {}, **machine_and_pythons()})
