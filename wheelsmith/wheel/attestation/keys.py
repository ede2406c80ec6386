"""Keys that sign: elliptic curve P-256 and Ed25519, which cosign and openssl verify, too.

A private key is a file, an environment variable, or in a key management service that securesystemslib knows.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from wheelsmith.base.errors import SigningKeyError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from securesystemslib.signer import Signer, SSlibKey

EXTRA = "pip install 'wheelsmith[sign]'"
_LONGEST = 64 << 10  # bytes of a key
_SCHEMES = ("ecdsa-sha2-nistp256", "ed25519")
_VARIABLE = "env:"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
# What securesystemslib calls the services; a path has no such word before a colon.
_SERVICES = re.compile(r"(awskms|gcpkms|azurekms|hv):.+", re.DOTALL)
_NEW_KEY = "openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out release.key"
_PUBLIC = "openssl pkey -in release.key -pubout -out release.pub"


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyingKey:
    """A public key.

    :param name: what people call it: where it was read.
    :param hint: the base64 of the sha256 of its DER, by which a Sigstore bundle names it.
    """

    name: str
    hint: str
    key: SSlibKey

    def verifies(self, signature: bytes, data: bytes) -> bool:
        """Say whether a signature of data is by this key."""
        from securesystemslib.exceptions import UnverifiedSignatureError
        from securesystemslib.signer import Signature

        try:
            self.key.verify_signature(Signature(self.key.keyid, signature.hex()), data)
        except UnverifiedSignatureError:
            return False
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class SigningKey:
    """A key pair, of which the private part may be elsewhere."""

    public: VerifyingKey
    sign_bytes: Callable[[bytes], bytes]

    def sign(self, data: bytes) -> bytes:
        """Return a signature of data, which its public key verifies.

        :raises SigningKeyError: the service does not sign, or signs with another key.
        """
        signature = self.sign_bytes(data)
        if not self.public.verifies(signature, data):
            raise SigningKeyError(f"what was signed is not by {self.public.name}", remedy="name the right --public-key")
        return signature


def verifying_key(path: Path) -> VerifyingKey:
    """Read a public key in PEM.

    :raises SigningKeyError: it is none, or of a kind that is not taken.
    """
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    pem = _read(path)
    if b"PRIVATE KEY" in pem:
        raise SigningKeyError(f"{path} is a private key", remedy=f"verify with its public part: {_PUBLIC}")
    with _explained(str(path)):
        return _verifying(str(path), load_pem_public_key(pem))


def signing_key(named: str, public: Path | None = None) -> SigningKey:
    """Return the key that a person names.

    :param named: a file in PEM, ``env:NAME`` of a variable that holds one, or a URI of securesystemslib's.
    :param public: of a key in a service, which is not asked for it.
    :raises SigningKeyError: it is no key, or of a kind that is not taken.
    """
    _require_extra()
    if _SERVICES.fullmatch(named):
        return _of_service(named, public)
    if named.startswith(_VARIABLE):
        name = named.removeprefix(_VARIABLE)
        if not _NAME.fullmatch(name):
            # What stands there may be the key itself.
            raise SigningKeyError("what follows env: is not the name of a variable", remedy="--key env:WHEELSMITH_KEY")
        pem, place = os.environ.get(name, "").encode(), f"the variable {name}"
        if not pem:
            raise SigningKeyError(f"{place} is not set, or empty", remedy="let it hold a private key in PEM")
    else:
        pem, place = _read(Path(named), "the file that --key names"), named
    return _of_pem(pem, place)


def _of_pem(pem: bytes, place: str) -> SigningKey:
    from cryptography.hazmat.primitives.serialization import load_pem_private_key
    from securesystemslib.signer import CryptoSigner

    if b"PRIVATE KEY" not in pem:
        raise SigningKeyError(f"{place} holds no private key in PEM", remedy=f"make one: {_NEW_KEY}")
    if b"ENCRYPTED" in pem:
        raise SigningKeyError(
            f"{place} is encrypted", remedy="give it decrypted, by a variable: openssl pkey -in K; --key env:NAME"
        )
    with _explained(place):
        private = load_pem_private_key(pem, None)
        public = _verifying(place, private.public_key())
        return _signing(public, CryptoSigner(private, public.key))


def _of_service(uri: str, public: Path | None) -> SigningKey:
    from securesystemslib.signer import Signer

    if public is None:
        raise SigningKeyError(f"{uri} needs its public key", remedy="name it: --public-key release.pub")
    known = verifying_key(public)
    with _any_failure(uri):
        return _signing(known, Signer.from_priv_key_uri(uri, known.key), uri)


def _signing(public: VerifyingKey, signer: Signer, uri: str | None = None) -> SigningKey:
    def sign(data: bytes) -> bytes:
        with _any_failure(uri or public.name):
            return bytes.fromhex(signer.sign(data).signature)

    return SigningKey(public=public, sign_bytes=sign)


def _verifying(name: str, public: object) -> VerifyingKey:
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
    from securesystemslib.signer import SSlibKey

    key = SSlibKey.from_crypto(public)  # type: ignore[arg-type]  # it refuses what it does not know
    if key.scheme not in _SCHEMES:
        raise ValueError(f"{key.scheme} is not taken")
    der = public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)  # type: ignore[attr-defined]  # as above
    return VerifyingKey(name=name, hint=base64.b64encode(hashlib.sha256(der).digest()).decode(), key=key)


@contextmanager
def _explained(place: str) -> Iterator[None]:
    """Say of which key it is that it is none."""
    from cryptography.exceptions import UnsupportedAlgorithm

    try:
        yield
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        # What the libraries say may hold the key.
        why = str(error) if str(error).endswith("is not taken") else "it cannot be read"
        raise SigningKeyError(
            f"{place} is no key of the curve P-256 or Ed25519: {why}", remedy=f"make one: {_NEW_KEY}"
        ) from None


@contextmanager
def _any_failure(uri: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # noqa: BLE001  # securesystemslib's signers raise what their services' libraries do, and say so
        text = " ".join(str(error).split())[:300]
        raise SigningKeyError(f"{uri} does not sign: {type(error).__name__}: {text}") from None


def _read(path: Path, called: str | None = None) -> bytes:
    """Return what a file holds that a person named: it may be a link, or a pipe.

    :param called: by which words where its path may be the key itself, by mistake.
    """
    _require_extra()
    try:
        with path.open("rb") as file:
            data = file.read(_LONGEST + 1)
    except (OSError, ValueError) as error:
        why = (error.strerror if isinstance(error, OSError) else None) or "it is no path"
        raise SigningKeyError(f"{called or ascii(str(path))} cannot be read: {why}") from None
    if len(data) > _LONGEST:
        raise SigningKeyError(f"{path} is no key: it holds more than {_LONGEST >> 10} KiB")
    return data


def _require_extra() -> None:
    try:
        import cryptography  # noqa: F401  # whether it is there
        import securesystemslib.signer  # noqa: F401  # as above
    except ImportError:
        raise SigningKeyError("signatures need securesystemslib, which is not installed", remedy=EXTRA) from None
