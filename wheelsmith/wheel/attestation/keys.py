"""Sign and verify with keys of the curve P-256 or Ed25519, which cosign and openssl also support.

A private key is in a file, an environment variable, or a key management service that securesystemslib supports.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from wheelsmith.base.distribution import install_command
from wheelsmith.base.errors import SigningKeyError
from wheelsmith.base.json_dataclass import in_one_line
from wheelsmith.base.units import show_binary_size
from wheelsmith.wheel.attestation.bundle import Bundle, read_bundle

if TYPE_CHECKING:
    import securesystemslib.signer as sslib

_MAX_SIZE = 64 << 10  # bytes of a key
_SCHEMES = ("ecdsa-sha2-nistp256", "ed25519")
VARIABLE = re.compile(r"env:([A-Za-z_][A-Za-z0-9_]{0,39})", re.ASCII)  # a longer text may be the secret itself
# Schemes of securesystemslib's URIs. A path does not begin like this.
_SERVICES = re.compile(r"(awskms|gcpkms|azurekms|hv):.+", re.DOTALL)
_NEW_KEY = "openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out release.key"
_NEW_PUBLIC_KEY = "openssl pkey -in release.key -pubout -out release.pub"


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedBundle:
    """A signed statement.

    :param bundle: a Sigstore bundle.
    :param provenance: the same in the format of package indexes (PEP 740); None if it cannot be converted.
    """

    bundle: bytes
    provenance: bytes | None = None


class Signer(Protocol):
    """Signs statements."""

    def sign(self, statement: bytes) -> SignedBundle:
        """Sign a statement.

        :raises SigningKeyError: it cannot be signed.
        """

    def reuse(self, bundle: bytes) -> SignedBundle | None:
        """Return an earlier bundle if the same signer made it, or None.

        :raises AttestationError: it is not a bundle.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyingKey:
    """A public key.

    :param name: path or variable that it was read from.
    :param hint: base64 of the sha256 of its DER form, which identifies it in a Sigstore bundle.
    """

    name: str
    hint: str
    key: sslib.SSlibKey

    def verifies(self, signature: bytes, data: bytes) -> bool:
        """Return True if this key made the signature of the data."""
        from securesystemslib.exceptions import UnverifiedSignatureError
        from securesystemslib.signer import Signature

        try:
            self.key.verify_signature(Signature(self.key.keyid, signature.hex()), data)
        except UnverifiedSignatureError:
            return False
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class KeySigner:
    """Signs with a key, which may be in a key management service.

    :param sign_bytes: returns a signature of its argument.
    """

    public: VerifyingKey
    sign_bytes: Callable[[bytes], bytes]

    def sign(self, statement: bytes) -> SignedBundle:
        """Sign a statement.

        :raises SigningKeyError: the service does not sign, or signs with another key.
        """
        data = Bundle(statement=statement, signature=b"").signed
        signature = self.sign_bytes(data)
        if not self.public.verifies(signature, data):
            raise SigningKeyError(f"the signature is not by {self.public.name}", remedy="pass the right --public-key")
        made = Bundle(statement=statement, signature=signature, hint=self.public.hint)
        return SignedBundle(bundle=made.to_bytes())

    def reuse(self, bundle: bytes) -> SignedBundle | None:
        """Return an earlier bundle if the same key made it, or None.

        :raises AttestationError: it is not a bundle.
        """
        before = read_bundle(bundle)
        same_key = before.certificate is None and self.public.verifies(before.signature, before.signed)
        return SignedBundle(bundle=bundle) if same_key else None


def verifying_key(path: Path) -> VerifyingKey:
    """Read a public key from a PEM file.

    :raises SigningKeyError: it is not a public key, or of an unsupported kind.
    """
    _require_securesystemslib()
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    pem = _read_key_file(path, ascii(str(path)))
    if b"PRIVATE KEY" in pem:
        raise SigningKeyError(f"{path} is a private key", remedy=f"verify with its public key: {_NEW_PUBLIC_KEY}")
    with _report_key_errors(str(path)):
        return _make_verifying_key(str(path), load_pem_public_key(pem))


def key_signer(named: str, public: Path | None = None) -> KeySigner:
    """Return the signer for the value of ``--key`` or ``--remote-cache-key``.

    :param named: path of a PEM file, ``env:NAME`` for a variable with the content of one, or a URI of securesystemslib.
    :param public: path of the public key of a key in a service.
    :raises SigningKeyError: it is not a private key, or of an unsupported kind.
    """
    _require_securesystemslib()
    if _SERVICES.fullmatch(named):
        return _signer_from_service(named, public)
    if not named.startswith("env:"):
        # Do not show the path: the user may have passed the key itself by mistake.
        return _signer_from_pem(_read_key_file(Path(named), "the file of the private key"), named)
    variable = VARIABLE.fullmatch(named)
    if variable is None:
        raise SigningKeyError("the text after env: is not the name of a variable", remedy="write env:WHEELSMITH_KEY")
    pem = os.environ.get(variable[1], "").encode()
    if not pem:
        raise SigningKeyError(
            f"the variable {variable[1]} is unset or empty", remedy="set it to a private key in PEM format"
        )
    return _signer_from_pem(pem, f"the variable {variable[1]}")


def _signer_from_pem(pem: bytes, place: str) -> KeySigner:
    from cryptography.hazmat.primitives.serialization import load_pem_private_key
    from securesystemslib.signer import CryptoSigner

    if b"PRIVATE KEY" not in pem:
        raise SigningKeyError(f"{place} contains no private key in PEM format", remedy=f"create one: {_NEW_KEY}")
    if b"ENCRYPTED" in pem:
        raise SigningKeyError(
            f"{place} is encrypted", remedy="decrypt it with openssl pkey -in K into a variable: env:NAME"
        )
    with _report_key_errors(place):
        private = load_pem_private_key(pem, None)
        public = _make_verifying_key(place, private.public_key())
        return _make_signer(public, CryptoSigner(private, public.key), place)


def _signer_from_service(uri: str, public: Path | None) -> KeySigner:
    from securesystemslib.signer import Signer

    if public is None:
        raise SigningKeyError(f"{uri} needs its public key", remedy="pass it: --public-key release.pub")
    known = verifying_key(public)
    with _report_service_errors(uri):
        return _make_signer(known, Signer.from_priv_key_uri(uri, known.key), uri)


def _make_signer(public: VerifyingKey, signer: sslib.Signer, place: str) -> KeySigner:
    def sign(data: bytes) -> bytes:
        with _report_service_errors(place):
            return bytes.fromhex(signer.sign(data).signature)

    return KeySigner(public=public, sign_bytes=sign)


def _make_verifying_key(name: str, public: object) -> VerifyingKey:
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
    from securesystemslib.signer import SSlibKey

    key = SSlibKey.from_crypto(public)  # type: ignore[arg-type]  # it raises for unsupported types
    if key.scheme not in _SCHEMES:
        raise ValueError(f"{key.scheme} is not supported")
    der = public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)  # type: ignore[attr-defined]  # as above
    return VerifyingKey(name=name, hint=base64.b64encode(hashlib.sha256(der).digest()).decode(), key=key)


@contextmanager
def _report_key_errors(place: str) -> Iterator[None]:
    """Raise SigningKeyError for the libraries' errors, without their texts, which may quote the key."""
    from cryptography.exceptions import UnsupportedAlgorithm

    try:
        yield
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        why = str(error) if str(error).endswith("is not supported") else "it cannot be read"
        raise SigningKeyError(
            f"{place} is not a P-256 or Ed25519 key: {why}", remedy=f"create one: {_NEW_KEY}"
        ) from None


@contextmanager
def _report_service_errors(uri: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # noqa: BLE001  # signers pass on any exception of their services' libraries
        raise SigningKeyError(f"{uri} cannot sign: {type(error).__name__}: {in_one_line(error)}") from None


def _read_key_file(path: Path, name: str) -> bytes:
    """Return the content of a file, which may be a link or a pipe."""
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_SIZE + 1)
    except (OSError, ValueError) as error:
        why = (error.strerror if isinstance(error, OSError) else None) or "it is not a valid path"
        raise SigningKeyError(f"{name} cannot be read: {why}") from None
    if len(data) > _MAX_SIZE:
        raise SigningKeyError(f"{path} is not a key: it is larger than {show_binary_size(_MAX_SIZE)}")
    return data


def _require_securesystemslib() -> None:
    try:
        import cryptography  # noqa: F401  # to test if it is installed
        import securesystemslib.signer  # noqa: F401  # as above
    except ImportError:
        raise SigningKeyError(
            "signatures need securesystemslib, which is not installed", remedy=install_command("sign")
        ) from None
