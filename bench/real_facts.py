"""Which published wheels are checked, and what is known to be true of each: the file bench/real_wheels.json."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field

from bench.workshop import ROOT
from wheelsmith.base.errors import WheelsmithError
from wheelsmith.base.json_dataclass import Record
from wheelsmith.model import PinnedFile

PATH = ROOT / "bench" / "real_wheels.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact(Record):
    """Something true of a wheel that its names, tags or metadata do not say.

    :param says: a regular expression for the sentences of ``check`` that state it; None where ``check`` is not
        meant to find it.
    :param fact: the same in words.
    :param command: what another tool is asked; ``{wheel}`` is the file, other paths are members, unpacked.
    :param shows: a regular expression for the line of its answer that proves the fact.
    :param practice: whether it matters to a user.
    """

    says: str | None
    fact: str
    command: str
    shows: str
    practice: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RealWheel(Record):
    """A wheel as published on PyPI.

    :param published: the day, as the index gives it.
    :param holds: what it is an example of.
    """

    pin: PinnedFile
    published: str
    holds: str
    facts: tuple[Fact, ...] = field(default=())

    def fact_behind(self, sentence: str) -> Fact | None:
        """Return the fact that a sentence of ``check`` states, or None."""
        return next((fact for fact in self.facts if fact.says and re.search(fact.says, sentence)), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class RealWheels(Record):
    """Every wheel, and the tools whose word is taken.

    :param read: the day on which the wheels were chosen.
    :param tools: requirements of the tools from PyPI, pinned.
    """

    read: str
    tools: tuple[str, ...]
    wheels: tuple[RealWheel, ...]


def read_real_wheels() -> RealWheels:
    """Return what bench/real_wheels.json holds.

    :raises WheelsmithError: it is not such a file.
    """
    try:
        return RealWheels.from_json(json.loads(PATH.read_text(encoding="utf-8")))
    except ValueError as error:
        raise WheelsmithError(f"{PATH.name}: {error}") from error
