"""Which system calls a sandbox takes from a build, and why; ``system_calls.json`` has the list."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import product

from wheelsmith.base.facts import read_facts
from wheelsmith.base.json_dataclass import Record


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
