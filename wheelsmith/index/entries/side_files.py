"""Side files: the files that an index offers with a wheel, such as METADATA and signatures."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from wheelsmith.wheel.attestation import bundle, pep740

CORE_METADATA = ".metadata"
BUNDLE, PROVENANCE = bundle.SUFFIX, pep740.SUFFIX
MAX_SIZE = 16 << 20  # bytes
SIGNATURES = (BUNDLE, PROVENANCE)


def file_key(sha256: str, filename: str) -> str:
    """Return the key of a file under the hash of its content. Such a file never changes."""
    return f"files/{sha256[:2]}/{sha256}/{filename}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SideFile:
    """A kind of side file.

    :param suffix: suffix that is appended to the wheel's file name.
    :param in_json: returns the keys that announce the file in the JSON of a simple page; (URL, sha256) → keys.
    :param in_html: returns the attributes that announce the file in HTML; (URL, sha256) → attributes.
    :param subjects: returns the file names and sha256 to which a content refers; None for a kind without references.
    :param has_own_hash: True if the key contains the file's own hash, because a wheel may be signed again and stored
        files never change. Otherwise the key contains the wheel's hash.
    :param needs_address: True if pages must announce the file by an absolute URL. Without a known address of the
        index, pages omit it.
    """

    suffix: str
    in_json: Callable[[str, str], dict[str, Any]]
    in_html: Callable[[str, str], dict[str, str]]
    subjects: Callable[[bytes], set[tuple[str, str]]] | None = None
    has_own_hash: bool = True
    needs_address: bool = False

    def key(self, wheel: str, filename: str, sha256: str) -> str:
        """Return the key of the file.

        :param wheel: key of the wheel.
        :param filename: file name of the wheel.
        :param sha256: hash of the side file.
        """
        return file_key(sha256, f"{filename}{self.suffix}") if self.has_own_hash else f"{wheel}{self.suffix}"


def _bundle_subjects(content: bytes) -> set[tuple[str, str]]:
    from wheelsmith.wheel.attestation.statement import read_subject

    return {read_subject(bundle.read_bundle(content).statement)}


_KINDS = (
    # METADATA of the wheel, so that a resolver need not download the wheel (PEP 658). The old key must not be in JSON,
    # because pip 22.3 to 23.1 fail on it with a traceback (PEP 714). In HTML, pip before 23.2 needs it.
    SideFile(
        suffix=CORE_METADATA,
        in_json=lambda _, sha256: {"core-metadata": {"sha256": sha256}},
        in_html=lambda _, sha256: dict.fromkeys(("data-core-metadata", "data-dist-info-metadata"), f"sha256={sha256}"),
        has_own_hash=False,
    ),
    # A signed statement about a wheel, as a Sigstore bundle. PEP 740 does not cover it, so wheelsmith defines the keys.
    SideFile(
        suffix=BUNDLE,
        in_json=lambda url, sha256: {"_sigstore-bundle": {"url": url, "hashes": {"sha256": sha256}}},
        in_html=lambda url, sha256: {"data-sigstore-bundle": f"{url}#sha256={sha256}"},
        subjects=_bundle_subjects,
    ),
    # Attestations of wheels that were signed with a certificate. The URL must be absolute (PEP 740): readers reject a
    # page with a relative one.
    SideFile(
        suffix=PROVENANCE,
        in_json=lambda url, _: {"provenance": url},
        in_html=lambda url, _: {"data-provenance": url},
        subjects=pep740.provenance_subjects,
        needs_address=True,
    ),
)


@cache
def side_files() -> dict[str, SideFile]:
    """Return all kinds of side files by suffix."""
    return {each.suffix: each for each in _KINDS}


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnouncedFile:
    """A side file of a wheel, as announced in the wheel's entry.

    :param path: path in the index.
    """

    kind: SideFile
    filename: str
    sha256: str
    path: str

    def matches(self, data: bytes) -> bool:
        """Return True if the data has the announced hash."""
        return hashlib.sha256(data).hexdigest() == self.sha256


def signature_files(files: Mapping[str, bytes]) -> dict[str, bytes | None]:
    """Return the signature files among the side files, with None for each missing kind."""
    return {suffix: files.get(suffix) for suffix in SIGNATURES}
