"""Attestations of a wheel as PEP 740 has them: nothing here says that they hold."""

from __future__ import annotations

from pathlib import Path
from typing import IO, Any

from wheelsmith.base.errors import AttestationError
from wheelsmith.index.entries.side_files.side_file import SideFile
from wheelsmith.wheel.attestation.pep740 import SUFFIX, subjects_of


class AttestationsFile(SideFile):
    """Only who signed a wheel by a certificate has it."""

    suffix = SUFFIX
    # It must be a whole address (PEP 740), and readers refuse a page on which it is none.
    needs_address = True

    def of_wheel(self, wheel: Path | IO[bytes], filename: str) -> None:
        """Say that it does not follow from the wheel: it has to be carried along."""

    def of_another(self, filename: str, sha256: str, content: bytes) -> str | None:
        """Compare the wheel with the subjects of what was signed, by whomever."""
        try:
            subjects = subjects_of(content)
        except AttestationError as error:
            return error.message
        return None if subjects == {(filename, sha256)} else "what is signed is of another file"

    def json_keys(self, url: str, sha256: str) -> dict[str, Any]:
        """Return where it is."""
        return {"provenance": url}

    def html_attributes(self, url: str, sha256: str) -> dict[str, str]:
        """Return where it is."""
        return {"data-provenance": url}
