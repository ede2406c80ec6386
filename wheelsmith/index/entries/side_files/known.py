"""The kinds of files beside wheels that are known, and those of one wheel."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import IO

from wheelsmith.index.entries.entry import IndexEntry
from wheelsmith.index.entries.side_files.metadata import CORE_METADATA, CoreMetadata
from wheelsmith.index.entries.side_files.provenance import AttestationsFile
from wheelsmith.index.entries.side_files.side_file import SideFile
from wheelsmith.index.entries.side_files.sigstore_bundle import SigstoreBundle
from wheelsmith.wheel.attestation.bundle import SUFFIX
from wheelsmith.wheel.attestation.pep740 import SUFFIX as PROVENANCE

LARGEST = 16 << 20  # bytes
_SIGNATURES = (SUFFIX, PROVENANCE)


@cache
def side_files() -> dict[str, SideFile]:
    """Return every kind by its suffix."""
    return {each.suffix: each for each in (CoreMetadata(), SigstoreBundle(), AttestationsFile())}


@dataclass(frozen=True, slots=True, kw_only=True)
class Announced:
    """A file beside a wheel, as the wheel's entry says it.

    :param path: in the index.
    """

    kind: SideFile
    filename: str
    sha256: str
    path: str

    def is_right(self, data: bytes) -> bool:
        """Say whether a content is this file's."""
        return hashlib.sha256(data).hexdigest() == self.sha256


def announced(entry: IndexEntry) -> tuple[Announced, ...]:
    """Return what lies beside a wheel."""
    hashes = {CORE_METADATA: entry.metadata_sha256, **entry.side_files}
    kinds = ((side_files()[suffix], sha256) for suffix, sha256 in hashes.items())
    return tuple(
        Announced(kind=kind, filename=f"{entry.filename}{kind.suffix}", sha256=sha, path=kind.path(entry, sha))
        for kind, sha in kinds
    )


def paths(entry: IndexEntry) -> tuple[str, ...]:
    """Return where a wheel lies in the index, and what is beside it."""
    return (entry.path, *(side.path for side in announced(entry)))


def made_files(wheel: Path | IO[bytes], filename: str) -> dict[str, bytes]:
    """Return the content that follows from a wheel: suffix → bytes.

    :raises PackageIndexError: the wheel cannot be read.
    """
    made = ((suffix, kind.of_wheel(wheel, filename)) for suffix, kind in side_files().items())
    return {suffix: data for suffix, data in made if data is not None}


def signatures(files: Mapping[str, bytes]) -> dict[str, bytes | None]:
    """Return which of some files were signed, and None for what of their kinds is not among them."""
    return {suffix: files.get(suffix) for suffix in _SIGNATURES}


def with_more(entry: IndexEntry, offered: IndexEntry) -> IndexEntry:
    """Return the entry of a wheel beside which also lies what another offers: what is there stays.

    What was signed by one stays together: of another signature nothing is taken.
    """
    known, more = entry.side_files, offered.side_files
    if not known.keys().isdisjoint(_SIGNATURES) and known.get(SUFFIX) != more.get(SUFFIX):
        more = {suffix: sha256 for suffix, sha256 in more.items() if suffix not in _SIGNATURES}
    return replace(entry, side_files={**more, **known})


def with_files(entry: IndexEntry, files: Mapping[str, bytes | None]) -> IndexEntry:
    """Return the entry of a wheel beside which these lie: suffix → content, None for what no longer does."""
    hashes = {suffix: hashlib.sha256(data).hexdigest() for suffix, data in files.items() if data is not None}
    own = hashes.pop(CORE_METADATA, entry.metadata_sha256)
    kept = {suffix: sha256 for suffix, sha256 in entry.side_files.items() if suffix not in files}
    return replace(entry, metadata_sha256=own, side_files={**kept, **hashes})
