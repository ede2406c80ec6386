"""The files that an index offers beside a wheel: METADATA, and what was signed of it."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

from wheelsmith.wheel.attestation import bundle, pep740

CORE_METADATA = ".metadata"
BUNDLE, PROVENANCE = bundle.SUFFIX, pep740.SUFFIX
LARGEST = 16 << 20  # bytes
SIGNATURES = (BUNDLE, PROVENANCE)


def file_key(sha256: str, filename: str) -> str:
    """Return where a file lies in an index: under the hash of its content, so that it never changes."""
    return f"files/{sha256[:2]}/{sha256}/{filename}"


class SideFile(ABC):
    """A kind of file beside a wheel.

    :cvar suffix: what its name has after the wheel's.
    :cvar needs_address: pages announce it by its whole address, and not at all where that is not known.
    """

    suffix: ClassVar[str]
    needs_address: ClassVar[bool] = False

    def subjects(self, content: bytes) -> set[tuple[str, str]] | None:
        """Return the file names and sha256 that a content is about; None if it does not name any.

        :raises AttestationError: it cannot be read.
        """
        return None

    @abstractmethod
    def json_keys(self, url: str, sha256: str) -> dict[str, Any]:
        """Return what announces it in the JSON of a simple page."""

    @abstractmethod
    def html_attributes(self, url: str, sha256: str) -> dict[str, str]:
        """Return what announces it in the HTML of a simple page."""

    def key(self, wheel: str, filename: str, sha256: str) -> str:
        """Return where it lies: under its own hash, since a wheel may be signed twice and no file ever changes.

        :param wheel: the key of the wheel.
        """
        return file_key(sha256, f"{filename}{self.suffix}")


class CoreMetadata(SideFile):
    """METADATA of the wheel, so that a resolver need not fetch the wheel (PEP 658)."""

    suffix = CORE_METADATA

    def json_keys(self, url: str, sha256: str) -> dict[str, Any]:
        """Return its hash."""
        # Its old name must not stand in JSON: pip 22.3 to 23.1 end in a traceback on it (PEP 714).
        return {"core-metadata": {"sha256": sha256}}

    def html_attributes(self, url: str, sha256: str) -> dict[str, str]:
        """Return its hash; the old name of the same fact is for pip before 23.2."""
        return dict.fromkeys(("data-core-metadata", "data-dist-info-metadata"), f"sha256={sha256}")

    def key(self, wheel: str, filename: str, sha256: str) -> str:
        """Return where installers look for it."""
        return f"{wheel}{self.suffix}"


class SigstoreBundle(SideFile):
    """A signed statement about a wheel, as a Sigstore bundle. It is no PEP 740 provenance, so its keys are our own."""

    suffix = BUNDLE

    def subjects(self, content: bytes) -> set[tuple[str, str]]:
        """Return the wheel that was signed."""
        from wheelsmith.wheel.attestation.statement import read_subject

        return {read_subject(bundle.read_bundle(content).statement)}

    def json_keys(self, url: str, sha256: str) -> dict[str, Any]:
        """Return where it is, and its hash."""
        return {"_sigstore-bundle": {"url": url, "hashes": {"sha256": sha256}}}

    def html_attributes(self, url: str, sha256: str) -> dict[str, str]:
        """Return where it is, with its hash as links of wheels have it."""
        return {"data-sigstore-bundle": f"{url}#sha256={sha256}"}


class AttestationsFile(SideFile):
    """Attestations as PEP 740 has them, of wheels that were signed with a certificate."""

    suffix = PROVENANCE
    # It must be a whole address (PEP 740), and readers refuse a page on which it is none.
    needs_address = True

    def subjects(self, content: bytes) -> set[tuple[str, str]]:
        """Return the files that were signed."""
        return pep740.subjects_of(content)

    def json_keys(self, url: str, sha256: str) -> dict[str, Any]:
        """Return where it is."""
        return {"provenance": url}

    def html_attributes(self, url: str, sha256: str) -> dict[str, str]:
        """Return where it is."""
        return {"data-provenance": url}


@cache
def side_files() -> dict[str, SideFile]:
    """Return every kind by its suffix."""
    return {each.suffix: each for each in (CoreMetadata(), SigstoreBundle(), AttestationsFile())}


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
