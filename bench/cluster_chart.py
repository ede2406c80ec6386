"""The wall time of a simulated cluster by its cores as SVG, with colours for light and dark pages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, floor, log2, log10

_WIDTH, _HEIGHT = 800, 420
_LEFT, _RIGHT, _TOP, _BOTTOM = 90, 170, 70, 60
_SHOWN = ("equal", "mixed", "late", "deaths", "slow bucket")
_COLOURS = ("#0969da", "#b4793a", "#1a7f37", "#cf222e", "#8250df")
_STYLE = """\
text { font-family: system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; fill: #1f2328 }
.card { fill: #ffffff; stroke: #d1d9e0 }
.title { font-size: 17px; font-weight: 600 }
.small { font-size: 12px; fill: #59636e }
.axis { stroke: #d1d9e0 }
.line { fill: none; stroke-width: 2 }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 }
  .card { fill: #0d1117; stroke: #3d444d }
  .small { fill: #9198a1 }
  .axis { stroke: #3d444d }
}"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A simulated run."""

    cores: int
    cluster: str
    hours: float
    dollars: float


def draw_cluster(points: Sequence[Point], about: str) -> str:
    """Return a chart of wall time by cores, both on logarithmic scales, with the price of equal machines."""
    cores = sorted({point.cores for point in points})
    hours = [point.hours for point in points]
    low, high = floor(log10(min(hours))), ceil(log10(max(hours)))

    def x(value: int) -> float:
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * log2(value / cores[0]) / log2(cores[-1] / cores[0])

    def y(hours: float) -> float:
        return _TOP + (_HEIGHT - _TOP - _BOTTOM) * (high - log10(hours)) / (high - low)

    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
            f'aria-label="{escape(about)}">'
        ),
        f"<style>{_STYLE}</style>",
        f'<rect class="card" x="0.5" y="0.5" width="{_WIDTH - 1}" height="{_HEIGHT - 1}" rx="8"/>',
        '<text class="title" x="24" y="32">Wall time by cores (simulated)</text>',
        f'<text class="small" x="24" y="52">{escape(about)}; both scales are logarithmic</text>',
    ]
    for power in range(low, high + 1):
        at = y(10.0**power)
        parts.append(f'<path class="axis" d="M{_LEFT} {at:.1f}H{_WIDTH - _RIGHT}"/>')
        parts.append(f'<text class="small" x="{_LEFT - 8}" y="{at + 4:.1f}" text-anchor="end">{10.0**power:g} h</text>')
    for point in (each for each in points if each.cluster == "equal"):
        middle = f'x="{x(point.cores):.1f}" text-anchor="middle"'
        cores_text = "1 core" if point.cores == 1 else f"{point.cores} cores"
        parts.append(f'<text class="small" {middle} y="{_HEIGHT - 38}">{cores_text}</text>')
        parts.append(f'<text class="small" {middle} y="{_HEIGHT - 20}">${point.dollars:.0f}</text>')
    for number, (cluster, colour) in enumerate(zip(_SHOWN, _COLOURS, strict=True)):
        own = sorted((point for point in points if point.cluster == cluster), key=lambda point: point.cores)
        line = " ".join(f"{x(point.cores):.1f},{y(point.hours):.1f}" for point in own)
        parts.append(f'<polyline class="line" stroke="{colour}" points="{line}"/>')
        at = _TOP + 16 + 22 * number
        parts.append(f'<path stroke="{colour}" stroke-width="2" d="M{_WIDTH - _RIGHT + 20} {at - 4}h24"/>')
        parts.append(f'<text class="small" x="{_WIDTH - _RIGHT + 52}" y="{at}">{cluster}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"
