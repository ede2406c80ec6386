"""The files that an index offers beside a wheel: METADATA, and what was signed of it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from wheelsmith.wheel.attestation import bundle, pep740

CORE_METADATA = ".metadata"
BUNDLE, PROVENANCE = bundle.SUFFIX, pep740.SUFFIX
LARGEST = 16 << 20  # bytes
SIGNATURES = (BUNDLE, PROVENANCE)


def file_key(sha256: str, filename: str) -> str:
    """Return where a file lies in an index: under the hash of its content, so that it never changes."""
    return f"files/{sha256[:2]}/{sha256}/{filename}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SideFile:
    """A kind of file beside a wheel.

    :param suffix: what its name has after the wheel's.
    :param in_json: what announces it in the JSON of a simple page; address, sha256 → keys.
    :param in_html: likewise in HTML, as attributes.
    :param subjects: the file names and sha256 that a content is about; None for a kind that does not name any.
    :param has_own_hash: it lies under its own hash, since a wheel may be signed twice and no file ever changes;
        otherwise beside the wheel.
    :param needs_address: pages announce it by its whole address, and not at all where that is not known.
    """

    suffix: str
    in_json: Callable[[str, str], dict[str, Any]]
    in_html: Callable[[str, str], dict[str, str]]
    subjects: Callable[[bytes], set[tuple[str, str]]] | None = None
    has_own_hash: bool = True
    needs_address: bool = False

    def key(self, wheel: str, filename: str, sha256: str) -> str:
        """Return where it lies.

        :param wheel: the key of the wheel.
        """
        return file_key(sha256, f"{filename}{self.suffix}") if self.has_own_hash else f"{wheel}{self.suffix}"


def _signed_wheel(content: bytes) -> set[tuple[str, str]]:
    from wheelsmith.wheel.attestation.statement import read_subject

    return {read_subject(bundle.read_bundle(content).statement)}


_KINDS = (
    # METADATA of the wheel, so that a resolver need not fetch the wheel (PEP 658). Its old name must not stand in JSON:
    # pip 22.3 to 23.1 end in a traceback on it (PEP 714). In HTML it is for pip before 23.2.
    SideFile(
        suffix=CORE_METADATA,
        in_json=lambda _, sha256: {"core-metadata": {"sha256": sha256}},
        in_html=lambda _, sha256: dict.fromkeys(("data-core-metadata", "data-dist-info-metadata"), f"sha256={sha256}"),
        has_own_hash=False,
    ),
    # A signed statement about a wheel, as a Sigstore bundle. It is no PEP 740 provenance, so its keys are our own.
    SideFile(
        suffix=BUNDLE,
        in_json=lambda url, sha256: {"_sigstore-bundle": {"url": url, "hashes": {"sha256": sha256}}},
        in_html=lambda url, sha256: {"data-sigstore-bundle": f"{url}#sha256={sha256}"},
        subjects=_signed_wheel,
    ),
    # Attestations of wheels that were signed with a certificate. It must be a whole address (PEP 740): readers refuse
    # a page on which it is none.
    SideFile(
        suffix=PROVENANCE,
        in_json=lambda url, _: {"provenance": url},
        in_html=lambda url, _: {"data-provenance": url},
        subjects=pep740.subjects_of,
        needs_address=True,
    ),
)


@cache
def side_files() -> dict[str, SideFile]:
    """Return every kind by its suffix."""
    return {each.suffix: each for each in _KINDS}


@dataclass(frozen=True, slots=True, kw_only=True)
class Announced:
    """A file beside a wheel, as the wheel's entry announces it.

    :param path: in the index.
    """

    kind: SideFile
    filename: str
    sha256: str
    path: str

    def matches(self, data: bytes) -> bool:
        """Return True if a content has this file's hash."""
        return hashlib.sha256(data).hexdigest() == self.sha256


def signatures(files: Mapping[str, bytes]) -> dict[str, bytes | None]:
    """Return the signatures among some files, with None for a kind that is not there."""
    return {suffix: files.get(suffix) for suffix in SIGNATURES}
