"""File name, METADATA and WHEEL say the same."""

from __future__ import annotations

from collections.abc import Iterator

from packaging.utils import canonicalize_name

from wheelsmith.wheel.inspection import Inspection
from wheelsmith.wheel.report import Finding, finding
from wheelsmith.wheel.rules.rule import Rule


def _name_and_version(wheel: Inspection) -> Iterator[Finding]:
    name, version, metadata = wheel.name.project, wheel.name.version, wheel.metadata
    wrong = []
    if canonicalize_name(metadata.get("Name") or "") != name:
        wrong.append(f"METADATA says {metadata.get('Name')}, the file name {name}")
    if metadata.get("Version") != str(version):
        wrong.append(f"METADATA says version {metadata.get('Version')}, the file name {version}")
    yield finding("name-and-version", wrong, f"{name} {version} in file name and METADATA")


def _tags(wheel: Inspection) -> Iterator[Finding]:
    written = {line.strip() for line in wheel.wheel_headers.get_all("Tag")}
    claimed = {str(tag) for tag in wheel.name.tags}
    wrong = [f"WHEEL says {', '.join(sorted(written))}, the file name {', '.join(sorted(claimed))}"]
    yield finding("tags", wrong if written != claimed else [], f"{', '.join(sorted(claimed))} in file name and WHEEL")


NAME_AND_VERSION = Rule(
    name="name-and-version",
    proves="METADATA and the file name agree",
    examine=_name_and_version,
)
TAGS = Rule(
    name="tags",
    proves="WHEEL and the file name agree",
    examine=_tags,
)
