"""The colours of every page: text is readable where it lies, in both themes; each status that is odd has its own."""

import re

import pytest

from wheelsmith.index.site.grid import GridStatus
from wheelsmith.index.site.human import assets

STYLE = assets()["style"]
COLOURS = dict(re.findall(r"--([a-z-]+): light-dark\((#[0-9a-f]+, #[0-9a-f]+)\)", STYLE))
PAPER = ("ground", "raised", "sunken", "tint")
# What lies on what, beside the ordinary texts on any paper.
PAIRS = [
    *((text, paper) for text in ("ink", "quiet", "accent", "good", "shared", "bad", "warn") for paper in PAPER),
    ("bad", "bad-tint"),
    ("warn", "warn-tint"),
    ("ink", "bad-tint"),
    ("ink", "warn-tint"),
    ("on-accent", "accent"),
]


def luminance(colour):
    digits = colour[1:] if len(colour) == 7 else "".join(2 * digit for digit in colour[1:])
    parts = [int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one, other):
    darker, lighter = sorted((luminance(one), luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_text_has_the_contrast_that_wcag_asks_for_at_level_aa(theme):
    dim = {
        f"{text} on {paper}": round(found, 2)
        for text, paper in PAIRS
        if (found := contrast(COLOURS[text].split(", ")[theme], COLOURS[paper].split(", ")[theme])) < 4.5
    }
    assert dim == {}


@pytest.mark.parametrize("status", [status for status in GridStatus if not status.ordinary])
def test_a_status_that_is_not_ordinary_has_a_colour_of_its_own_and_a_meaning(status):
    rules = re.findall(r"^([^@{}\n]+) \{([^}]*)\}", STYLE, re.MULTILINE)
    assert any(f".is-{status}" in selectors and "td" in selectors and "color:" in body for selectors, body in rules)
    assert status.meaning
    assert status.sign.strip()
