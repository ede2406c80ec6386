"""The system call filter: the rules in ``system_calls.json``, for container engines and for bubblewrap.

bubblewrap takes a BPF program, which the kernel runs before each call. libseccomp can generate such programs, but it
may not be installed, and this filter needs only comparisons.
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

# No sub-architectures: the engines then refuse 32-bit and x32 calls.
_PROFILE_ARCHITECTURES = ("SCMP_ARCH_X86_64", "SCMP_ARCH_AARCH64")
# Offsets in struct seccomp_data: number of the call, architecture, an address, and six arguments of 64 bits.
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16
# From linux/audit.h. A 64-bit process can make 32-bit calls, which have other numbers, but also another architecture.
# x32 calls have the architecture of x86_64, and a bit in their numbers that makes them larger than all numbers here.
_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_LOAD, _AND, _JUMP, _JUMP_IF_EQUAL, _JUMP_IF_AT_LEAST, _RETURN = 0x20, 0x54, 0x05, 0x15, 0x35, 0x06
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_WORD = 0xFFFFFFFF
_MAX_JUMP = 255  # maximum number of instructions that a conditional jump can skip
_Instruction = tuple[int, int, int, int]  # code, jump if true, jump if false, operand


@dataclass(frozen=True, slots=True, kw_only=True)
class ArgumentIs(Record):
    """A condition on one argument of a call: the masked argument is one of ``values``.

    :param argument: index from 0.
    :param mask: hexadecimal. The kernel ignores the upper half of an ``int``, so its mask has 32 bits. With a 64-bit
        comparison, an unused bit would make a forbidden argument look like another one.
    """

    argument: int
    mask: str
    values: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AllowedArguments(Record):
    """An allowed combination of arguments: all conditions hold.

    :param means: description for readers.
    """

    means: str
    arguments: tuple[ArgumentIs, ...]

    def cases(self) -> tuple[tuple[tuple[int, int, int], ...], ...]:
        """Return every allowed combination of (argument, mask, value)."""
        each = ([(one.argument, int(one.mask, 16), value) for value in one.values] for one in self.arguments)
        return tuple(product(*each))


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRule(Record):
    """A rule for one or more system calls.

    :param why: the reason.
    :param errno: error number that a refused call returns; None allows every call.
    :param only: with an ``errno``, the combinations of arguments that are allowed.
    """

    names: tuple[str, ...]
    why: str
    errno: int | None = None
    only: tuple[AllowedArguments, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CallFilter(Record):
    """The system call filter of a sandbox.

    :param unknown_errno: ENOSYS, the error number for calls without a rule.
    :param launch: rules that override others in bubblewrap, because its last step runs under the filter.
    :param numbers: CPU architecture → name of the call → its number.
    """

    source: str
    date: str
    unknown_errno: int
    rules: tuple[CallRule, ...]
    launch: tuple[CallRule, ...]
    numbers: dict[str, dict[str, int]]

    def by_name(self) -> dict[str, CallRule]:
        """Return name of the call → rule."""
        return {name: rule for rule in self.rules for name in rule.names}

    def by_name_at_launch(self) -> dict[str, CallRule]:
        """Return name of the call → rule, with the overrides for bubblewrap."""
        return self.by_name() | {name: rule for rule in self.launch for name in rule.names}


@cache
def system_calls() -> CallFilter:
    """Return the filter, which is the same for all engines."""
    return CallFilter.from_json(read_facts(__package__, "system_calls.json"))


def profile_file(folder: Path) -> Path:
    """Write the filter for container engines to a file, if it does not exist, and return its path."""
    profile = container_profile()
    path = folder / f"seccomp-{canonical_digest(profile)[:16]}.json"
    if not path.exists():
        atomic_write(path, profile.encode())
    return path


@cache
def container_profile() -> str:
    """Return the filter as a JSON profile for ``--security-opt seccomp=`` of docker and podman."""
    filter_ = system_calls()
    profile = {
        "defaultAction": "SCMP_ACT_ERRNO",
        "defaultErrnoRet": filter_.unknown_errno,
        "archMap": [{"architecture": name, "subArchitectures": []} for name in _PROFILE_ARCHITECTURES],
        "syscalls": [entry for rule in filter_.rules for entry in _entries(rule)],
    }
    return json.dumps(profile, sort_keys=True)


def _entries(rule: CallRule) -> list[dict[str, Any]]:
    names = list(rule.names)
    if rule.errno is None:
        return [{"names": names, "action": "SCMP_ACT_ALLOW", "args": []}]
    if not rule.only:
        return [{"names": names, "action": "SCMP_ACT_ERRNO", "errnoRet": rule.errno, "args": []}]
    # Other arguments get the default errno, because a rule for them would take precedence over these entries.
    return [
        {"names": names, "action": "SCMP_ACT_ALLOW", "args": [_argument(*test) for test in case]}
        for way in rule.only
        for case in way.cases()
    ]


def _argument(index: int, mask: int, value: int) -> dict[str, Any]:
    return {"index": index, "value": mask, "valueTwo": value, "op": "SCMP_CMP_MASKED_EQ"}


@cache
def launch_filter(machine: str) -> bytes:
    """Return the filter for bubblewrap as an array of ``struct sock_filter``.

    :param machine: CPU architecture, for example ``x86_64``.
    :raises EngineError: the numbers of this architecture's calls are unknown.
    """
    filter_ = system_calls()
    if machine not in filter_.numbers:
        raise EngineError(
            f"no system call filter exists for {machine}",
            remedy="build on x86_64 or aarch64, or in a container of your own with --engine local",
        )
    return assemble(
        filter_.by_name_at_launch(), filter_.numbers[machine], _ARCHITECTURES[machine], filter_.unknown_errno
    )


def assemble(rules: Mapping[str, CallRule], numbers: Mapping[str, int], architecture: int, unknown: int) -> bytes:
    """Return the BPF program that applies these rules to the calls of one architecture.

    :param rules: name of the call → rule; calls without a number are ignored.
    :param numbers: name of the call → number.
    :param architecture: number from linux/audit.h, AUDIT_ARCH_….
    :param unknown: error number for calls without a rule and for calls of other architectures.
    """
    numbered = sorted((number, rules[name]) for name, number in numbers.items() if name in rules)
    refused = [_refuse(unknown)]
    program = [(_LOAD, 0, 0, _ARCHITECTURE), (_JUMP_IF_EQUAL, 1, 0, architecture), *refused, (_LOAD, 0, 0, _NUMBER)]
    # The program tests ranges of numbers with the same block in ascending order, and jumps over each range that ends
    # before the number.
    place = 0
    for first, last, block in _runs(numbered):
        if first > place:
            program += _if_below(first, refused)
        program += _if_below(last + 1, block)
        place = last + 1
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in [*program, *refused])


def _runs(numbered: list[tuple[int, CallRule]]) -> list[tuple[int, int, list[_Instruction]]]:
    runs: list[tuple[int, int, list[_Instruction]]] = []
    for number, rule in numbered:
        block = _block(rule)
        if runs and runs[-1][1] == number - 1 and runs[-1][2] == block:
            runs[-1] = (runs[-1][0], number, block)
        else:
            runs.append((number, number, block))
    return runs


def _if_below(beyond: int, block: list[_Instruction]) -> list[_Instruction]:
    """Return instructions that run a block unless the number is ``beyond`` or more. The block must return."""
    if len(block) <= _MAX_JUMP:
        return [(_JUMP_IF_AT_LEAST, len(block), 0, beyond), *block]
    return [(_JUMP_IF_AT_LEAST, 0, 1, beyond), (_JUMP, 0, 0, len(block)), *block]


def _block(rule: CallRule) -> list[_Instruction]:
    if rule.errno is None:
        return [(_RETURN, 0, 0, _ALLOW)]
    block: list[_Instruction] = []
    for case in (case for way in rule.only for case in way.cases()):
        tests = [test for argument, mask, value in case for test in _tests(argument, mask, value)]
        block += _allow_if_all(tests)
    return [*block, _refuse(rule.errno)]


def _tests(argument: int, mask: int, value: int) -> list[tuple[int, int, int]]:
    """Return (offset, mask, value) for each 32-bit word to test. Both architectures are little-endian."""
    offset = _ARGUMENTS + 8 * argument
    halves = [(offset, mask & _WORD, value & _WORD), (offset + 4, mask >> 32, value >> 32)]
    return [half for half in halves if half[1]]


def _allow_if_all(tests: list[tuple[int, int, int]]) -> list[_Instruction]:
    """Return instructions that allow the call if all tests hold, and otherwise continue after them."""
    block: list[_Instruction] = [(_RETURN, 0, 0, _ALLOW)]
    for offset, mask, value in reversed(tests):
        masked = [(_AND, 0, 0, mask)] if mask != _WORD else []
        block = [(_LOAD, 0, 0, offset), *masked, (_JUMP_IF_EQUAL, 0, len(block), value), *block]
    return block


def _refuse(errno: int) -> _Instruction:
    return (_RETURN, 0, 0, _ERRNO | errno)
