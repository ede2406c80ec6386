"""Signatures of the records in a remote cache.

The hash of a blob or a wheel proves its content. A record says which content a command or a plan has made, and only a
signature can prove that. The signed statement contains the record's key, so that a record is valid for one key only.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

from wheelsmith.base.errors import AttestationError
from wheelsmith.base.json_dataclass import canonical_json, parse_json
from wheelsmith.store.remote import RemoteContent, RemoteEntry, RemoteFiles
from wheelsmith.wheel.attestation.bundle import Bundle, read_bundle, report_unreadable
from wheelsmith.wheel.attestation.keys import KeySigner, VerifyingKey
from wheelsmith.wheel.attestation.statement import STATEMENT

PREDICATE = "urn:wheelsmith:cache-record:v1"
_RECORDS = {"actions", "plans"}  # folders


@dataclass(frozen=True, slots=True)
class VerifiedRecord:
    """The content of a verified record."""

    data: bytes


class SignedRecords(RemoteFiles):
    """The files of a remote cache with signed records.

    :param signer: signs new records; None if none are written.
    :param keys: public keys; a record must be signed with one of them, or with that of the signer.
    """

    def __init__(self, files: RemoteFiles, signer: KeySigner | None, keys: tuple[VerifyingKey, ...]) -> None:
        self._files = files
        self._signer = signer
        self._keys = (*keys, signer.public) if signer else keys

    @property
    def name(self) -> str:
        """Return the address without credentials."""
        return self._files.name

    def stat(self, key: str) -> RemoteEntry | None:
        """Return the size of a file, or None if it does not exist."""
        return self._files.stat(key)

    def read(self, key: str) -> RemoteContent | None:
        """Return a file, or None if it does not exist.

        :raises AttestationError: it is a record without a valid signature.
        """
        found = self._files.read(key)
        if found is None or not _is_record(key):
            return found
        names = ", ".join(each.name for each in self._keys)
        try:
            bundle = read_bundle(found.data)
        except AttestationError:
            raise AttestationError(f"it is not signed with {names}, or not at all") from None
        if not any(each.verifies(bundle.signature, bundle.signed) for each in self._keys):
            raise AttestationError(f"its signature does not match {names}")
        return VerifiedRecord(_read_record(bundle, key))

    def put(self, key: str, content: Path | bytes) -> None:
        """Write a file, and sign it if it is a record.

        :raises SigningKeyError: it cannot be signed.
        """
        if self._signer and _is_record(key):
            data = content.read_bytes() if isinstance(content, Path) else content
            content = self._signer.sign(_statement(key, data)).bundle
        self._files.put(key, content)


def _is_record(key: str) -> bool:
    return bool(_RECORDS & set(key.split("/")[:2]))


def _statement(key: str, record: bytes) -> bytes:
    subject = [{"name": key, "digest": {"sha256": hashlib.sha256(record).hexdigest()}}]
    predicate = json.loads(record)
    return canonical_json({"_type": STATEMENT, "subject": subject, "predicateType": PREDICATE, "predicate": predicate})


def _read_record(bundle: Bundle, key: str) -> bytes:
    """Return the record in a verified bundle.

    :raises AttestationError: it is a statement about something else.
    """
    with report_unreadable("the signed record"):
        data = parse_json(bundle.statement.decode())
        (subject,) = data["subject"]
        kind, name, record = data["predicateType"], subject["name"], data["predicate"]
    if kind != PREDICATE:
        raise AttestationError(f"it is signed, but it is not a record of a cache: {str(kind)[:100]}")
    if name != key:
        raise AttestationError(f"it is the record of another key: {str(name)[:100]}")
    return canonical_json(record)
