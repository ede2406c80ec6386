"""The filter of system calls: the rules of ``system_calls.json``, for container engines and for bubblewrap.

bubblewrap takes the programme that the kernel runs before each call. libseccomp makes such programmes, but the library
need not be there; what is asked of it here is a list of comparisons.
https://docs.kernel.org/userspace-api/seccomp_filter.html
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

from wheelsmith.base.errors import EngineError
from wheelsmith.base.files import atomic_write, read_facts
from wheelsmith.base.json_dataclass import Record, canonical_digest

# Without sub-architectures: engines shut 32-bit and x32 calls where none is named.
_PROFILE_ARCHITECTURES = ("SCMP_ARCH_X86_64", "SCMP_ARCH_AARCH64")
# struct seccomp_data: the call's number, its architecture, an address, and six arguments of 64 bits.
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16
# linux/audit.h. Every other calling convention of the machine has another: a 64-bit process can make 32-bit calls,
# whose numbers mean other things. x32's calls share x86_64's architecture and have a bit in their number, which puts
# them above every rule.
_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_LOAD, _AND, _JUMP, _JUMP_IF_EQUAL, _JUMP_IF_AT_LEAST, _RETURN = 0x20, 0x54, 0x05, 0x15, 0x35, 0x06
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_WORD = 0xFFFFFFFF
_FARTHEST = 255  # instructions that a conditional jump can skip
_Instruction = tuple[int, int, int, int]  # code, jump if true, jump if false, operand


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
        "archMap": [{"architecture": name, "subArchitectures": []} for name in _PROFILE_ARCHITECTURES],
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


@cache
def launch_filter(machine: str) -> bytes:
    """Return the filter, with the calls of bubblewrap's last step, as an array of ``struct sock_filter``.

    :param machine: CPU architecture, as ``x86_64``.
    :raises EngineError: the calls of this architecture are not known.
    """
    known = system_calls()
    if machine not in known.numbers:
        raise EngineError(
            f"no filter of system calls is known for {machine}",
            remedy="build on x86_64 or aarch64, or in containers of your own choice with --engine local",
        )
    return assemble(known.by_name_at_launch(), known.numbers[machine], _ARCHITECTURES[machine], known.unknown_errno)


def assemble(rules: Mapping[str, CallRule], numbers: Mapping[str, int], architecture: int, unknown: int) -> bytes:
    """Return the programme that holds one architecture's calls to these rules.

    :param rules: call → what becomes of it; of calls without number nothing is said.
    :param architecture: its AUDIT_ARCH_… number.
    :param unknown: the errno of calls without rule, and of every call of another architecture.
    """
    verdicts = sorted((number, rules[name]) for name, number in numbers.items() if name in rules)
    refused = [_answer(unknown)]
    programme = [(_LOAD, 0, 0, _ARCHITECTURE), (_JUMP_IF_EQUAL, 1, 0, architecture), *refused, (_LOAD, 0, 0, _NUMBER)]
    # In order of number, each run of calls with the same answer is left as soon as a number lies beyond it.
    place = 0
    for first, last, block in _runs(verdicts):
        if first > place:
            programme += _until(first, refused)
        programme += _until(last + 1, block)
        place = last + 1
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in [*programme, *refused])


def _runs(verdicts: list[tuple[int, CallRule]]) -> list[tuple[int, int, list[_Instruction]]]:
    runs: list[tuple[int, int, list[_Instruction]]] = []
    for number, rule in verdicts:
        block = _block(rule)
        if runs and runs[-1][1] == number - 1 and runs[-1][2] == block:
            runs[-1] = (runs[-1][0], number, block)
        else:
            runs.append((number, number, block))
    return runs


def _until(beyond: int, block: list[_Instruction]) -> list[_Instruction]:
    """Run a block, which returns, unless the number is ``beyond`` or more."""
    if len(block) <= _FARTHEST:
        return [(_JUMP_IF_AT_LEAST, len(block), 0, beyond), *block]
    return [(_JUMP_IF_AT_LEAST, 0, 1, beyond), (_JUMP, 0, 0, len(block)), *block]


def _block(rule: CallRule) -> list[_Instruction]:
    if rule.errno is None:
        return [(_RETURN, 0, 0, _ALLOW)]
    block: list[_Instruction] = []
    for case in (case for way in rule.only for case in way.cases()):
        tests = [test for argument, mask, value in case for test in _tests(argument, mask, value)]
        block += _all_of(tests)
    return [*block, _answer(rule.errno)]


def _tests(argument: int, mask: int, value: int) -> list[tuple[int, int, int]]:
    """Return (offset, mask, value) of each 32-bit word to look at, the lower first, as both architectures have it."""
    offset = _ARGUMENTS + 8 * argument
    halves = [(offset, mask & _WORD, value & _WORD), (offset + 4, mask >> 32, value >> 32)]
    return [half for half in halves if half[1]]


def _all_of(tests: list[tuple[int, int, int]]) -> list[_Instruction]:
    """Allow the call if every test holds, or else go on behind."""
    block: list[_Instruction] = [(_RETURN, 0, 0, _ALLOW)]
    for offset, mask, value in reversed(tests):
        masked = [(_AND, 0, 0, mask)] if mask != _WORD else []
        block = [(_LOAD, 0, 0, offset), *masked, (_JUMP_IF_EQUAL, 0, len(block), value), *block]
    return block


def _answer(errno: int) -> _Instruction:
    return (_RETURN, 0, 0, _ERRNO | errno)
