"""METADATA beside its wheel, so that who resolves need not fetch the wheel (PEP 658)."""

from __future__ import annotations

from pathlib import Path
from typing import IO, Any

from wheelsmith.index.entries.entry import IndexEntry
from wheelsmith.index.entries.metadata import read_metadata
from wheelsmith.index.entries.side_files.side_file import SideFile

CORE_METADATA = ".metadata"


class CoreMetadata(SideFile):
    """METADATA, which every wheel gives."""

    suffix = CORE_METADATA

    def of_wheel(self, wheel: Path | IO[bytes], filename: str) -> bytes:
        """Return METADATA as the wheel holds it."""
        return read_metadata(wheel, filename)

    def json_keys(self, url: str, sha256: str) -> dict[str, Any]:
        """Return its hash."""
        # Its old name must not stand in JSON: pip 22.3 to 23.1 end in a traceback on it (PEP 714).
        return {"core-metadata": {"sha256": sha256}}

    def html_attributes(self, url: str, sha256: str) -> dict[str, str]:
        """Return its hash; the old name of the same fact is for pip before 23.2."""
        return dict.fromkeys(("data-core-metadata", "data-dist-info-metadata"), f"sha256={sha256}")

    def path(self, entry: IndexEntry, sha256: str) -> str:
        """Return where installers look for it."""
        return f"{entry.path}{self.suffix}"
