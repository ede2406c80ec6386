"""The torch that the version names is the torch that is required."""

from __future__ import annotations

from collections.abc import Iterator

from wheelsmith.wheel.inspection import Inspection
from wheelsmith.wheel.report import Finding, finding
from wheelsmith.wheel.rules.rule import Rule


def _examine(wheel: Inspection) -> Iterator[Finding]:
    torch, pin = wheel.torch, wheel.named_torch
    if pin is None or torch is None:
        return
    wrong = []
    if pin and str(torch) != f"=={pin}.*":
        wrong.append(f"the version says torch {pin}, Requires-Dist says torch{torch}")
    if not pin and not any(specifier.operator == ">=" for specifier in torch):
        wrong.append(f"the version names no torch, Requires-Dist says torch{torch}")
    yield finding("torch-requirement", wrong, f"Requires-Dist: torch{torch}")


RULE = Rule(
    name="torch-requirement",
    proves="`Requires-Dist: torch` fits the local version: `+cu130.torch2.11` requires `==2.11.*`",
    examine=_examine,
)
