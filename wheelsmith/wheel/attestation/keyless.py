"""Sign without a key: by a certificate that is had for a CI system's token, with an entry in a log."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Self

from wheelsmith.base.errors import AttestationError, SigningKeyError
from wheelsmith.base.json_dataclass import in_one_line
from wheelsmith.base.redact import redact
from wheelsmith.wheel.attestation.bundle import read_bundle
from wheelsmith.wheel.attestation.certificate import CertificateClaims, require_extra, signing_config, verify_certified
from wheelsmith.wheel.attestation.keys import SignedBundle
from wheelsmith.wheel.attestation.pep740 import bundle_in, provenance_of
from wheelsmith.wheel.attestation.statement import read_statement
from wheelsmith.wheel.attestation.verification import builder_conflict

if TYPE_CHECKING:
    from sigstore.sign import Signer as CertifiedSigner
    from sigstore.sign import SigningContext

_VARIABLE = re.compile(r"env:([A-Za-z_][A-Za-z0-9_]*)", re.ASCII)
_OF_GITLAB = "SIGSTORE_ID_TOKEN"
_TOKENS = (_OF_GITLAB, "ACTIONS_ID_TOKEN_REQUEST_TOKEN")  # variables that hold some
_RENEWED = 300.0  # seconds: a certificate is valid for ten minutes, and there may be many wheels
_AMBIENT = "in GitHub Actions give the job `permissions: id-token: write`; elsewhere --identity-token env:NAME"
_AGAIN = "sign again once it answers: nothing was written"


class KeylessSigner:
    """Signs by certificates that are valid for some minutes; the key that each is for is nowhere kept.

    :param trust: as ``--trust-config`` names it; None is Sigstore itself.
    """

    def __init__(self, context: SigningContext, token: Callable[[], str], trust: Path | None) -> None:
        self._context = context
        self._token = token
        self._trust = trust
        self._signer: CertifiedSigner | None = None
        self._since = 0.0

    @classmethod
    def with_token(cls, identity_token: str | None, trust: Path | None) -> Self:
        """Return one that signs with a token of the CI system's, or with one that a variable holds.

        :param identity_token: ``env:NAME``; None asks the CI system.
        :raises SigningKeyError: the token is not named as a variable, or there is nowhere to sign.
        """
        require_extra()
        from sigstore.sign import SigningContext

        token = _ambient if identity_token is None else _of_variable(identity_token)
        with _explained():
            context = SigningContext.from_trust_config(signing_config(trust))
        return cls(context, token, trust)

    def sign(self, statement: bytes) -> SignedBundle:
        """Return a statement, signed.

        :raises SigningKeyError: no token, certificate or log entry is to be had.
        :raises AttestationError: what was signed does not hold by what is trusted.
        """
        if self._signer is None or time.monotonic() - self._since > _RENEWED:
            self._signer, self._since = self._certified(), time.monotonic()
        signed = _signed(self._signer, statement)
        _, claims = verify_certified(signed, self._trust)
        if why := builder_conflict(read_statement(statement), claims):
            raise SigningKeyError(f"nothing is signed: {why}", remedy="the token has to be of the job that signs")
        return self._with_provenance(signed, claims)

    def kept(self, bundle: bytes) -> SignedBundle | None:
        """Return what was signed before, where it is by the workflow, or whom else its statement names as the builder.

        :raises AttestationError: it is no bundle, or does not hold.
        """
        if read_bundle(bundle).certificate is None:
            return None
        statement, claims = verify_certified(bundle, self._trust)
        if read_statement(statement).builder not in claims.builders:
            return None
        return self._with_provenance(bundle, claims)

    def _with_provenance(self, bundle: bytes, claims: CertificateClaims) -> SignedBundle:
        """Return a bundle with what an index offers of it, which must hold by itself: it has no time of another's."""
        if (provenance := provenance_of(bundle, claims)) is None:
            return SignedBundle(bundle=bundle)
        try:
            verify_certified(bundle_in(provenance), self._trust)
        except AttestationError:
            return SignedBundle(bundle=bundle)
        return SignedBundle(bundle=bundle, provenance=provenance)

    def _certified(self) -> CertifiedSigner:
        from sigstore.oidc import IdentityToken
        from sigstore.sign import Signer

        with _explained():
            return Signer(IdentityToken(self._token()), self._context)


def _signed(signer: CertifiedSigner, statement: bytes) -> bytes:
    from sigstore.dsse import Statement

    with _explained():
        return signer.sign_dsse(Statement(statement)).to_json().encode() + b"\n"


def _ambient() -> str:
    from sigstore.oidc import detect_credential

    # sigstore asks the machine before it asks GitLab: a runner in a cloud would sign as that machine.
    named = os.environ.get(_OF_GITLAB, "").strip() if os.environ.get("GITLAB_CI") else ""
    token = named or detect_credential()
    if token is None:
        raise SigningKeyError("this is no CI system whose token sigstore finds", remedy=_AMBIENT)
    return token


def _of_variable(named: str) -> Callable[[], str]:
    match = _VARIABLE.fullmatch(named)
    if match is None:
        # What stands there may be the token itself.
        raise SigningKeyError("--identity-token is not env: and the name of a variable", remedy=_AMBIENT)

    def token() -> str:
        if not (text := os.environ.get(match[1], "").strip()):
            raise SigningKeyError(f"the variable {match[1]} is not set, or empty", remedy=_AMBIENT)
        return text

    return token


@contextmanager
def _explained() -> Iterator[None]:
    from sigstore.oidc import ExpiredIdentity, IdentityError

    try:
        yield
    except SigningKeyError:
        raise
    except Exception as error:  # noqa: BLE001  # sigstore raises what its libraries do, requests' among them
        text = in_one_line(error) or in_one_line(error.__cause__ if isinstance(error.__cause__, Exception) else error)
        remedy = _AMBIENT if isinstance(error, ExpiredIdentity | IdentityError) else _AGAIN
        shown = _without_tokens(redact(text))
        raise SigningKeyError(f"nothing is signed: {type(error).__name__}: {shown}", remedy=remedy) from None


def _without_tokens(text: str) -> str:
    """Return what a library says without what it was given: some quote what they cannot send."""
    for token in (os.environ.get(name, "") for name in _TOKENS):
        for part in token.split():
            text = text.replace(part, "***")
    return text
