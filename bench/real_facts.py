"""The content of bench/real_wheels.json: published wheels to check, and known facts about each of them."""

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
    """A fact about a wheel that differs from its name, tags or metadata.

    :param says: a regular expression for the messages of ``check`` that report the fact; None if ``check`` is not
        expected to find it.
    :param fact: the fact in words.
    :param command: a command of another tool; ``{wheel}`` is the file, and other paths are unpacked members.
    :param shows: a regular expression for the line of output that proves the fact.
    :param practice: the effect on users.
    """

    says: str | None
    fact: str
    command: str
    shows: str
    practice: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RealWheel(Record):
    """A published wheel on PyPI.

    :param published: the upload date on the index.
    :param holds: a description of the case that the wheel represents.
    """

    pin: PinnedFile
    published: str
    holds: str
    facts: tuple[Fact, ...] = field(default=())

    def fact_behind(self, sentence: str) -> Fact | None:
        """Return the fact that a message of ``check`` reports, or None."""
        return next((fact for fact in self.facts if fact.says and re.search(fact.says, sentence)), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class RealWheels(Record):
    """All wheels, and the tools that confirm the facts.

    :param read: the date on which the wheels were chosen.
    :param tools: pinned requirements of the tools on PyPI.
    """

    read: str
    tools: tuple[str, ...]
    wheels: tuple[RealWheel, ...]


def read_real_wheels() -> RealWheels:
    """Read bench/real_wheels.json.

    :raises WheelsmithError: the file is invalid.
    """
    try:
        return RealWheels.from_json(json.loads(PATH.read_text(encoding="utf-8")))
    except ValueError as error:
        raise WheelsmithError(f"{PATH.name}: {error}") from error
