"""What a job says of wheels that it tested, as a file.

The job ran what a kernel brings: any program may have written it, and nobody checks that it is so.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from wheelsmith.base.errors import WheelTestError
from wheelsmith.base.json_dataclass import Record, in_one_line
from wheelsmith.base.units import counted
from wheelsmith.index.entries.entry import WheelOutcome, WheelTest
from wheelsmith.index.entries.validity import check_test
from wheelsmith.wheel.attestation.bundle import strict_json

SCHEMA_VERSION = 1
LONGEST = 1 << 20  # bytes of a file
_MOST = 100  # tests in it: a wheel of an index has no more than ten times that


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedTest(Record):
    """What a test of one wheel came to.

    :param wheel: its file name.
    :param sha256: of its bytes, by which it is found in an index.
    :param where: the machine, in words.
    :param cell: id of the cell whose torch was beside it; None where that is not said.
    :param details: an address that tells more.
    """

    wheel: str
    sha256: str
    outcome: WheelOutcome
    where: str
    cell: str | None = None
    details: str | None = None

    @property
    def test(self) -> WheelTest:
        """Return it as an index has it."""
        return WheelTest(outcome=self.outcome, where=self.where, cell=self.cell, details=self.details)


@dataclass(frozen=True, slots=True, kw_only=True)
class _File(Record):
    tests: tuple[RecordedTest, ...]
    schema_version: int


def dump_tests(tests: Iterable[RecordedTest]) -> bytes:
    """Write tests as ``load_tests`` reads them."""
    file = _File(tests=tuple(tests), schema_version=SCHEMA_VERSION)
    return json.dumps(file.to_json(), indent=1).encode() + b"\n"


def load_tests(data: bytes, place: str) -> tuple[RecordedTest, ...]:
    """Read what a job says.

    :param place: where it came from, for the error.
    :raises WheelTestError: it is nothing that ``dump_tests`` could have written.
    """
    try:
        return _read(data)
    except (ValueError, TypeError, RecursionError) as error:
        remedy = "run the test again: wheelsmith test --output FILE"
        raise WheelTestError(f"{place} does not tell of tests: {in_one_line(error)}", remedy=remedy) from None


def _read(data: bytes) -> tuple[RecordedTest, ...]:
    if len(data) > LONGEST:
        raise ValueError(f"it has more than {LONGEST >> 20} MiB")
    file = _File.from_json(strict_json(data))
    if file.schema_version != SCHEMA_VERSION:
        raise ValueError(f"it is of another version than {SCHEMA_VERSION}")
    if not 0 < len(file.tests) <= _MOST:
        raise ValueError(f"it tells of {counted(len(file.tests), 'test')}")
    for each in file.tests:
        if each.outcome is WheelOutcome.UNTESTED:
            raise ValueError("who did not test says nothing")
        check_test(each.test)
    return file.tests
