"""Sigstore bundles that hold a signed in-toto statement.

The format: https://github.com/sigstore/protobuf-specs, bundle v0.3; in it is an envelope as
https://github.com/secure-systems-lab/dsse has it.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from wheelsmith.base.errors import AttestationError
from wheelsmith.base.json_dataclass import canonical_json, in_one_line

SUFFIX = ".sigstore.json"
LONGEST = 4 << 20  # bytes of a bundle
MEDIA_TYPE = "application/vnd.dev.sigstore.bundle.v0.3+json"
PAYLOAD_TYPE = "application/vnd.in-toto+json"
_SIGNERS = {"publicKey", "certificate", "x509CertificateChain"}
_LONGEST_CERTIFICATE = 64 << 10  # bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """A signed statement.

    :param statement: its bytes, which are what is signed.
    :param hint: the key that it says it is signed by, as the base64 of a sha256; empty where it is by a certificate.
    :param certificate: of who signed it, as DER; None where it is by a key. Its log entry is not read here.
    """

    statement: bytes
    signature: bytes
    hint: str = ""
    certificate: bytes | None = None

    @property
    def signed(self) -> bytes:
        """Return what the signature is of: the statement and its type, each behind its length."""
        return signed_bytes(self.statement)

    def to_bytes(self) -> bytes:
        """Return the bundle as a file holds it."""
        envelope = {
            "payload": base64.b64encode(self.statement).decode(),
            "payloadType": PAYLOAD_TYPE,
            "signatures": [{"sig": base64.b64encode(self.signature).decode()}],
        }
        material = {"publicKey": {"hint": self.hint}, "tlogEntries": []}
        data = {"mediaType": MEDIA_TYPE, "verificationMaterial": material, "dsseEnvelope": envelope}
        return canonical_json(data) + b"\n"


def signed_bytes(statement: bytes) -> bytes:
    """Return what is signed of a statement: its type and its bytes, each behind its length."""
    from securesystemslib.dsse import Envelope

    return Envelope(statement, PAYLOAD_TYPE, {}).pae()


def read_bundle(data: bytes) -> Bundle:
    """Read a bundle that anybody may have written.

    :raises AttestationError: it is none, or one of a kind that is not known here.
    """
    if len(data) > LONGEST:
        raise AttestationError(f"the bundle has more than {LONGEST >> 20} MiB")
    try:
        return _bundle(strict_json(data))
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        raise AttestationError(f"the bundle cannot be read: {in_one_line(error)}") from None


def strict_json(data: bytes) -> Any:
    """Read JSON that every reader takes for the same: without two values of one name.

    :raises ValueError: it is not so, or no JSON.
    :raises RecursionError: it is nested too deeply.
    """
    return json.loads(data.decode(), object_pairs_hook=_named_once, parse_constant=_no_number)


def _named_once(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"it has {name[:40]!r} twice")
        found[name] = value
    return found


def _no_number(text: str) -> Any:
    raise ValueError(f"{text} is no number")


def _bundle(data: Any) -> Bundle:
    if data["mediaType"] != MEDIA_TYPE:
        raise ValueError("it is of another media type")
    material, envelope = data["verificationMaterial"], data["dsseEnvelope"]
    if len(material.keys() & _SIGNERS) != 1:
        raise ValueError("it does not name one key or one certificate; of both, readers differ in which they take")
    if envelope["payloadType"] != PAYLOAD_TYPE:
        raise ValueError("what is signed is no in-toto statement")
    (signature,) = envelope["signatures"]
    statement, signed = _decoded(envelope["payload"]), _decoded(signature["sig"])
    if "publicKey" not in material:
        return Bundle(statement=statement, signature=signed, certificate=_certificate(material))
    hint = material["publicKey"].get("hint", "")
    if not isinstance(hint, str):
        raise TypeError("its hint is no text")
    return Bundle(statement=statement, signature=signed, hint=hint)


def _certificate(material: Any) -> bytes:
    if len(material["tlogEntries"]) != 1:
        raise ValueError("beside its certificate there is not one log entry")
    found = _decoded(material["certificate"]["rawBytes"])
    if not 0 < len(found) <= _LONGEST_CERTIFICATE:
        raise ValueError("its certificate is empty, or too long")
    return found


def _decoded(text: str) -> bytes:
    return base64.b64decode(text, validate=True)
