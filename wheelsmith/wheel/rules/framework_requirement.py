"""The framework that the version names, where it is not torch, is the one that is required."""

from __future__ import annotations

from collections.abc import Iterator

from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from wheelsmith.base.units import numbers
from wheelsmith.frameworks import framework
from wheelsmith.model import TORCH
from wheelsmith.wheel.inspection import Inspection
from wheelsmith.wheel.report import Finding, finding
from wheelsmith.wheel.rules.rule import Rule

_MOST = 100  # minors, and patches of one


def _examine(wheel: Inspection) -> Iterator[Finding]:
    said = wheel.local_version
    if said.framework == TORCH or said.release is None:
        return
    project = framework(said.framework).project
    lines = [line for line in wheel.requirements.lines if canonicalize_name(line.name) == project]
    named = f"the version says {said.framework} {said.release}"
    everywhere = [line for line in lines if line.marker is None]
    if not everywhere:
        yield finding("framework-requirement", [f"{named}, and {project} is not required everywhere"], "")
        return
    wrong = [f"{named}, Requires-Dist names a URL for {project}" for line in lines if line.url]
    allowed = SpecifierSet()
    for line in everywhere:
        allowed &= line.specifier
    text = f"{project}{allowed}"
    if others := [release for release in _beside(said.release) if allowed.contains(release, prereleases=True)]:
        wrong.append(f"{named}, Requires-Dist says {text}, which may be {others[0]}")
    elif not any(allowed.contains(version, prereleases=True) for version in _within(said.release, allowed)):
        wrong.append(f"{named}, Requires-Dist says {text}")
    yield finding("framework-requirement", wrong, f"Requires-Dist: {text}")


def _beside(release: str) -> Iterator[str]:
    """Yield versions of the minors before and after one: what admits none of them is within it, or has gaps."""
    major, minor = numbers(release)
    for other in range(_MOST):
        if other != minor:
            yield from (f"{major}.{other}.dev0", f"{major}.{other}", f"{major}.{other}.9999")
    yield f"{major + 1}.0"


def _within(release: str, allowed: SpecifierSet) -> Iterator[str]:
    """Yield versions of a minor: its patches, and what is pinned of it, which may be a post-release."""
    yield from (f"{release}.{patch}" for patch in range(_MOST))
    pinned = (each.version for each in allowed if each.operator == "==" and not each.version.endswith(".*"))
    yield from (
        text for text in pinned if list(Version(text).release[:2]) == list(numbers(release)) and "+" not in text
    )


RULE = Rule(
    name="framework-requirement",
    proves="`+cu130.tvmffi0.1` requires apache-tvm-ffi 0.1, by a line without a marker, and no other minor",
    leaves_open="a specifier with gaps, that takes some patch of another minor but not its first version",
    examine=_examine,
)
