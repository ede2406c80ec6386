"""Files that are fetched by their hash, and the prefixes that are made from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from wheelsmith.base.json_dataclass import Record, canonical_digest

# Part of every prefix's name: raised when the way a prefix is laid out changes.
_LAYOUT = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefixId(Record):
    """A toolchain prefix that can be made from pinned files, or that an image holds.

    :param kind: a platform's name, a framework's, ``library``, ``cxx`` for compilers, or ``image-cuda`` for a toolkit
        that lies in the image.
    :param version: ``13.0`` for a toolkit, ``2.11.0`` for a torch.
    :param digest: sha256 over the pins it is made from, known before anything is fetched.
    """

    kind: str
    version: str
    arch: str
    digest: str

    @property
    def name(self) -> str:
        """Return what its folder is called."""
        return f"{self.kind}-{self.version}-{self.arch}-{self.digest[:16]}"

    @property
    def in_image(self) -> bool:
        """Say whether an image holds it, so that there is nothing to fetch or to mount."""
        return self.kind.startswith("image-")


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
    :param mirrors: where else it is.
    """

    filename: str
    url: str
    sha256: str
    size: int
    mirrors: tuple[str, ...] = ()


def pinned_prefix(
    kind: str, version: str, arch: str, pins: Sequence[PinnedFile | PinnedTree | PinnedPackage], *, layout: int = 0
) -> PrefixId:
    """Name a toolchain prefix by the files that it is made from.

    :param layout: raised when the way in which prefixes of this kind are laid out changes.
    """
    made_from: dict[str, object] = {"layout": _LAYOUT, "pins": [[pin.filename, pin.sha256] for pin in pins]}
    if layout:
        made_from["layout of the kind"] = layout
    digest = canonical_digest(made_from)
    return PrefixId(kind=kind, version=version, arch=arch, digest=digest)
