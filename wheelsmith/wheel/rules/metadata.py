"""METADATA keeps its specification."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import cast

from packaging.metadata import Metadata, RawMetadata, parse_email
from packaging.utils import canonicalize_name

from wheelsmith.wheel.inspection import Inspection
from wheelsmith.wheel.report import Finding, finding
from wheelsmith.wheel.rules.rule import Rule

_NEWEST = "2.5"  # version of METADATA
_REQUIRED = ("metadata_version", "name", "version")
_EXTRA = re.compile(r'\bextra == "([^"]+)"|"([^"]+)" == extra\b')  # as packaging writes a marker


def _examine(wheel: Inspection) -> Iterator[Finding]:
    raw, unread = parse_email(wheel.metadata_file)
    wrong = [
        *(["its headers end at a line that is no header"] if wheel.metadata.defects else []),
        *(f"{name} is no field of METADATA, stands there twice or is no UTF-8" for name in sorted(unread)),
        *wheel.requirements.wrong,
        *_validated({key: value for key, value in raw.items() if key in _REQUIRED}),
        # setuptools wrote License-File years before the version of METADATA that knows it, and installers read it.
        *_validated({**raw, "metadata_version": _NEWEST}),
        *_absent(wheel),
        *_itself(wheel),
    ]
    yield finding("metadata", list(dict.fromkeys(wrong)), "METADATA keeps the core metadata specification")


def _validated(raw: dict[str, object]) -> list[str]:
    try:
        Metadata.from_raw(cast("RawMetadata", raw))
    except ExceptionGroup as group:
        # Requirements were read before.
        found = (" ".join(str(error).split())[:300] for error in group.exceptions)
        return [text for text in found if "requires-dist" not in text]
    return []


def _absent(wheel: Inspection) -> Iterator[str]:
    """Yield what METADATA names and the wheel lacks."""
    files = [name for name in wheel.files if name.startswith(f"{wheel.info}/")]
    for value in wheel.metadata.get_all("License-File", []):
        # Metadata 2.4 has them in a folder of their own; before, tools put them wherever they liked.
        path = value.strip()
        if not any(name.endswith(f"/{path}") or name == f"{wheel.info}/{path.rpartition('/')[2]}" for name in files):
            yield f"License-File says {path[:100]!r}, and there is no such file in {wheel.info}"
    for value in wheel.metadata.get_all("Import-Name", []):
        module = value.partition(";")[0].strip().replace(".", "/")
        if module and not any(path.startswith((f"{module}/", f"{module}.")) for path in wheel.files):
            yield f"Import-Name says {value[:60]!r}, and there is no such module in it"
    provided = {canonicalize_name(value.strip()) for value in wheel.metadata.get_all("Provides-Extra", [])}
    markers = " and ".join(str(line.marker) for line in wheel.requirements.lines if line.marker)
    asked = {canonicalize_name(found[1] or found[2]) for found in _EXTRA.finditer(markers)}
    yield from (f"Requires-Dist asks for the extra {name}, which is not provided" for name in sorted(asked - provided))


def _itself(wheel: Inspection) -> Iterator[str]:
    """Yield requirements of the project itself in another version, which no installer can meet."""
    for line in wheel.requirements.lines:
        same = canonicalize_name(line.name) == wheel.name.project and line.marker is None
        if same and not line.specifier.contains(wheel.name.version, prereleases=True):
            yield f"Requires-Dist says {str(line)[:100]!r}, and it is {wheel.name.version} itself"


RULE = Rule(
    name="metadata",
    proves="METADATA keeps the core metadata specification; it names no module, licence file or extra that the wheel "
    "lacks, and does not require the project itself in another version",
    leaves_open="a field of a later version of the specification is accepted in an earlier one, as installers do",
    in_the_wild="ply 3.11: `Metadata-Version: 2.0`, which was never accepted, and `Description-Content-Type: UNKNOWN`",
    examine=_examine,
)
