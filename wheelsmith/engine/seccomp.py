"""The filter of system calls as container engines read it."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from wheelsmith.base.files import atomic_write
from wheelsmith.base.json_dataclass import canonical_digest
from wheelsmith.engine.seccomp_rules import CallRule, system_calls

# Without sub-architectures: engines shut 32-bit and x32 calls where none is named.
_ARCHITECTURES = ("SCMP_ARCH_X86_64", "SCMP_ARCH_AARCH64")


def profile_file(folder: Path) -> Path:
    """Return the file that an engine reads the filter from, writing it where it is not there."""
    profile = container_profile()
    kept = folder / f"seccomp-{canonical_digest(profile)[:16]}.json"
    if not kept.exists():
        atomic_write(kept, profile.encode())
    return kept


@cache
def container_profile() -> str:
    """Return the filter as the JSON that ``--security-opt seccomp=`` names, the same for docker and podman."""
    known = system_calls()
    profile = {
        "defaultAction": "SCMP_ACT_ERRNO",
        "defaultErrnoRet": known.unknown_errno,
        "archMap": [{"architecture": name, "subArchitectures": []} for name in _ARCHITECTURES],
        "syscalls": [entry for rule in known.rules for entry in _entries(rule)],
    }
    return json.dumps(profile, sort_keys=True)


def _entries(rule: CallRule) -> list[dict[str, Any]]:
    names = list(rule.names)
    if rule.errno is None:
        return [{"names": names, "action": "SCMP_ACT_ALLOW", "args": []}]
    if not rule.only:
        return [{"names": names, "action": "SCMP_ACT_ERRNO", "errnoRet": rule.errno, "args": []}]
    # What matches none of these gets the default answer: a rule for the rest would shadow them.
    return [
        {"names": names, "action": "SCMP_ACT_ALLOW", "args": [_argument(*test) for test in case]}
        for way in rule.only
        for case in way.cases()
    ]


def _argument(index: int, mask: int, value: int) -> dict[str, Any]:
    return {"index": index, "value": mask, "valueTwo": value, "op": "SCMP_CMP_MASKED_EQ"}
