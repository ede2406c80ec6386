"""Read the facts about a finished wheel that an index lists."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from wheelsmith.base.files import sha256_file
from wheelsmith.base.json_dataclass import Record
from wheelsmith.model import WheelRecord
from wheelsmith.wheel.archive import LONGEST_TEXT, info_folder, open_archive, read_headers
from wheelsmith.wheel.variant_format import Variant, read_variant


@dataclass(frozen=True, slots=True, kw_only=True)
class WheelFacts(Record):
    """The facts about a wheel that an index lists.

    :param headers: METADATA; bytes that are not UTF-8 are surrogates.
    :param variant: the variant of a variant wheel; None for other wheels.
    """

    file: WheelRecord
    headers: str
    variant: Variant | None

    @property
    def metadata(self) -> bytes:
        """The bytes of METADATA."""
        return self.headers.encode("utf-8", "surrogateescape")


def wheel_facts(path: Path) -> WheelFacts:
    """Read the facts about a wheel that an index lists.

    :raises WheelError: the wheel cannot be read, or is an invalid variant wheel.
    """
    headers = _read_metadata(path).decode("utf-8", "surrogateescape")
    return WheelFacts(file=wheel_file(path), headers=headers, variant=read_variant(path))


def wheel_file(path: Path) -> WheelRecord:
    """Return the name, size and hashes of a wheel."""
    metadata = _read_metadata(path)
    return WheelRecord(
        filename=path.name,
        sha256=sha256_file(path),
        size=path.stat().st_size,
        metadata_sha256=hashlib.sha256(metadata).hexdigest(),
        requires_python=read_headers(metadata).get("Requires-Python"),
    )


def _read_metadata(path: Path) -> bytes:
    with open_archive(path) as archive:
        return archive.read(f"{info_folder(archive)}/METADATA", LONGEST_TEXT)
