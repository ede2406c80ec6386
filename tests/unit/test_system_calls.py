"""The filter of system calls: every call has a verdict, and both of its forms give the same one."""

import json
import platform
import re
import struct
from pathlib import Path

import pytest

from wheelsmith.base.errors import EngineError
from wheelsmith.engine.seccomp import (
    AllowedArguments,
    ArgumentIs,
    CallRule,
    assemble,
    container_profile,
    launch_filter,
    system_calls,
)

ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
I386, ARM = 0x40000003, 0x40000028
ALLOWED = 0x7FFF0000
WIDE = 1 << 32


def refused(errno):
    return 0x00050000 | errno


def run(programme, number, *arguments, architecture=ARCHITECTURES["x86_64"]):
    """Do as the kernel does with a programme; every other instruction is a mistake."""
    data = struct.pack("=IIQ6Q", number, architecture, 0, *(*arguments, *[0] * 6)[:6])
    instructions = list(struct.iter_unpack("=HBBI", programme))
    accumulator = place = 0
    while True:
        code, yes, no, operand = instructions[place]
        place += 1
        if code == 0x20:
            (accumulator,) = struct.unpack_from("=I", data, operand)
        elif code == 0x54:
            accumulator &= operand
        elif code == 0x05:
            place += operand
        elif code in {0x15, 0x35}:
            place += yes if (accumulator == operand if code == 0x15 else accumulator >= operand) else no
        elif code == 0x06:
            return operand
        else:
            pytest.fail(f"instruction {code:x}")


@pytest.mark.parametrize("machine", ARCHITECTURES)
def test_every_call_gets_its_rules_verdict(machine):
    known, programme = system_calls(), launch_filter(machine)
    rules = known.by_name_at_launch()
    by_number = {number: rules[name] for name, number in known.numbers[machine].items()}
    for number in range(700):
        rule = by_number.get(number)
        found = run(programme, number, *[0xDEAD] * 6, architecture=ARCHITECTURES[machine])
        if rule is None:
            assert found == refused(known.unknown_errno), number
        elif rule.errno is None:
            assert found == ALLOWED, rule.names
        elif not rule.only:
            assert found == refused(rule.errno), rule.names
        for way in rule.only if rule else ():
            for case in way.cases():
                arguments = [0xDEAD] * 6
                for argument, _, value in case:
                    arguments[argument] = value
                assert run(programme, number, *arguments, architecture=ARCHITECTURES[machine]) == ALLOWED


def test_no_call_is_without_rule_or_has_two():
    known = system_calls()
    named = [name for rule in known.rules for name in rule.names]
    assert len(named) == len(set(named))
    assert set(named) == {name for numbers in known.numbers.values() for name in numbers}
    assert {name for rule in known.launch for name in rule.names} <= set(named)
    for numbers in known.numbers.values():
        assert len(set(numbers.values())) == len(numbers)
    for rule in known.rules:
        assert rule.why
        assert not rule.only or rule.errno


def test_the_numbers_are_the_kernels():
    """The headers of the C library know those of this machine, and the generic ones, which are ARM's."""
    tables = {
        "x86_64": (Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"), r"#define __NR_(\w+)\s+(\d+)"),
        "aarch64": (Path("/usr/include/asm-generic/unistd.h"), r"#define __NR(?:3264)?_(\w+)\s+(\d+)"),
    }
    if not tables[platform.machine()][0].exists():
        pytest.skip("linux-libc-dev is not installed")
    known = system_calls().numbers
    for machine, (path, pattern) in tables.items():
        if not path.exists():
            continue
        header = {name: int(number) for name, number in re.findall(pattern, path.read_text())}
        header["newfstatat"] = header.get("newfstatat", header.get("fstatat"))
        assert {name: number for name, number in known[machine].items() if header.get(name, number) != number} == {}
        if machine == "x86_64":  # the filter refuses the calls of newer kernels, which it does not know
            names = {name for name, number in header.items() if number <= max(known[machine].values())}
            assert names <= known[machine].keys(), names - known[machine].keys()


def test_other_conventions_of_the_same_machine_are_shut():
    for machine, other in (("x86_64", I386), ("aarch64", ARM)):
        programme = launch_filter(machine)
        assert {run(programme, number, architecture=other) for number in range(450)} == {refused(38)}
    x32 = {run(launch_filter("x86_64"), 0x40000000 | number) for number in range(600)}
    assert x32 == {refused(38)}


def test_bits_that_the_kernel_drops_change_nothing():
    number, programme = system_calls().numbers["x86_64"], launch_filter("x86_64")
    vsock, typing, core = 40, 0x5412, 4
    for more in (0, WIDE, 0xFFFFFFFF << 32):
        assert run(programme, number["socket"], vsock | more, 1) == refused(97)
        assert run(programme, number["ioctl"], 0, typing | more) == refused(25)
        assert run(programme, number["prlimit64"], 0, core | more, 0x1000) == refused(1)
        assert run(programme, number["socket"], 1 | more, 1) == ALLOWED  # the kernel reads AF_UNIX
    assert run(programme, number["prlimit64"], 0, core, 0) == ALLOWED
    assert run(programme, number["prlimit64"], 0, core, WIDE) == refused(1)  # an address that ends in zeros
    assert run(programme, number["clone"], 0x10000011) == refused(1)
    assert run(programme, number["clone"], 17) == ALLOWED


def test_every_condition_of_a_case_must_hold():
    number, programme = system_calls().numbers["x86_64"], launch_filter("x86_64")
    stream, tcp, sctp, route, generic = 1, 6, 132, 0, 16
    assert run(programme, number["socket"], 2, stream, tcp) == ALLOWED
    assert run(programme, number["socket"], 2, stream, sctp) == refused(97)
    assert run(programme, number["socket"], 16, 3, route) == ALLOWED
    assert run(programme, number["socket"], 16, 3, generic) == refused(97)


def test_a_long_rule_is_jumped_over():
    values = tuple(range(1, 400))
    only = (AllowedArguments(means="", arguments=(ArgumentIs(argument=0, mask="0xffffffff", values=values),)),)
    rules = {"long": CallRule(names=("long",), why="", errno=9, only=only), "next": CallRule(names=("next",), why="")}
    programme = assemble(rules, {"long": 5, "next": 6, "other": 7}, ARCHITECTURES["x86_64"], 38)
    assert run(programme, 5, 399) == ALLOWED
    assert run(programme, 5, 400) == refused(9)
    assert run(programme, 6) == ALLOWED
    assert run(programme, 7) == run(programme, 4) == refused(38)


def test_an_unknown_architecture_has_no_filter():
    with pytest.raises(EngineError, match="no system call filter exists for riscv64"):
        launch_filter("riscv64")


def test_containers_get_the_same_rules():
    """bubblewrap's last step has two calls more, for which containers have no use."""
    known, profile = system_calls(), json.loads(container_profile())
    assert profile["defaultAction"] == "SCMP_ACT_ERRNO"
    assert [arch["subArchitectures"] for arch in profile["archMap"]] == [[], []]
    plain = {name for entry in profile["syscalls"] if not entry["args"] for name in entry["names"]}
    for entry in profile["syscalls"]:
        for name in entry["names"]:
            rule = known.by_name()[name]
            if entry["action"] == "SCMP_ACT_ALLOW" and not entry["args"]:
                assert rule.errno is None
            elif entry["action"] == "SCMP_ACT_ERRNO":
                assert (entry["errnoRet"], rule.only) == (rule.errno, ())
            else:
                # A rule without arguments would shadow this one.
                assert name not in plain
                case = tuple((a["index"], a["value"], a["valueTwo"]) for a in entry["args"])
                assert case in [case for way in rule.only for case in way.cases()]
                assert {a["op"] for a in entry["args"]} == {"SCMP_CMP_MASKED_EQ"}
    assert "unshare" in plain
