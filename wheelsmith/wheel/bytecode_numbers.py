"""Which CPython made a file of bytecode."""

from __future__ import annotations

from functools import cache

from wheelsmith.base.files import read_facts


@cache
def bytecode_numbers() -> dict[str, range]:
    """Return the magic numbers of each CPython's bytecode, by its ``major.minor``, oldest first."""
    plain = read_facts(__package__, "bytecode.json")
    starts = [*plain["first"].values(), plain["end"]]
    return {
        version: range(first, following)
        for version, first, following in zip(plain["first"], starts[:-1], starts[1:], strict=True)
    }
