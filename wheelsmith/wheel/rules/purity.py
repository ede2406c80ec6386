"""A platform where something is compiled, and only there."""

from __future__ import annotations

from collections.abc import Iterator

from wheelsmith.wheel.inspection import Inspection
from wheelsmith.wheel.report import Finding, finding
from wheelsmith.wheel.rules.rule import Rule


def _examine(wheel: Inspection) -> Iterator[Finding]:
    platforms = {tag.platform for tag in wheel.name.tags}
    extensions = wheel.extensions
    wrong = []
    if platforms == {"any"} and extensions:
        wrong.append(f"a wheel for any platform holds {next(iter(extensions))}")
    if "any" not in platforms and not extensions:
        wrong.append(f"a wheel for {', '.join(platforms)} holds nothing that is compiled")
    yield finding("purity", wrong, f"{len(extensions)} compiled files for platform {', '.join(sorted(platforms))}")


RULE = Rule(
    name="purity",
    proves="a wheel for any platform holds nothing compiled, and the other way round",
    examine=_examine,
)
