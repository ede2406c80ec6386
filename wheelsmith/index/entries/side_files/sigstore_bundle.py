"""What was signed of a wheel, as a Sigstore bundle: nothing here says that it holds."""

from __future__ import annotations

from pathlib import Path
from typing import IO, Any

from wheelsmith.base.errors import AttestationError
from wheelsmith.index.entries.side_files.side_file import SideFile
from wheelsmith.wheel.attestation.bundle import SUFFIX, read_bundle

_SHOWN = 300  # characters


class SigstoreBundle(SideFile):
    """Only who signed a wheel has it.

    It is no PEP 740 provenance, which wants a certificate and a log entry: it stands under a key of the server's own.
    """

    suffix = SUFFIX

    def of_wheel(self, wheel: Path | IO[bytes], filename: str) -> None:
        """Say that it does not follow from the wheel: it has to be carried along."""

    def of_another(self, filename: str, sha256: str, content: bytes) -> str | None:
        """Compare the wheel with the subject of what was signed, by whomever."""
        from wheelsmith.wheel.attestation.statement import read_subject

        try:
            name, signed = read_subject(read_bundle(content).statement)
        except AttestationError as error:
            return error.message
        if (name, signed) == (filename, sha256):
            return None
        return f"what is signed is of {name[:_SHOWN]}, whose sha256 is {signed[:_SHOWN]}"

    def json_keys(self, url: str, sha256: str) -> dict[str, Any]:
        """Return where it is, and its hash."""
        return {"_sigstore-bundle": {"url": url, "hashes": {"sha256": sha256}}}

    def html_attributes(self, url: str, sha256: str) -> dict[str, str]:
        """Return where it is, with its hash as links of wheels have it."""
        return {"data-sigstore-bundle": f"{url}#sha256={sha256}"}
