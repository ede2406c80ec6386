"""Sign without a key: with a short-lived certificate for a CI system's token, and an entry in a transparency log."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Self

from wheelsmith.base.errors import AttestationError, SigningKeyError
from wheelsmith.base.json_dataclass import in_one_line
from wheelsmith.base.redact import redact
from wheelsmith.wheel.attestation.bundle import read_bundle
from wheelsmith.wheel.attestation.certificate import (
    CertificateClaims,
    require_sigstore,
    signing_config,
    verify_certified,
)
from wheelsmith.wheel.attestation.keys import VARIABLE, SignedBundle
from wheelsmith.wheel.attestation.pep740 import bundle_from_provenance, make_provenance
from wheelsmith.wheel.attestation.statement import read_statement
from wheelsmith.wheel.attestation.verification import builder_conflict

if TYPE_CHECKING:
    from sigstore.sign import Signer as CertifiedSigner
    from sigstore.sign import SigningContext

_GITLAB_VARIABLE = "SIGSTORE_ID_TOKEN"
_TOKENS = (_GITLAB_VARIABLE, "ACTIONS_ID_TOKEN_REQUEST_TOKEN")  # variables with secret tokens
_RENEW_AFTER = 300.0  # seconds; a certificate is valid for ten minutes, and signing many wheels can take longer
_IDENTITY_REMEDY = (
    "in GitHub Actions, give the job `permissions: id-token: write`; otherwise pass --identity-token env:NAME"
)
_RETRY_REMEDY = "nothing was written; try again when the service is available"


class KeylessSigner:
    """Signs with certificates that are valid for ten minutes. Their private keys are never stored.

    :param context: servers for certificates and log entries.
    :param token: returns an identity token.
    :param trust: the file of ``--trust-config``; None means Sigstore's public one.
    """

    def __init__(self, context: SigningContext, token: Callable[[], str], trust: Path | None) -> None:
        self._context = context
        self._token = token
        self._trust = trust
        self._signer: CertifiedSigner | None = None
        self._signer_created = 0.0

    @classmethod
    def from_token(cls, identity_token: str | None, trust: Path | None) -> Self:
        """Return a signer that takes its token from the CI system or from a variable.

        :param identity_token: ``env:NAME`` for a variable with a token; None means the CI system's token.
        :raises SigningKeyError: the value is not ``env:NAME``, or the trust configuration names no servers.
        """
        require_sigstore()
        from sigstore.sign import SigningContext

        token = _ci_token if identity_token is None else _token_from_variable(identity_token)
        with _report_signing_errors():
            context = SigningContext.from_trust_config(signing_config(trust))
        return cls(context, token, trust)

    def sign(self, statement: bytes) -> SignedBundle:
        """Sign a statement.

        :raises SigningKeyError: no token, certificate or log entry is available.
        :raises AttestationError: the trust configuration does not accept the new signature.
        """
        if self._signer is None or time.monotonic() - self._signer_created > _RENEW_AFTER:
            self._signer, self._signer_created = self._new_signer(), time.monotonic()
        signed = _sign_statement(self._signer, statement)
        _, claims = verify_certified(signed, self._trust)
        if why := builder_conflict(read_statement(statement), claims):
            raise SigningKeyError(f"nothing was signed: {why}", remedy="use the token of the job that signs")
        return self._with_provenance(signed, claims)

    def reuse(self, bundle: bytes) -> SignedBundle | None:
        """Return an earlier bundle if its certificate belongs to the builder in its statement, or None.

        :raises AttestationError: it is not a bundle, or not valid.
        """
        if read_bundle(bundle).certificate is None:
            return None
        statement, claims = verify_certified(bundle, self._trust)
        if read_statement(statement).builder not in claims.builders:
            return None
        return self._with_provenance(bundle, claims)

    def _with_provenance(self, bundle: bytes, claims: CertificateClaims) -> SignedBundle:
        """Return a bundle, with its form for package indexes if that one is valid too: it lacks signed timestamps."""
        if (provenance := make_provenance(bundle, claims)) is None:
            return SignedBundle(bundle=bundle)
        try:
            verify_certified(bundle_from_provenance(provenance), self._trust)
        except AttestationError:
            return SignedBundle(bundle=bundle)
        return SignedBundle(bundle=bundle, provenance=provenance)

    def _new_signer(self) -> CertifiedSigner:
        from sigstore.oidc import IdentityToken
        from sigstore.sign import Signer

        with _report_signing_errors():
            return Signer(IdentityToken(self._token()), self._context)


def _sign_statement(signer: CertifiedSigner, statement: bytes) -> bytes:
    from sigstore.dsse import Statement

    with _report_signing_errors():
        return signer.sign_dsse(Statement(statement)).to_json().encode() + b"\n"


def _ci_token() -> str:
    from sigstore.oidc import detect_credential

    # sigstore prefers the token of a cloud machine to GitLab's, so that a runner in a cloud would sign as the machine.
    named = os.environ.get(_GITLAB_VARIABLE, "").strip() if os.environ.get("GITLAB_CI") else ""
    token = named or detect_credential()
    if token is None:
        raise SigningKeyError("sigstore found no identity token of a CI system", remedy=_IDENTITY_REMEDY)
    return token


def _token_from_variable(named: str) -> Callable[[], str]:
    match = VARIABLE.fullmatch(named)
    if match is None:
        # Do not show the value: it may be the token itself.
        raise SigningKeyError("--identity-token must be env: and the name of a variable", remedy=_IDENTITY_REMEDY)

    def token() -> str:
        if not (text := os.environ.get(match[1], "").strip()):
            raise SigningKeyError(f"the variable {match[1]} is unset or empty", remedy=_IDENTITY_REMEDY)
        return text

    return token


@contextmanager
def _report_signing_errors() -> Iterator[None]:
    from sigstore.oidc import ExpiredIdentity, IdentityError

    try:
        yield
    except SigningKeyError:
        raise
    except Exception as error:  # noqa: BLE001  # sigstore passes on any exception of its libraries, e.g. requests
        text = in_one_line(error) or in_one_line(error.__cause__ if isinstance(error.__cause__, Exception) else error)
        remedy = _IDENTITY_REMEDY if isinstance(error, ExpiredIdentity | IdentityError) else _RETRY_REMEDY
        shown = _redact_tokens(redact(text))
        raise SigningKeyError(f"nothing was signed: {type(error).__name__}: {shown}", remedy=remedy) from None


def _redact_tokens(text: str) -> str:
    """Remove tokens from a library's error message: some libraries quote the request that failed."""
    for token in (os.environ.get(name, "") for name in _TOKENS):
        for part in token.split():
            text = text.replace(part, "***")
    return text
