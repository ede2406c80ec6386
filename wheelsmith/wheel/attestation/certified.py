"""Verify what was signed by a certificate: the certificate, its log entry and the signature, without a network."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from wheelsmith.base.errors import AttestationError
from wheelsmith.base.json_dataclass import in_one_line
from wheelsmith.wheel.attestation.claims import Claims, read_claims
from wheelsmith.wheel.attestation.identity import Identity, not_believed
from wheelsmith.wheel.attestation.trust import verifier

if TYPE_CHECKING:
    from cryptography.x509 import Certificate


class _Signer:
    """What sigstore asks about a certificate whose chain it has verified.

    :param identities: who may sign; none are asked where somebody wants to know who did.
    """

    def __init__(self, identities: tuple[Identity, ...] | None) -> None:
        self._identities = identities
        self.claims: Claims | None = None

    def verify(self, cert: Certificate) -> None:
        """Refuse a certificate that is of nobody who is believed."""
        self.claims = read_claims(cert)
        why = None if self._identities is None else not_believed(self.claims, self._identities)
        if why:
            raise AttestationError(why)


def verify_certified(data: bytes, identities: tuple[Identity, ...], trust: Path | None) -> tuple[bytes, Claims]:
    """Return what was signed, and by whom.

    :param data: a bundle that has a certificate, as ``read_bundle`` has found.
    :param trust: as ``verifier`` takes it.
    :raises AttestationError: it does not hold, or is of somebody else.
    :raises SigningKeyError: what is trusted cannot be read.
    """
    return _verified(data, _Signer(identities), trust)


def signed_by(data: bytes, trust: Path | None) -> tuple[bytes, Claims]:
    """Return what was signed, and by whom, whoever that is.

    :raises AttestationError: it does not hold.
    :raises SigningKeyError: what is trusted cannot be read.
    """
    return _verified(data, _Signer(None), trust)


def _verified(data: bytes, signer: _Signer, trust: Path | None) -> tuple[bytes, Claims]:
    judge = verifier(trust)
    from sigstore.models import Bundle

    try:
        _, payload = judge.verify_dsse(Bundle.from_json(data), signer)
    except AttestationError:
        raise
    except Exception as error:  # noqa: BLE001  # of a bundle that anybody wrote, the libraries raise what they like
        raise AttestationError(f"it does not hold: {type(error).__name__}: {in_one_line(error)}") from None
    if signer.claims is None:
        raise AttestationError("it does not hold: nobody looked at its certificate")
    return payload, signer.claims
