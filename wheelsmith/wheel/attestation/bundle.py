"""Read and write Sigstore bundles with a signed in-toto statement.

The format is bundle v0.3 of https://github.com/sigstore/protobuf-specs, with an envelope of
https://github.com/secure-systems-lab/dsse.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from wheelsmith.base.errors import AttestationError
from wheelsmith.base.json_dataclass import canonical_json, in_one_line, parse_json
from wheelsmith.base.units import show_binary_size

SUFFIX = ".sigstore.json"
LONGEST = 4 << 20  # bytes of a bundle
MEDIA_TYPE = "application/vnd.dev.sigstore.bundle.v0.3+json"
PAYLOAD_TYPE = "application/vnd.in-toto+json"
_SIGNERS = {"publicKey", "certificate", "x509CertificateChain"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """A signed statement.

    :param statement: the signed bytes.
    :param hint: base64 of the key's sha256; empty with a certificate.
    :param certificate: the signer's certificate (DER); None with a key. Its log entry is not read here.
    """

    statement: bytes
    signature: bytes
    hint: str = ""
    certificate: bytes | None = None

    @property
    def signed(self) -> bytes:
        """Return the bytes that are signed: the type and the statement, each after its length (DSSE's PAE)."""
        from securesystemslib.dsse import Envelope

        return Envelope(self.statement, PAYLOAD_TYPE, {}).pae()

    def to_bytes(self) -> bytes:
        """Return the content of a bundle file."""
        envelope = {
            "payload": base64.b64encode(self.statement).decode(),
            "payloadType": PAYLOAD_TYPE,
            "signatures": [{"sig": base64.b64encode(self.signature).decode()}],
        }
        material = {"publicKey": {"hint": self.hint}, "tlogEntries": []}
        data = {"mediaType": MEDIA_TYPE, "verificationMaterial": material, "dsseEnvelope": envelope}
        return canonical_json(data) + b"\n"


def read_bundle(data: bytes) -> Bundle:
    """Parse an untrusted bundle.

    :raises AttestationError: it is not a bundle, or of an unsupported kind.
    """
    if len(data) > LONGEST:
        raise AttestationError(f"the bundle has more than {show_binary_size(LONGEST)}")
    with report_unreadable("the bundle"):
        return _parse_bundle(parse_json(data.decode()))


@contextmanager
def report_unreadable(subject: str) -> Iterator[None]:
    """Raise AttestationError if the block fails on invalid JSON."""
    try:
        yield
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        raise AttestationError(f"{subject} cannot be read: {in_one_line(error)}") from None


def _parse_bundle(data: Any) -> Bundle:
    if data["mediaType"] != MEDIA_TYPE:
        raise ValueError(f"its media type is not {MEDIA_TYPE}")
    material, envelope = data["verificationMaterial"], data["dsseEnvelope"]
    if len(material.keys() & _SIGNERS) != 1:
        raise ValueError("it must have exactly one key or certificate")
    if envelope["payloadType"] != PAYLOAD_TYPE:
        raise ValueError("its payload is not an in-toto statement")
    (signature,) = envelope["signatures"]
    statement, signed = (base64.b64decode(text, validate=True) for text in (envelope["payload"], signature["sig"]))
    if "publicKey" not in material:
        if len(material["tlogEntries"]) != 1:
            raise ValueError("it must have exactly one log entry for its certificate")
        certificate = base64.b64decode(material["certificate"]["rawBytes"], validate=True)
        return Bundle(statement=statement, signature=signed, certificate=certificate)
    hint = material["publicKey"].get("hint", "")
    if not isinstance(hint, str):
        raise TypeError("its key hint is not a string")
    return Bundle(statement=statement, signature=signed, hint=hint)
