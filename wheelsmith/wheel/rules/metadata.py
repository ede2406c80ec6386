"""METADATA keeps its specification."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from typing import Literal, cast

from packaging.metadata import Metadata, RawMetadata, parse_email
from packaging.utils import canonicalize_name

from wheelsmith.base.projects import known_projects
from wheelsmith.wheel.inspection import Inspection
from wheelsmith.wheel.marker_environments import EXTRA
from wheelsmith.wheel.report import Finding, finding
from wheelsmith.wheel.requirements import LONG_NUMBER, requires_python
from wheelsmith.wheel.rules.rule import Rule

_NEWEST = "2.5"  # version of METADATA
_REQUIRED: tuple[Literal["metadata_version", "name", "version"], ...] = ("metadata_version", "name", "version")
# Characters of fields that have a grammar.
_LONGEST = {
    "License-Expression": 1000,
    "Description-Content-Type": 300,
    "Name": 300,
    "Version": 300,
    "Provides-Extra": 300,
}
_MOST_NAMES = 200  # of fields: the specification knows forty
_NUMBERED = ("Version", "Requires-Python", "Metadata-Version", "Provides-Dist", "Obsoletes-Dist", "Requires-External")


def _examine(wheel: Inspection) -> Iterator[Finding]:
    wrong = [*wheel.metadata.wrong, *_too_much(wheel)] or _against_specification(wheel)
    yield finding("metadata", wrong, "METADATA keeps the core metadata specification")


def _too_much(wheel: Inspection) -> Iterator[str]:
    """Find what would keep the reader of METADATA busy, or that it does not expect."""
    headers = wheel.metadata
    yield from wheel.requirements.wrong
    try:
        wheel.text(f"{wheel.info}/METADATA").decode("utf-8")
    except UnicodeDecodeError as error:
        yield f"its description is not UTF-8: {error.reason} at byte {error.start}"
    if requires_python(headers.get("Requires-Python")) is None:
        yield f"Requires-Python {(headers.get('Requires-Python') or '')[:60]!r} cannot be read, or followed"
    for field, longest in _LONGEST.items():
        if any(len(value) > longest for value in headers.get_all(field)):
            yield f"{field} is longer than {longest} characters"
    if len(headers.fields) > _MOST_NAMES:
        yield f"it has {len(headers.fields)} kinds of headers"
    for field in _NUMBERED:
        for value in headers.get_all(field):
            if LONG_NUMBER.search(value):
                yield f"{field} {value[:60]!r}… has a number of 100 digits"


def _against_specification(wheel: Inspection) -> list[str]:
    # Without the text behind the headers, whose lines would be taken apart one by one.
    raw, unread = parse_email(wheel.metadata.block + b"\n\n")
    wrong = [f"{name} is no field of METADATA, or is there twice" for name in sorted(unread)]
    # setuptools wrote License-File years before the version of METADATA that knows it: everybody reads a header that
    # comes early all the same.
    newest = cast("RawMetadata", {**raw, "metadata_version": _NEWEST})
    required = cast("RawMetadata", {key: raw[key] for key in _REQUIRED if key in raw})
    return list(
        dict.fromkeys(
            [
                *wrong,
                *_validated(required),
                *_validated(newest),
                *_other_projects(wheel),
                *_absent(wheel),
                *_itself(wheel),
            ]
        )
    )


def _other_projects(wheel: Inspection) -> Iterator[str]:
    """Find what says that the wheel is another project, or brings its modules."""
    known = known_projects()
    for field in ("Provides-Dist", "Obsoletes-Dist"):
        for value in wheel.metadata.get_all(field):
            name = canonicalize_name(re.split(r"[^\w.-]", value.strip(), maxsplit=1)[0])
            if name != wheel.name.project and any(name in owners for owners in known.modules.values()):
                yield f"{field} says that it stands for {name}"
    for field in ("Import-Name", "Import-Namespace"):
        for value in wheel.metadata.get_all(field):
            module = value.partition(";")[0].strip().replace(".", "/")
            if module and not any(path.startswith((f"{module}/", f"{module}.")) for path in wheel.files):
                yield f"{field} says {value[:60]!r}, and there is no such module in it"


def _absent(wheel: Inspection) -> Iterator[str]:
    """Find what METADATA names, and nothing is."""
    names = [name.removeprefix(f"{wheel.info}/") for name in wheel.files if name.startswith(f"{wheel.info}/")]
    for value in wheel.metadata.get_all("License-File"):
        # Metadata 2.4 has them in a folder of their own; before, tools put them wherever they liked.
        path = value.strip()
        if not any(name in {path, posixpath.basename(path)} or name.endswith(f"/{path}") for name in names):
            yield f"License-File says {path[:100]!r}, and there is no such file in {wheel.info}"
    declared = {canonicalize_name(value.strip()) for value in wheel.metadata.get_all("Provides-Extra")}
    markers = " and ".join(str(line.marker) for line in wheel.requirements.lines if line.marker)
    asked = {canonicalize_name(found[1] or found[2]) for found in EXTRA.finditer(markers)}
    yield from (f"Requires-Dist asks for the extra {name}, which is not provided" for name in sorted(asked - declared))


def _itself(wheel: Inspection) -> Iterator[str]:
    """Find requirements of the project itself in another version, which nobody can install."""
    for line in wheel.requirements.lines:
        same = canonicalize_name(line.name) == wheel.name.project and line.marker is None
        if same and not line.specifier.contains(wheel.name.version, prereleases=True):
            yield f"Requires-Dist says {str(line)[:100]!r}, and it is {wheel.name.version} itself"


def _validated(raw: RawMetadata) -> list[str]:
    try:
        Metadata.from_raw(raw, validate=True)
    except ExceptionGroup as group:
        return [" ".join(str(error).split())[:300] for error in group.exceptions]
    except (ValueError, RecursionError) as error:
        return [f"it cannot be read: {str(error)[:200]}"]
    return []


RULE = Rule(
    name="metadata",
    proves="METADATA keeps the core metadata specification, and its headers end for every reader at the same line; "
    "it does not stand for another project, names no module, licence file or extra that it lacks, and does not "
    "require itself in another version",
    leaves_open="a field of a later version of the specification is accepted in an earlier one, as installers do",
    in_the_wild="ply 3.11: `Metadata-Version: 2.0`, which was never accepted, and `Description-Content-Type: UNKNOWN`",
    examine=_examine,
)
