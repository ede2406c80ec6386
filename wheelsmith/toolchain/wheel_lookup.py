"""Whether wheels that were chosen before are still where installers find them."""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass
from pathlib import Path

from packaging.utils import canonicalize_name

from wheelsmith.base.errors import NoEnvironmentError
from wheelsmith.base.redact import redact
from wheelsmith.model import LockedWheel
from wheelsmith.toolchain.environment import pip_report, requirement_of, unreadable_report

_PATIENCE = 600.0  # seconds
_LONGEST = 500  # characters of what pip says


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundWheel:
    """A wheel that an index has.

    :param url: without credentials.
    :param is_yanked: its project has taken it back.
    """

    wheel: LockedWheel
    url: str
    is_yanked: bool


def find_wheels(wheels: tuple[LockedWheel, ...], python: str, arch: str) -> tuple[FoundWheel, ...]:
    """Return where pip finds exactly these wheels.

    :param python: ``major.minor``.
    :raises NoEnvironmentError: one of them is not available.
    :raises ToolchainError: pip did not answer as pip does.
    """
    with tempfile.TemporaryDirectory() as folder:
        lock = Path(folder, "requirements.txt")
        lock.write_text("".join(map(requirement_of, wheels)), encoding="utf-8")
        exactly = ("--no-deps", "--require-hashes", "--requirement", str(lock))
        answer = pip_report(*exactly, python=python, arch=arch, seconds=_PATIENCE)
    if answer.returncode:
        raise NoEnvironmentError(_reason(answer.stderr))
    try:
        found = {canonicalize_name(item["metadata"]["name"]): item for item in json.loads(answer.stdout)["install"]}
        return tuple(_found(wheel, found[canonicalize_name(wheel.name)]) for wheel in wheels)
    except (ValueError, KeyError, TypeError):
        raise unreadable_report() from None


def _found(wheel: LockedWheel, item: dict[str, dict[str, str]]) -> FoundWheel:
    url = redact(item["download_info"]["url"])
    return FoundWheel(wheel=wheel, url=url, is_yanked=bool(item.get("is_yanked")))


def _reason(said: str) -> str:
    """Return what pip says is wrong; of another content, which file has it."""
    lines = [line.strip() for line in said.splitlines()]
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR")]
    changed = [line.partition(" from ")[0] for line in lines if "==" in line and " from " in line]
    if any("DO NOT MATCH THE HASHES" in line for line in errors) and changed:
        return f"{changed[0]} is another file now: its sha256 differs"
    return redact(errors[0] if errors else "pip failed")[:_LONGEST]
