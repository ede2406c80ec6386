"""Verify the signatures of wheels, and compare their statements with the wheels and with a policy."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from wheelsmith.base.beneath import NotRegularError, open_file
from wheelsmith.base.ci import LOCAL
from wheelsmith.base.errors import AttestationError, WheelError
from wheelsmith.base.json_dataclass import Record
from wheelsmith.base.units import show_binary_size
from wheelsmith.wheel.attestation.bundle import Bundle, read_bundle
from wheelsmith.wheel.attestation.certificate import CertificateClaims, verify_certified
from wheelsmith.wheel.attestation.keys import VerifyingKey
from wheelsmith.wheel.attestation.policy import SignaturePolicy, identity_violation
from wheelsmith.wheel.attestation.statement import StatementClaims, read_statement
from wheelsmith.wheel.reader import WheelReader

LARGEST = 4 << 30  # bytes of a wheel
_MAX_SHOWN = 2000  # characters of a message that quotes untrusted texts


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified(Record):
    """A verified wheel: its signer and the claims of its statement.

    :param key: name of the key in the policy; None with a certificate.
    :param certificate: claims of the certificate; None with a key.
    :param source: e.g. ``hub:org/name``.
    """

    wheel: str
    sha256: str
    key: str | None
    certificate: CertificateClaims | None
    builder: str
    source: str
    revision: str | None
    commit: str | None
    repository: str | None
    cells: tuple[str, ...]

    @property
    def signer(self) -> str:
        """Return a description of the signer."""
        if self.certificate is None:
            return str(self.key)
        return f"{self.certificate.subject} (issuer {self.certificate.issuer})"


@dataclass(frozen=True, slots=True, kw_only=True)
class _SignedStatement:
    """A statement with a valid signature, by either a key or a certificate."""

    claims: StatementClaims
    key: VerifyingKey | None = None
    certificate: CertificateClaims | None = None


def verify_statement(filename: str, sha256: str, bundle: bytes, policy: SignaturePolicy) -> Verified:
    """Verify the signature of a wheel that is not on this machine.

    :param sha256: expected sha256 of the wheel. The caller must compare the file with it later.
    :raises AttestationError: with all violations.
    """
    signed = _verify_signature(bundle, policy)
    return _accept(signed, [*_wheel_mismatches(signed.claims, filename, sha256), *_policy_violations(signed, policy)])


def verify_wheel(wheel: Path, bundle: bytes, policy: SignaturePolicy, reader: WheelReader) -> Verified:
    """Verify the signature of a wheel, and compare its statement with the wheel.

    :param reader: reads the plan that the wheel records.
    :raises AttestationError: with all violations.
    """
    signed = _verify_signature(bundle, policy)
    try:
        with open_file(wheel) as file:
            if os.fstat(file.fileno()).st_size > LARGEST:
                raise AttestationError(f"it has more than {show_binary_size(LARGEST)}")
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]  # a BufferedReader
    except NotRegularError:
        raise AttestationError("it is not a regular file") from None
    other = _wheel_mismatches(signed.claims, wheel.name, sha256)
    return _accept(
        signed, [*other, *_plan_mismatches(signed.claims, wheel, reader), *_policy_violations(signed, policy)]
    )


def builder_conflict(claims: StatementClaims, certificate: CertificateClaims) -> str | None:
    """Return how the builder in a statement contradicts the certificate, or None.

    A local builder contradicts no certificate.
    """
    if claims.builder in certificate.builders or claims.builder == LOCAL or claims.builder.startswith(f"{LOCAL}:"):
        return None
    certified = certificate.workflow or certificate.subject
    return f"the statement names the builder {claims.builder}, but the certificate names {certified}"


def _verify_signature(data: bytes, policy: SignaturePolicy) -> _SignedStatement:
    bundle = read_bundle(data)
    if bundle.certificate is None:
        return _SignedStatement(key=_signing_key(bundle, policy), claims=read_statement(bundle.statement))
    if not policy.identities:
        raise AttestationError(
            "it is signed with a certificate, but no identity is accepted: pass --identity or --policy"
        )

    def check(claims: CertificateClaims) -> None:
        if violation := identity_violation(claims, policy.identities):
            raise AttestationError(violation)

    statement, certificate = verify_certified(data, policy.trust, check)
    return _SignedStatement(certificate=certificate, claims=read_statement(statement))


def _signing_key(bundle: Bundle, policy: SignaturePolicy) -> VerifyingKey:
    hint = bundle.hint[:_MAX_SHOWN]
    if not policy.keys:
        raise AttestationError(
            f"it is signed by a key, but no key is accepted: use --key or --policy; its sha256 is {hint}"
        )
    for key in policy.keys:
        if key.verifies(bundle.signature, bundle.signed):
            return key
    for key in policy.keys:
        if key.hint == bundle.hint:
            raise AttestationError(f"it names the key {key.name}, but that key did not sign it")
    names = ", ".join(key.name for key in policy.keys)
    raise AttestationError(f"it is not signed by {names}, but by another key: its sha256 is {hint}")


def _accept(signed: _SignedStatement, violations: list[str]) -> Verified:
    if violations:
        raise AttestationError("; ".join(violations)[:_MAX_SHOWN])
    claims = _with_certified_repository(signed)
    return Verified(
        wheel=claims.filename,
        sha256=claims.sha256,
        key=signed.key.name if signed.key else None,
        certificate=signed.certificate,
        builder=claims.builder,
        source=claims.source,
        revision=claims.revision,
        commit=claims.commit,
        repository=claims.repository,
        cells=claims.cells,
    )


def _policy_violations(signed: _SignedStatement, policy: SignaturePolicy) -> Iterator[str]:
    claims, certificate = signed.claims, signed.certificate
    if certificate and certificate.repository and claims.repository not in {None, certificate.repository}:
        certified = certificate.repository
        yield f"the statement names the repository {claims.repository}, but the certificate names {certified}"
    if certificate and (conflict := builder_conflict(claims, certificate)):
        yield conflict
    yield from policy.violations(_with_certified_repository(signed))


def _with_certified_repository(signed: _SignedStatement) -> StatementClaims:
    """Return the claims with the certificate's repository, if there is a certificate: a statement can name any."""
    if signed.certificate is None:
        return signed.claims
    return replace(signed.claims, repository=signed.certificate.repository)


def _wheel_mismatches(claims: StatementClaims, filename: str, sha256: str) -> Iterator[str]:
    if claims.filename != filename:
        yield f"the statement is about {claims.filename}"
    if claims.sha256 != sha256:
        yield f"the statement is about a wheel with the sha256 {claims.sha256}, but this one has {sha256}"


def _plan_mismatches(claims: StatementClaims, wheel: Path, reader: WheelReader) -> Iterator[str]:
    try:
        recorded = reader.recorded_plan(wheel)
    except WheelError as error:
        yield f"the wheel cannot be read: {error.message}"
        return
    if recorded is None:
        yield "the wheel records no plan"
        return
    if recorded.digest != claims.plan_digest:
        yield f"the wheel records the plan {recorded.digest}, but the statement names {claims.plan_digest}"
    if recorded.tree != claims.tree:
        yield f"the wheel is made from the source {recorded.tree}, but the statement names {claims.tree}"
