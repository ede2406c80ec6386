"""A module that is bytecode alone can be run by every Python that the tags name."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from wheelsmith.base.files import read_facts
from wheelsmith.base.units import counted
from wheelsmith.wheel.inspection import Inspection
from wheelsmith.wheel.report import Finding, finding
from wheelsmith.wheel.rules.rule import Rule


def _examine(wheel: Inspection) -> Iterator[Finding]:
    sources = {_module(name) for name in wheel.files if name.endswith((".py", ".so"))}
    compiled = [name for name in wheel.files if name.endswith(".pyc") and "__pycache__" not in name]
    alone = [name for name in compiled if _module(name) not in sources]
    pythons = {f"{env['implementation_name']} {env['python_version']}" for env in wheel.environments}
    wrong = []
    for name in alone:
        made = _python(wheel.archive.read(name)[:2])
        if pythons != {made}:
            wrong.append(
                f"{name} is bytecode of {made} without a source, and the tags name {', '.join(sorted(pythons))}"
            )
    if alone:
        yield finding("bytecode", wrong, f"{counted(len(alone), 'module')} of bytecode alone")


def _module(path: str) -> str:
    return re.sub(r"\.[^/]*$", "", path)


def _python(magic: bytes) -> str:
    number = int.from_bytes(magic, "little")
    made = (f"cpython {version}" for version, numbers in _magic_numbers().items() if number in numbers)
    return next(made, "no known CPython")


@cache
def _magic_numbers() -> dict[str, range]:
    """Return the magic numbers of each CPython's bytecode, by its ``major.minor``."""
    facts = read_facts("wheelsmith.wheel", "bytecode.json")
    starts = [*facts["first"].values(), facts["end"]]
    ranges = zip(facts["first"], starts[:-1], starts[1:], strict=True)
    return {version: range(first, following) for version, first, following in ranges}


RULE = Rule(
    name="bytecode",
    proves="a module that is bytecode alone is that of the one Python that the tags and Requires-Python let in",
    leaves_open="bytecode beside its source: that in `__pycache__` may be another program's",
    examine=_examine,
)
