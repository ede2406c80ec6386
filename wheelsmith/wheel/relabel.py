"""Give a finished wheel another version, without any other change of its files."""

from __future__ import annotations

import re
from pathlib import Path

from wheelsmith.wheel.archive import WheelContents, open_wheel
from wheelsmith.wheel.repair import pack, rename_wheel

_VERSION = re.compile(rb"^Version:.*$", re.MULTILINE)


def replace_version(metadata: bytes, version: str) -> bytes:
    """Return METADATA with another version. Every other byte stays the same."""
    headers, blank, text = metadata.partition(b"\n\n")
    line = f"Version: {version}".encode(errors="replace")
    return _VERSION.sub(lambda _: line, headers, count=1) + blank + text


def with_version(contents: WheelContents, version: str) -> WheelContents:
    """Return the wheel with another version in names and METADATA. Its RECORD is stale: ``pack`` writes a new one."""
    metadata = replace_version(contents.files[f"{contents.info}/METADATA"], version)
    return rename_wheel(contents, f"{contents.filename.partition('-')[0]}-{version}", metadata)


def relabel(wheel: Path, work: Path) -> Path:
    """Return a copy of a finished wheel without the local version. The same wheel always gives the same bytes.

    The recorded plan and the SBOM still name the version that was built.

    :param work: an empty folder for temporary files and the result.
    :raises WheelError: the wheel cannot be read.
    """
    contents = open_wheel(wheel)
    return pack(with_version(contents, contents.filename.split("-")[1].partition("+")[0]), work)
