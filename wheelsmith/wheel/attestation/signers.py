"""Who signs statements: a key of one's own, or what stands in for one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from wheelsmith.wheel.attestation.bundle import Bundle, read_bundle
from wheelsmith.wheel.attestation.keys import SigningKey


@dataclass(frozen=True, slots=True, kw_only=True)
class Signed:
    """What was signed of a wheel.

    :param bundle: a Sigstore bundle.
    :param provenance: the same as package indexes offer it (PEP 740); None where it cannot be that.
    """

    bundle: bytes
    provenance: bytes | None = None


class Signer(Protocol):
    """Whoever signs."""

    def sign(self, statement: bytes) -> Signed:
        """Return a statement, signed.

        :raises SigningKeyError: it cannot be signed.
        """

    def kept(self, bundle: bytes) -> Signed | None:
        """Return what was signed before, where it is by the same signer; None where it is not.

        :raises AttestationError: it is no bundle.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class KeySigner:
    """A key of one's own."""

    key: SigningKey

    def sign(self, statement: bytes) -> Signed:
        """Return a statement, signed.

        :raises SigningKeyError: a service does not sign.
        """
        hint = self.key.public.hint
        unsigned = Bundle(statement=statement, signature=b"", hint=hint)
        made = Bundle(statement=statement, signature=self.key.sign(unsigned.signed), hint=hint)
        return Signed(bundle=made.to_bytes())

    def kept(self, bundle: bytes) -> Signed | None:
        """Return what was signed before, where it is by the same key.

        :raises AttestationError: it is no bundle.
        """
        before = read_bundle(bundle)
        by_it = before.certificate is None and self.key.public.verifies(before.signature, before.signed)
        return Signed(bundle=bundle) if by_it else None
