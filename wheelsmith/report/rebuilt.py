"""What came of building wheels again, as a page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from wheelsmith import __version__
from wheelsmith.base.sanitize import visible
from wheelsmith.index.site.human import assets
from wheelsmith.model import RebuildAnswer
from wheelsmith.report.page import report_environment

_CLASSES = {"equal": "active", "different": "failed", "not rebuilt": "yanked"}


def rebuilt_page(answers: Sequence[RebuildAnswer]) -> bytes:
    """Return a page that is whole in itself."""
    tally = Counter(answer.verdict.value for answer in answers)
    return (
        report_environment()
        .get_template("rebuilt.html")
        .render(
            answers=[replace(answer, wheel=visible(answer.wheel)) for answer in answers],
            classes=_CLASSES,
            tally=[(tally[verdict], verdict) for verdict in _CLASSES if tally[verdict]],
            whole=bool(answers) and tally["equal"] == len(answers),
            version=__version__,
            **assets(),
        )
        .encode()
    )
