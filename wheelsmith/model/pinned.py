"""Files pinned by hash, and toolchain prefixes made from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from wheelsmith.base.json_dataclass import Record, canonical_digest

# Part of every prefix's name. Increase it when the layout of prefixes changes.
_LAYOUT = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefixId(Record):
    """A toolchain prefix that is made from pinned files, or that an image contains.

    :param kind: the name of a platform or a framework, ``library``, ``cxx`` for compilers, ``image-cuda`` for a toolkit
        in an image, or ``machine-rocm`` for one that is installed on the machine.
    :param version: e.g. ``13.0`` for a toolkit, ``2.11.0`` for torch.
    :param digest: sha256 over its pins, known before anything is fetched.
    """

    kind: str
    version: str
    arch: str
    digest: str

    @property
    def name(self) -> str:
        """Return the name of its folder."""
        return f"{self.kind}-{self.version}-{self.arch}-{self.digest[:16]}"

    @property
    def in_image(self) -> bool:
        """Return True if an image contains it. Such a prefix is neither fetched nor mounted."""
        return self.kind.startswith("image-")

    @property
    def on_machine(self) -> bool:
        """Return True if it is installed on the machine. Such a prefix is mounted, but not fetched."""
        return self.kind.startswith("machine-")

    @property
    def is_pinned(self) -> bool:
        """Return True if it is made from pinned files."""
        return not (self.in_image or self.on_machine)


@dataclass(frozen=True, slots=True, kw_only=True)
class PinnedFile(Record):
    """A wheel on a package index, pinned by hash; ``size`` in bytes.

    :param record_sha256: the hash of the wheel's RECORD, for wheels that are fetched in part. It verifies RECORD, and
        RECORD verifies each file.
    """

    project: str
    version: str
    filename: str
    sha256: str
    size: int
    record_sha256: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PinnedTree(Record):
    """A folder in a source archive, pinned by its content.

    :param filename: the archive's file name on mirrors.
    :param url: the archive's address at its own project.
    :param folder: path in the archive, with a trailing ``/``.
    :param sha256: hash of the sorted paths below the folder, each with the sha256 of its content, as canonical JSON.
    :param files: number of files.
    :param size: total size in bytes.
    """

    filename: str
    url: str
    folder: str
    sha256: str
    files: int
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PinnedPackage(Record):
    """A Debian package or a vendor's archive, pinned by hash; ``size`` in bytes.

    :param url: its address at the distribution or the vendor.
    :param mirrors: other addresses of the same file.
    """

    filename: str
    url: str
    sha256: str
    size: int
    mirrors: tuple[str, ...] = ()


def pinned_prefix(
    kind: str, version: str, arch: str, pins: Sequence[PinnedFile | PinnedTree | PinnedPackage], *, layout: int = 0
) -> PrefixId:
    """Return the ID of the toolchain prefix that is made from some pinned files.

    :param layout: increased when the layout of prefixes of this kind changes.
    """
    made_from: dict[str, object] = {"layout": _LAYOUT, "pins": [[pin.filename, pin.sha256] for pin in pins]}
    if layout:
        made_from["layout of the kind"] = layout
    digest = canonical_digest(made_from)
    return PrefixId(kind=kind, version=version, arch=arch, digest=digest)
