"""Hold a wheel against what was signed of it, and that against what somebody believes."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from wheelsmith.base.beneath import NotRegularError, open_file
from wheelsmith.base.ci import LOCAL
from wheelsmith.base.errors import AttestationError, WheelError
from wheelsmith.base.json_dataclass import Record
from wheelsmith.wheel.attestation.bundle import Bundle, read_bundle
from wheelsmith.wheel.attestation.certified import verify_certified
from wheelsmith.wheel.attestation.claims import Claims
from wheelsmith.wheel.attestation.keys import VerifyingKey
from wheelsmith.wheel.attestation.policy import SignaturePolicy
from wheelsmith.wheel.attestation.statement import Said, read_statement
from wheelsmith.wheel.reader import WheelReader

LARGEST = 4 << 30  # bytes of a wheel
_LONGEST = 300  # characters of anything that is shown


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified(Record):
    """What holds of a wheel: who signed it, and what that one says.

    :param key: by which name the policy knows who signed; None where a certificate did.
    :param certificate: of whom that is; None where a key signed.
    :param source: where it was made from, as ``hub:org/name``.
    """

    wheel: str
    sha256: str
    key: str | None
    certificate: Claims | None
    builder: str
    source: str
    revision: str | None
    commit: str | None
    repository: str | None
    cells: tuple[str, ...]

    @property
    def signer(self) -> str:
        """Return who signed, for people."""
        if self.certificate is None:
            return str(self.key)
        return f"{self.certificate.subject}, as {self.certificate.issuer} says"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Signed:
    """What was signed, and by whom: one of both."""

    said: Said
    key: VerifyingKey | None = None
    claims: Claims | None = None


def verify_statement(filename: str, sha256: str, bundle: bytes, policy: SignaturePolicy) -> Verified:
    """Return what holds of a wheel whose hash somebody else compares: it is not looked into.

    :raises AttestationError: it says all that is wrong.
    """
    signed = _signed(bundle, policy)
    return _verified(signed, [*_of_another(signed.said, filename, sha256), *_not_believed(signed, policy)])


def verify_wheel(wheel: Path, bundle: bytes, policy: SignaturePolicy, reader: WheelReader) -> Verified:
    """Return what holds of a wheel.

    :param wheel: any file.
    :raises AttestationError: it says all that is wrong.
    """
    signed = _signed(bundle, policy)
    said = signed.said
    try:
        with open_file(wheel) as file:
            if os.fstat(file.fileno()).st_size > LARGEST:
                raise AttestationError(f"it has more than {LARGEST >> 30} GiB")
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]  # a BufferedReader
    except NotRegularError:
        raise AttestationError("it is a link, or no file") from None
    of_another = _of_another(said, wheel.name, sha256)
    return _verified(signed, [*of_another, *_planned_otherwise(said, wheel, reader), *_not_believed(signed, policy)])


def _verified(signed: _Signed, wrong: Sequence[str]) -> Verified:
    if wrong:
        raise AttestationError("; ".join(wrong))
    said = _as_certified(signed.said, signed.claims) if signed.claims else signed.said
    return Verified(
        wheel=said.filename,
        sha256=said.sha256,
        key=signed.key.name if signed.key else None,
        certificate=signed.claims,
        builder=said.builder,
        source=said.source,
        revision=said.revision,
        commit=said.commit,
        repository=said.repository,
        cells=said.cells,
    )


def _signed(data: bytes, policy: SignaturePolicy) -> _Signed:
    """Return who signed a bundle, and what."""
    bundle = read_bundle(data)
    if bundle.certificate is None:
        return _Signed(key=_signer(bundle, policy), said=read_statement(bundle.statement))
    if not policy.identities:
        raise AttestationError("it is signed by a certificate, and whose may sign is not said: --identity, or a policy")
    statement, claims = verify_certified(data, policy.identities, policy.trust)
    return _Signed(claims=claims, said=read_statement(statement))


def _not_believed(signed: _Signed, policy: SignaturePolicy) -> Iterator[str]:
    """Yield what is not believed of what was said: of whom a certificate is, it knows better than the statement."""
    said, claims = signed.said, signed.claims
    if claims is None:
        yield from policy.refusals(said)
        return
    if claims.repository and said.repository not in {None, claims.repository}:
        yield (
            f"the statement names the repository {str(said.repository)[:_LONGEST]}, "
            f"and the certificate {claims.repository[:_LONGEST]}"
        )
    if why := named_otherwise(said, claims):
        yield why
    yield from policy.refusals(_as_certified(said, claims))


def named_otherwise(said: Said, claims: Claims) -> str | None:
    """Say in which builder a statement differs from the certificate that it is signed by; None where it does not.

    Who ran it on a machine of their own names no builder that anybody else could know.
    """
    if said.builder in claims.builders or said.builder == LOCAL or said.builder.startswith(f"{LOCAL}:"):
        return None
    certified = (claims.workflow or claims.subject)[:_LONGEST]
    return f"the statement names the builder {said.builder[:_LONGEST]}, and the certificate {certified}"


def _as_certified(said: Said, claims: Claims) -> Said:
    """Return what was said, of the repository as the certificate has it: a statement alone may name any."""
    return replace(said, repository=claims.repository)


def _signer(bundle: Bundle, policy: SignaturePolicy) -> VerifyingKey:
    if not policy.keys:
        raise AttestationError(f"it is signed by a key, which nobody named: its sha256 is {bundle.hint[:_LONGEST]}")
    for key in policy.keys:
        if key.verifies(bundle.signature, bundle.signed):
            return key
    for key in policy.keys:
        if key.hint == bundle.hint:
            raise AttestationError(f"it says that {key.name} signed it, which did not sign this")
    names = ", ".join(key.name for key in policy.keys)
    raise AttestationError(f"it is not signed by {names}, but by a key whose sha256 is {bundle.hint[:_LONGEST]}")


def _of_another(said: Said, filename: str, sha256: str) -> Iterator[str]:
    if said.filename != filename:
        yield f"what is signed is of {said.filename[:_LONGEST]}"
    if said.sha256 != sha256:
        yield f"what is signed is of a wheel whose sha256 is {said.sha256[:_LONGEST]}, and this one's is {sha256}"


def _planned_otherwise(said: Said, wheel: Path, reader: WheelReader) -> Iterator[str]:
    try:
        recorded = reader.recorded_plan(wheel)
    except WheelError as error:
        yield f"the wheel cannot be read: {error.message}"
        return
    if recorded is None:
        yield "the wheel records no plan"
    elif recorded.digest != said.plan_digest:
        yield f"the wheel records the plan {recorded.digest}, and what is signed names {said.plan_digest[:_LONGEST]}"
    if recorded and recorded.tree != said.tree:
        yield f"the wheel is made from the source {recorded.tree}, and what is signed names {said.tree[:_LONGEST]}"
