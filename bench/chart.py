"""The bar chart of the benchmark as SVG, with colours for light and dark pages."""

from __future__ import annotations

from html import escape

from bench.summary import WAYS, Row
from bench.words import WAY_NAMES, duration, times

_WIDTH = 800
_LEFT, _RIGHT = 236, 150
_MARGIN = 24
_HEAD, _FOOT = 74, 44
_BAR, _STEP = 16, 23
_TITLE, _GAP = 26, 16
_STYLE = """\
text { font-family: system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; fill: #1f2328 }
.card { fill: #ffffff; stroke: #d1d9e0 }
.title { font-size: 17px; font-weight: 600 }
.small { font-size: 12px; fill: #59636e }
.kernel { font-size: 14px; font-weight: 600 }
.label { font-size: 13px; text-anchor: end }
.value { font-size: 13px }
.usual { fill: #8c959f } .careful { fill: #b4793a }
.cold { fill: #54aeff } .ready { fill: #0969da } .warm { fill: #0a3069 }
.axis { stroke: #d1d9e0 }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 }
  .card { fill: #0d1117; stroke: #3d444d }
  .small { fill: #9198a1 }
  .usual { fill: #767f89 } .careful { fill: #bd8a4e }
  .cold { fill: #388bfd } .ready { fill: #58a6ff } .warm { fill: #a5d6ff }
  .axis { stroke: #3d444d }
}"""


def draw(groups: list[tuple[str, dict[str, Row]]], title: str, about: str) -> str:
    """Return a chart with a group of bars for each kernel on one linear scale.

    :param groups: the description of each kernel, and its rows by way.
    """
    longest = max(row.wall for _, found in groups for row in found.values())
    parts, y = [], float(_HEAD)
    for name, found in groups:
        parts.append(_text(_MARGIN, y + 14, "kernel", name))
        y += _TITLE
        top = y
        for way in WAYS:
            if way in found:
                parts.append(_bar(found[way], found.get("usual"), y, longest))
                y += _STEP
        parts.append(f'<path class="axis" d="M{_LEFT} {top - 4}V{y - 3}"/>')
        y += _GAP
    height = y + _FOOT - _GAP
    foot = "Wall time, one linear scale. In brackets: how many times longer the usual loop takes."
    return "\n".join(
        [
            (
                f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height:.0f}" role="img" '
                f'aria-label="{escape(title)}">'
            ),
            f"<style>\n{_STYLE}\n</style>",
            f'<rect class="card" x="0.5" y="0.5" width="{_WIDTH - 1}" height="{height - 1:.0f}" rx="8"/>',
            _text(_MARGIN, 34, "title", title),
            _text(_MARGIN, 54, "small", about),
            *parts,
            _text(_MARGIN, height - 18, "small", foot),
            "</svg>\n",
        ]
    )


def _bar(row: Row, usual: Row | None, y: float, longest: float) -> str:
    length = max(1.5, (_WIDTH - _LEFT - _RIGHT) * row.wall / longest)
    value = duration(row.wall)
    if usual and row.way != "usual":
        value += f"  ({times(usual.wall, row.wall)})"
    baseline = y + _BAR - 3.5
    return "\n".join(
        [
            _text(_LEFT - 8, baseline, "label", WAY_NAMES[row.way]),
            f'<rect class="{row.way}" x="{_LEFT}" y="{y}" width="{length:.1f}" height="{_BAR}" rx="2"/>',
            _text(_LEFT + length + 7, baseline, "value", value),
        ]
    )


def _text(x: float, y: float, kind: str, text: str) -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}">{escape(text)}</text>'
