"""podman's own filter of system calls, less those that make namespaces and mounts.

podman lets a container make user namespaces, so that containers nest. A build needs none, and in one it would be root
over parts of the operating system's kernel that attacks go through; docker's own filter refuses the same calls.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

_PROFILES = (Path("/etc/containers/seccomp.json"), Path("/usr/share/containers/seccomp.json"))
_REFUSED = frozenset(
    [
        *("clone", "clone3", "keyctl", "pivot_root", "setns", "unshare"),
        *("fsconfig", "fsmount", "fsopen", "fspick", "mount", "mount_setattr", "move_mount", "open_tree"),
        *("umount", "umount2"),
    ]
)
_CLONE_NEW = 0x7E020000  # every CLONE_NEW… flag of clone(2)
_ENOSYS = 38  # what makes the C library fall back from clone3, whose flags no filter can see, to clone


def podman_profile() -> str | None:
    """Give the stricter profile as JSON, or None where podman brings none to start from."""
    for path in _PROFILES:
        try:
            return json.dumps(stricter(json.loads(path.read_bytes())), sort_keys=True)
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return None


def stricter(profile: dict[str, Any]) -> dict[str, Any]:
    """Refuse the calls that make namespaces and mounts, and leave the rest as it is."""
    rules = [{**rule, "names": [n for n in rule["names"] if n not in _REFUSED]} for rule in profile["syscalls"]]
    plain_clone = {
        "names": ["clone"],
        "action": "SCMP_ACT_ALLOW",
        "args": [{"index": 0, "value": _CLONE_NEW, "valueTwo": 0, "op": "SCMP_CMP_MASKED_EQ"}],
    }
    no_clone3 = {"names": ["clone3"], "action": "SCMP_ACT_ERRNO", "errnoRet": _ENOSYS}
    return {**profile, "syscalls": [*(rule for rule in rules if rule["names"]), plain_clone, no_clone3]}
