"""The wheel is the one that was planned."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from packaging.utils import canonicalize_name

from wheelsmith.base.errors import WheelError
from wheelsmith.model import WheelSpec
from wheelsmith.wheel.inspection import Inspection
from wheelsmith.wheel.report import Finding, finding
from wheelsmith.wheel.rules.rule import Rule


def _examine(wheel: Inspection) -> Iterator[Finding]:
    yield from _recorded(wheel)
    if wheel.expected:
        yield from _promises(wheel, wheel.expected)


def _recorded(wheel: Inspection) -> Iterator[Finding]:
    try:
        recorded = wheel.recorded_plan
    except WheelError as error:
        yield finding("recorded-plan", [error.message], "")
        return
    if recorded is None:
        return
    said, own = recorded.data["wheel"], (wheel.name.project, str(wheel.name.version))
    # A label of a variant comes instead of a local version.
    same = (canonicalize_name(said["distribution"]), said["version"]) == own or wheel.name.label is not None
    wrong = [] if same else [f"it records a plan of {said['distribution'][:80]} {said['version'][:80]}"]
    metadata = hashlib.sha256(wheel.metadata_file).hexdigest()
    if same and wheel.name.label is None and said.get("metadata") not in {None, metadata}:
        wrong = ["it records a plan of another METADATA"]
    yield finding("recorded-plan", wrong, f"the plan {recorded.digest[:12]} of {said['distribution'][:80]}")


def _promises(wheel: Inspection, spec: WheelSpec) -> Iterator[Finding]:
    if spec.metadata is not None:
        same = wheel.metadata_file == spec.metadata.encode()
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
    proves="in a build: name, version, tags and METADATA are the plan's; a plan that a wheel records is of its name, "
    "version and METADATA",
    leaves_open="METADATA of a project that writes its own, which other rules read; whether the plan that is recorded "
    "makes this wheel, which `wheelsmith verify-rebuild` proves",
    examine=_examine,
)
