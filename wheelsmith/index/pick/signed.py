"""Choose no wheel but one that somebody signed who is believed."""

from __future__ import annotations

from dataclasses import replace

from wheelsmith.base.errors import AttestationError
from wheelsmith.index.pick.decide import Decision
from wheelsmith.index.pick.source import Found, fetch_beside
from wheelsmith.index.resolve.target import Choice
from wheelsmith.wheel.attestation.bundle import LONGEST
from wheelsmith.wheel.attestation.policy import SignaturePolicy
from wheelsmith.wheel.attestation.verification import Verified, verify_statement


def verified(decision: Decision, found: Found, index: str, policy: SignaturePolicy) -> tuple[Decision, Verified | None]:
    """Return the decision, with its wheel named by the hash that was signed, and what holds of that.

    The wheel itself is not fetched: the command has its installer compare the hash.

    :param index: as the catalogue was asked for.
    :raises AttestationError: it is not signed, or not by who is believed.
    :raises PackageIndexError: what was signed cannot be read.
    """
    if not isinstance(decision.answer, Choice):
        return decision, None
    wheel = decision.answer.wheel
    if wheel.bundle is None:
        raise AttestationError(f"nothing signed lies beside {wheel.filename}")
    bundle = fetch_beside(found, index, wheel.bundle, LONGEST)
    try:
        held = verify_statement(wheel.filename, wheel.sha256, bundle, policy)
    except AttestationError as error:
        raise AttestationError(f"{wheel.filename}: {error.message}") from None
    return replace(decision, by_hash=True), held
