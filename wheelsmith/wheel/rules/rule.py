"""The type of a rule."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from wheelsmith.wheel.inspection import Inspection
from wheelsmith.wheel.report import Finding


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A property of wheels that a static check proves, with its documentation.

    ``scripts/generate_reference.py`` writes ``docs/reference/checks.md`` from the rules.

    :param name: for findings and ``--json``.
    :param proves: the property of a wheel that passes, in one sentence.
    :param leaves_open: mistakes that a wheel may have although it passes.
    :param examine: yields the findings; none if the rule does not apply to the wheel.
    """

    name: str
    proves: str
    leaves_open: str
    examine: Callable[[Inspection], Iterable[Finding]]

    def findings(self, wheel: Inspection) -> Iterable[Finding]:
        """Check a wheel against the rule."""
        return self.examine(wheel)
