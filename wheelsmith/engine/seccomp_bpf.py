"""Make a filter of system calls into the programme that the kernel runs before each call.

bubblewrap takes such a programme as it is. libseccomp makes them too, but Python's bindings to it are not on package
indexes, and the library itself need not be there; what is asked of it here is a list of comparisons.
https://docs.kernel.org/userspace-api/seccomp_filter.html
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from functools import cache

from wheelsmith.base.errors import EngineError
from wheelsmith.engine.seccomp_rules import CallRule, system_calls

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
