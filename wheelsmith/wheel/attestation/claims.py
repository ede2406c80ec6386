"""What a certificate says of who signed: a CI system's workflow, or a person, as a certificate authority saw the token.

The extensions: https://github.com/sigstore/fulcio/blob/main/docs/oid-info.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from wheelsmith.base.json_dataclass import Record

if TYPE_CHECKING:
    from cryptography.x509 import Certificate, ExtensionType

_ARC = "1.3.6.1.4.1.57264.1."
_OLD_ISSUER, _ISSUER = f"{_ARC}1", f"{_ARC}8"
_SIGNER, _REPOSITORY, _COMMIT, _REF, _WORKFLOW = (f"{_ARC}{number}" for number in (9, 12, 13, 14, 18))
_CLAIMS = (_ISSUER, _SIGNER, _REPOSITORY, _COMMIT, _REF, _WORKFLOW)
_LONGEST = 2000  # characters of a claim


@dataclass(frozen=True, slots=True, kw_only=True)
class Claims(Record):
    """Who signed.

    :param subject: a workflow's address, or a mail address.
    :param issuer: of the token, as ``https://token.actions.githubusercontent.com``.
    :param repository: its address; None where the issuer tells of none, as of those below.
    :param ref: as ``refs/tags/v1``.
    :param commit: in hex.
    :param workflow: the file that the pipeline was begun by, with its repository and revision.
    :param called: the file of the job, where a workflow calls another.
    """

    subject: str
    issuer: str
    repository: str | None = None
    ref: str | None = None
    commit: str | None = None
    workflow: str | None = None
    called: str | None = None

    @property
    def builders(self) -> frozenset[str]:
        """Return who built, as statements name it: the pipeline, the job's workflow, or whom the certificate is of."""
        return frozenset(filter(None, (self.workflow, self.called, self.subject)))

    @property
    def caller(self) -> str | None:
        """Return the repository that called another's workflow, which the certificate is of; None where none did."""
        # GitHub's names are the same in capitals.
        subject, own = self.subject.casefold(), f"{self.repository}/".casefold()
        return self.repository if subject.startswith("https://") and not subject.startswith(own) else None

    @property
    def workflow_file(self) -> str | None:
        """Return the path of the workflow in its repository; None where its address does not show that."""
        if not (self.workflow and self.repository and self.workflow.startswith(f"{self.repository}/")):
            return None
        # GitLab has two slashes there.
        path = self.workflow.removeprefix(f"{self.repository}/").removeprefix("/")
        for revision in filter(None, (self.ref, self.commit)):
            if path.endswith(f"@{revision}"):
                return path.removesuffix(f"@{revision}")
        return None


def read_claims(certificate: Certificate) -> Claims:
    """Read what a certificate says; that it may say so, somebody else has verified.

    :raises ValueError: it does not say who it is of, or not clearly.
    """
    from cryptography import x509

    try:
        # Each kind is there once, or none can be read.
        found = {each.oid.dotted_string: each.value for each in certificate.extensions}
        names = list(certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value)
    except (x509.DuplicateExtension, x509.ExtensionNotFound) as error:
        raise ValueError(f"its extensions cannot be read: {error}") from None
    claims = {oid: _text(found[oid]) for oid in _CLAIMS if oid in found}
    if len(names) != 1 or not isinstance(names[0], x509.UniformResourceIdentifier | x509.RFC822Name):
        raise ValueError("it is not of one address of a workflow or of mail")
    issuer = claims.get(_ISSUER) or (_bytes(found[_OLD_ISSUER]).decode() if _OLD_ISSUER in found else None)
    if not issuer:
        raise ValueError("it does not say who issued the token")
    return Claims(
        subject=_bounded(names[0].value),
        issuer=_bounded(issuer),
        repository=claims.get(_REPOSITORY),
        ref=claims.get(_REF),
        commit=claims.get(_COMMIT),
        workflow=claims.get(_WORKFLOW),
        called=claims.get(_SIGNER),
    )


def _text(extension: ExtensionType) -> str:
    from cryptography.hazmat import asn1

    try:
        return _bounded(asn1.decode_der(str, _bytes(extension)))
    except ValueError as error:
        raise ValueError(f"a claim of it cannot be read: {error}") from None


def _bytes(extension: ExtensionType) -> bytes:
    from cryptography import x509

    if not isinstance(extension, x509.UnrecognizedExtension):
        raise TypeError(f"{extension.oid.dotted_string} is no claim")
    return extension.value


def _bounded(text: str) -> str:
    if not text or len(text) > _LONGEST or not text.isprintable():
        raise ValueError("a text in it is empty, too long, or has signs that nobody sees")
    return text
