"""The colours of every page: text is readable where it lies, in both themes; each status that is odd has its own."""

import re

import pytest

from wheelsmith.index.site.grid import GridStatus
from wheelsmith.index.site.human import assets

STYLE = assets()["style"]
# What lies on what, beside the ordinary texts on any paper.


@pytest.mark.parametrize("status", [status for status in GridStatus if not status.ordinary])
def test_a_status_that_is_not_ordinary_has_a_colour_of_its_own_and_a_meaning(status):
    rules = re.findall(r"^([^@{}\n]+) \{([^}]*)\}", STYLE, re.MULTILINE)
    assert any(f".is-{status}" in selectors and "td" in selectors and "color:" in body for selectors, body in rules)
    assert status.meaning
    assert status.sign.strip()
