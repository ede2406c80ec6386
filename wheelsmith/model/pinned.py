"""Files that are fetched by their hash, and the prefixes that are made from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from wheelsmith.base.record import Record, canonical_digest
from wheelsmith.model.plan import PrefixId

# Part of every prefix's name: raised when the way a prefix is laid out changes.
_LAYOUT = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class PinnedFile(Record):
    """One wheel on a package index, pinned by hash; ``size`` in bytes.

    :param record_sha256: the hash of the wheel's RECORD, for wheels of which only some files are fetched: RECORD
        proves each file, and this proves RECORD.
    """

    project: str
    version: str
    filename: str
    sha256: str
    size: int
    record_sha256: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PinnedTree(Record):
    """A folder in an archive of source code, pinned by what it holds.

    :param filename: of the archive, as mirrors have it.
    :param url: where its project has it.
    :param folder: in the archive, with ``/`` at its end.
    :param sha256: of the sorted paths below it, each with the sha256 of its content, as canonical JSON.
    :param files: how many there are.
    :param size: of them all, in bytes.
    """

    filename: str
    url: str
    folder: str
    sha256: str
    files: int
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PinnedPackage(Record):
    """A Debian package, pinned by hash; ``size`` in bytes.

    :param url: where its distribution has it.
    """

    filename: str
    url: str
    sha256: str
    size: int


def pinned_prefix(
    kind: str, version: str, arch: str, pins: Sequence[PinnedFile | PinnedTree | PinnedPackage]
) -> PrefixId:
    """Name a toolchain prefix by the files that it is made from."""
    digest = canonical_digest({"layout": _LAYOUT, "pins": [[pin.filename, pin.sha256] for pin in pins]})
    return PrefixId(kind=kind, version=version, arch=arch, digest=digest)
