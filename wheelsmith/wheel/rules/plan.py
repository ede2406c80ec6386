"""The wheel is the one that was planned."""

from __future__ import annotations

from collections.abc import Iterator

from packaging.utils import canonicalize_name

from wheelsmith.model import WheelSpec
from wheelsmith.wheel.inspection import Inspection
from wheelsmith.wheel.report import Finding, finding
from wheelsmith.wheel.rules.rule import Rule


def _examine(wheel: Inspection) -> Iterator[Finding]:
    if wheel.expected:
        yield from _promises(wheel, wheel.expected)


def _promises(wheel: Inspection, spec: WheelSpec) -> Iterator[Finding]:
    if spec.metadata is not None:
        same = wheel.text(f"{wheel.info}/METADATA") == spec.metadata.encode()
        yield finding("plan-metadata", [] if same else ["METADATA is not the plan's"], "METADATA is the plan's")
    name, version, tags = wheel.name.project, wheel.name.version, wheel.name.tags
    planned = (canonicalize_name(spec.distribution), spec.version)
    wrong = [] if (name, str(version)) == planned else [f"the plan is for {spec.distribution} {spec.version}"]
    yield finding("plan-name", wrong, f"{name} {version} as planned")
    # A project may do better than its plan: abi3, which serves later Pythons too.
    wrong = [
        str(tag)
        for tag in tags
        if (tag.interpreter, tag.abi) != (spec.python_tag, spec.abi_tag)
        and not (spec.metadata is None and tag.abi == "abi3")
    ]
    yield finding("plan-tags", wrong, f"{spec.python_tag}-{spec.abi_tag} as planned")


RULE = Rule(
    name="plan",
    proves="in a build: name, version, tags and METADATA are the plan's",
    leaves_open="METADATA of a project that writes its own, which other rules read",
    examine=_examine,
)
