"""What a rule is."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from wheelsmith.wheel.inspection import Inspection
from wheelsmith.wheel.report import Finding


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One thing that is proven of a wheel from its bytes. ``docs/reference/checks.md`` is made of these.

    :param name: as findings and ``--json`` give it.
    :param proves: what holds of a wheel that passes, one sentence.
    :param leaves_open: what a wheel that passes may still get wrong.
    :param in_the_wild: a published wheel that broke it, with its version and how; empty where none is known.
    :param examine: gives a finding for each thing looked at; none where the rule does not apply.
    """

    name: str
    proves: str
    leaves_open: str
    in_the_wild: str = ""
    examine: Callable[[Inspection], Iterable[Finding]]

    def findings(self, wheel: Inspection) -> Iterable[Finding]:
        """Return what the rule finds in a wheel."""
        return self.examine(wheel)
