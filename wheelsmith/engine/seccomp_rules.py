"""The filter of system calls: the rules of ``system_calls.json``, for bubblewrap and for container engines."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

from wheelsmith.base.files import atomic_write, read_facts
from wheelsmith.base.json_dataclass import Record, canonical_digest

# Without sub-architectures: engines shut 32-bit and x32 calls where none is named.
_ARCHITECTURES = ("SCMP_ARCH_X86_64", "SCMP_ARCH_AARCH64")


@dataclass(frozen=True, slots=True, kw_only=True)
class ArgumentIs(Record):
    """What an argument of a call must be: one of ``values``, once it is masked.

    :param argument: counted from 0.
    :param mask: hexadecimal. The kernel drops the upper half of an ``int``, and so do masks of 32 bits: a comparison
        of all 64 bits would be passed by a bit that nobody reads.
    """

    argument: int
    mask: str
    values: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AllowedArguments(Record):
    """One way in which a call is let through: every one of its arguments is as said."""

    means: str
    arguments: tuple[ArgumentIs, ...]

    def cases(self) -> tuple[tuple[tuple[int, int, int], ...], ...]:
        """Return every combination of (argument, mask, value) that is let through."""
        each = ([(one.argument, int(one.mask, 16), value) for value in one.values] for one in self.arguments)
        return tuple(product(*each))


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRule(Record):
    """What becomes of some calls.

    :param errno: what a refused call answers; None refuses none.
    :param only: with an ``errno``: the ways in which the call is let through all the same.
    """

    names: tuple[str, ...]
    why: str
    errno: int | None = None
    only: tuple[AllowedArguments, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CallFilter(Record):
    """The rules of a sandbox.

    :param unknown_errno: what a call answers that no rule names: that the kernel does not have it.
    :param launch: rules that take the place of others where bubblewrap's last step runs under the filter.
    :param numbers: CPU architecture → call → its number.
    """

    source: str
    date: str
    unknown_errno: int
    rules: tuple[CallRule, ...]
    launch: tuple[CallRule, ...]
    numbers: dict[str, dict[str, int]]

    def by_name(self) -> dict[str, CallRule]:
        """Return the rule of each call."""
        return {name: rule for rule in self.rules for name in rule.names}

    def by_name_at_launch(self) -> dict[str, CallRule]:
        """Return the rule of each call where bubblewrap's last step runs under the filter."""
        return self.by_name() | {name: rule for rule in self.launch for name in rule.names}


@cache
def system_calls() -> CallFilter:
    """Return the one filter that every engine's sandboxes are held to."""
    return CallFilter.from_json(read_facts(__package__, "system_calls.json"))


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
