"""What a look at a live index found: data, which the command line shows and pipelines read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

from wheelsmith.base.json_dataclass import Record
from wheelsmith.index.doctor.exchange import Exchange
from wheelsmith.index.doctor.hosts import host_of, remedy

PIP, UV = "pip", "uv"
BOTH = (PIP, UV)


class Severity(StrEnum):
    """How much a finding hurts, the worst first."""

    ERROR = "error"
    WARNING = "warning"
    ADVICE = "advice"


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexFinding(Record):
    """One thing that is not as it should be.

    :param rule: its stable name.
    :param severity: error: an installer fails; warning: slow, fragile or not the standard; advice: could be better.
    :param message: one sentence.
    :param hurts: who notices, e.g. ``pip``, ``uv``.
    :param places: URLs where it was seen.
    :param command: a curl command that shows the first of them.
    :param host: what seems to serve it; decides the remedy.
    """

    rule: str
    severity: Severity
    message: str
    hurts: tuple[str, ...]
    places: tuple[str, ...]
    command: str
    host: str
    remedy: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis(Record):
    """All that was found, the worst first, and what was looked at.

    :param roots: URLs of the roots that answered.
    :param pages: how many pages of projects were judged; ``wheels``: how many wheels.
    :param requests: how many were made.
    :param unexamined: what could not be judged, and why.
    """

    url: str
    host: str
    findings: tuple[IndexFinding, ...]
    roots: tuple[str, ...]
    pages: int
    wheels: int
    requests: int
    unexamined: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Say whether every installer works."""
        return all(finding.severity is not Severity.ERROR for finding in self.findings)


def finding(
    rule: str, severity: Severity, message: str, shown: Exchange, hurts: tuple[str, ...], *, place: str | None = None
) -> IndexFinding:
    """Make a finding of what an exchange shows, with the remedy for what seems to have answered it."""
    host = host_of(shown)
    return IndexFinding(
        rule=rule,
        severity=severity,
        message=message,
        hurts=hurts,
        places=(place or shown.url,),
        command=shown.command,
        host=host,
        remedy=remedy(rule, host),
    )


def merged(findings: Iterable[IndexFinding]) -> tuple[IndexFinding, ...]:
    """Make one of findings that differ only in their place, and sort: the worst first, else as they came.

    A fault is as bad as it is at its worst place, which stands first.
    """
    order = list(Severity)
    worst_first = sorted(findings, key=lambda item: order.index(item.severity))
    kept: dict[tuple[object, ...], IndexFinding] = {}
    for item in worst_first:
        before = kept.setdefault((item.rule, item.message, item.host), item)
        places = before.places + tuple(place for place in item.places if place not in before.places)
        kept[item.rule, item.message, item.host] = replace(before, places=places)
    return tuple(kept.values())
