"""Verify signatures with certificates, and read the claims of the certificates.

Verification itself needs no network. The extensions are documented in
https://github.com/sigstore/fulcio/blob/main/docs/oid-info.md.
"""

from __future__ import annotations

import json
import logging
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from wheelsmith.base.distribution import install_command
from wheelsmith.base.errors import AttestationError, SigningKeyError
from wheelsmith.base.files import read_bounded
from wheelsmith.base.json_dataclass import Record, in_one_line
from wheelsmith.base.offline import is_offline
from wheelsmith.base.redact import redact

if TYPE_CHECKING:
    from cryptography.x509 import Certificate, ExtensionType
    from sigstore.models import ClientTrustConfig, TrustedRoot
    from sigstore.verify import Verifier

# Issuers of tokens.
GITHUB, GITLAB = "https://token.actions.githubusercontent.com", "https://gitlab.com"
_MAX_SIZE = 1 << 20  # bytes of a trust configuration
_CLIENT_CONFIG = "application/vnd.dev.sigstore.clienttrustconfig.v0.1+json"
_OID_PREFIX = "1.3.6.1.4.1.57264.1."
_OLD_ISSUER, _ISSUER = f"{_OID_PREFIX}1", f"{_OID_PREFIX}8"
_CLAIM_OIDS = {
    "called": f"{_OID_PREFIX}9",
    "repository": f"{_OID_PREFIX}12",
    "commit": f"{_OID_PREFIX}13",
    "ref": f"{_OID_PREFIX}14",
    "workflow": f"{_OID_PREFIX}18",
}
_MAX_CLAIM = 2000  # characters of a claim


def make_verifier(trust: Path | None) -> Verifier:
    """Return the verifier of certificates, log entries and signatures.

    :param trust: a client trust configuration or a trusted root, as Sigstore's programs write them. None means
        Sigstore's public one. If wheelsmith is offline, it is the one that was last fetched.
    :raises SigningKeyError: the trust configuration cannot be read or fetched.
    """
    require_sigstore()
    with _report_trust_errors(trust):
        return _cached_verifier(_read_config(trust) if trust else None, offline=is_offline())


@cache
def _cached_verifier(text: str | None, *, offline: bool) -> Verifier:
    from sigstore.verify import Verifier

    return Verifier(trusted_root=_trusted_root(text, offline=offline))


def _trusted_root(text: str | None, *, offline: bool) -> TrustedRoot:
    from sigstore.models import ClientTrustConfig, TrustedRoot

    if text is None:
        return ClientTrustConfig.production(offline=offline).trusted_root
    if _is_client_config(text):
        return ClientTrustConfig.from_json(text).trusted_root
    with tempfile.NamedTemporaryFile(prefix="wheelsmith-") as file:
        file.write(text.encode())
        file.flush()
        return TrustedRoot.from_file(file.name)


def signing_config(trust: Path | None) -> ClientTrustConfig:
    """Return the servers for certificates and log entries, with their roots of trust.

    :param trust: a client trust configuration; None means Sigstore's public one.
    :raises SigningKeyError: the trust configuration cannot be read or fetched, or names no servers.
    """
    require_sigstore()
    from sigstore.models import ClientTrustConfig

    with _report_trust_errors(trust):
        text = _read_config(trust) if trust else None
        if text is None:
            return ClientTrustConfig.production()
        if not _is_client_config(text):
            raise ValueError("it names no signing servers; signing needs a client trust configuration")
        return ClientTrustConfig.from_json(text)


def require_sigstore() -> None:
    """Import the libraries for keyless signatures.

    :raises SigningKeyError: they are not installed.
    """
    try:
        import pypi_attestations  # noqa: F401  # to test if it is installed
        import sigstore.models  # noqa: F401  # as above
    except ImportError:
        raise SigningKeyError(
            "signatures without a key need sigstore, which is not installed",
            remedy=install_command("keyless"),
        ) from None
    # sigstore's exceptions contain the same texts as its log.
    logging.getLogger("sigstore").addHandler(logging.NullHandler())


def _is_client_config(text: str) -> bool:
    data = json.loads(text)
    return isinstance(data, dict) and data.get("mediaType") == _CLIENT_CONFIG


def _read_config(path: Path) -> str:
    return read_bounded(path, _MAX_SIZE).decode()


@contextmanager
def _report_trust_errors(trust: Path | None) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # noqa: BLE001  # sigstore passes on any exception of its libraries
        name = f"the trust configuration {str(trust)!a}" if trust else "Sigstore's trusted root"
        cause = f": {type(error.__cause__).__name__}" if error.__cause__ else ""
        or_offline = "" if trust else "; or verify with --offline, which uses the last one that was fetched"
        raise SigningKeyError(
            redact(f"{name} cannot be read: {in_one_line(error)}{cause}"),
            remedy=f"pass a file from Sigstore's tools: --trust-config FILE{or_offline}",
        ) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateClaims(Record):
    """The signer, from the token that a CI system or a person gave to the certificate authority.

    :param subject: URL of a workflow, or e-mail address.
    :param issuer: issuer of the token, e.g. ``https://token.actions.githubusercontent.com``.
    :param repository: URL of the repository. This and the following are None if the issuer does not name them.
    :param ref: e.g. ``refs/tags/v1``.
    :param commit: in hex.
    :param workflow: the file that started the pipeline, with its repository and revision.
    :param called: the file with the job, if the workflow calls another one.
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
        """Return the names that a statement may use for this builder."""
        return frozenset(filter(None, (self.workflow, self.called, self.subject)))

    @property
    def caller(self) -> str | None:
        """Return the repository if it called another repository's workflow, or None."""
        # GitHub's names are case-insensitive.
        subject, own = self.subject.casefold(), f"{self.repository}/".casefold()
        return self.repository if subject.startswith("https://") and not subject.startswith(own) else None

    @property
    def workflow_file(self) -> str | None:
        """Return the path of the workflow in its repository, or None if its URL does not contain it."""
        if not (self.workflow and self.repository and self.workflow.startswith(f"{self.repository}/")):
            return None
        # GitLab writes two slashes after the repository.
        path = self.workflow.removeprefix(f"{self.repository}/").removeprefix("/")
        for revision in filter(None, (self.ref, self.commit)):
            if path.endswith(f"@{revision}"):
                return path.removesuffix(f"@{revision}")
        return None


class _ClaimsReader:
    """Reads the claims of a certificate after sigstore has verified its chain.

    :param check: raises AttestationError if the signer is not accepted.
    """

    def __init__(self, check: Callable[[CertificateClaims], None]) -> None:
        self._check = check
        self.claims: CertificateClaims | None = None

    def verify(self, cert: Certificate) -> None:
        """Read and check a certificate. sigstore calls this method of its policy."""
        self.claims = read_claims(cert)
        self._check(self.claims)


def verify_certified(
    data: bytes, trust: Path | None, check: Callable[[CertificateClaims], None] = lambda _: None
) -> tuple[bytes, CertificateClaims]:
    """Verify a certificate, its log entry and the signature. Return the signed statement and the signer.

    :param data: a bundle with a certificate, according to ``read_bundle``.
    :param trust: same as for ``make_verifier``.
    :param check: raises AttestationError if the signer is not accepted.
    :raises AttestationError: the bundle is invalid, or the signer is not accepted.
    :raises SigningKeyError: the trust configuration cannot be read.
    """
    judge, reader = make_verifier(trust), _ClaimsReader(check)
    from sigstore.models import Bundle

    try:
        _, statement = judge.verify_dsse(Bundle.from_json(data), reader)
    except AttestationError:
        raise
    except Exception as error:  # noqa: BLE001  # the libraries raise anything on untrusted bundles
        raise AttestationError(f"the signature is not valid: {type(error).__name__}: {in_one_line(error)}") from None
    if reader.claims is None:
        raise AttestationError("the signature is not valid: sigstore did not check its certificate")
    return statement, reader.claims


def read_claims(certificate: Certificate) -> CertificateClaims:
    """Read the claims of a verified certificate.

    :raises ValueError: it does not name exactly one signer.
    """
    from cryptography import x509

    try:
        # Raises if an extension occurs twice.
        found = {each.oid.dotted_string: each.value for each in certificate.extensions}
        names = list(certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value)
    except (x509.DuplicateExtension, x509.ExtensionNotFound) as error:
        raise ValueError(f"its extensions cannot be read: {error}") from None
    if len(names) != 1 or not isinstance(names[0], x509.UniformResourceIdentifier | x509.RFC822Name):
        raise ValueError("it must name exactly one workflow URL or e-mail address")
    if _ISSUER in found:
        issuer = _read_text_claim(found[_ISSUER])
    elif _OLD_ISSUER in found:
        issuer = _extension_bytes(found[_OLD_ISSUER]).decode()
    else:
        raise ValueError("it does not name the issuer of the token")
    claims = {name: _read_text_claim(found[oid]) for name, oid in _CLAIM_OIDS.items() if oid in found}
    return CertificateClaims(subject=_require_printable(names[0].value), issuer=_require_printable(issuer), **claims)


def _read_text_claim(extension: ExtensionType) -> str:
    from cryptography.hazmat import asn1

    try:
        return _require_printable(asn1.decode_der(str, _extension_bytes(extension)))
    except ValueError as error:
        raise ValueError(f"one of its claims cannot be read: {error}") from None


def _extension_bytes(extension: ExtensionType) -> bytes:
    from cryptography import x509

    if not isinstance(extension, x509.UnrecognizedExtension):
        raise TypeError(f"{extension.oid.dotted_string} is not a claim")
    return extension.value


def _require_printable(text: str) -> str:
    if not text or len(text) > _MAX_CLAIM or not text.isprintable():
        raise ValueError("one of its texts is empty, too long, or contains unprintable characters")
    return text
