"""Read and write attestations in the format of package indexes: https://peps.python.org/pep-0740/."""

from __future__ import annotations

import base64
from typing import Any

from wheelsmith.base.errors import AttestationError
from wheelsmith.base.json_dataclass import in_one_line, parse_json
from wheelsmith.wheel.attestation.bundle import Bundle, report_unreadable
from wheelsmith.wheel.attestation.certificate import GITHUB, GITLAB, CertificateClaims

SUFFIX = ".provenance"
_WORKFLOWS = ".github/workflows/"


def make_provenance(bundle: bytes, claims: CertificateClaims) -> bytes | None:
    """Return a bundle as a provenance file, or None if PEP 740 has no publisher for its signer.

    :param bundle: a verified bundle.
    :param claims: claims of its certificate.
    """
    import pypi_attestations
    from sigstore.models import Bundle

    publisher = _publisher(claims)
    if publisher is None:
        return None
    attestation = pypi_attestations.Attestation.from_bundle(Bundle.from_json(bundle))
    by = pypi_attestations.AttestationBundle(publisher=publisher, attestations=[attestation])
    return pypi_attestations.Provenance(attestation_bundles=[by]).model_dump_json().encode() + b"\n"


def bundle_from_provenance(provenance: bytes) -> bytes:
    """Convert a provenance file from ``make_provenance`` back to a bundle.

    :raises AttestationError: it cannot be converted.
    """
    import pypi_attestations
    from sigstore.errors import Error

    (by,) = pypi_attestations.Provenance.model_validate_json(provenance).attestation_bundles
    (attestation,) = by.attestations
    try:
        return attestation.to_bundle().to_json().encode()
    except (Error, pypi_attestations.ConversionError) as error:
        raise AttestationError(f"the attestation cannot be converted to a bundle: {in_one_line(error)}") from None


def _publisher(claims: CertificateClaims) -> Any:
    import pypi_attestations

    file = claims.workflow_file
    if claims.repository is None or file is None:
        return None
    on_github, on_gitlab = "https://github.com/", "https://gitlab.com/"
    if claims.issuer == GITHUB and claims.repository.startswith(on_github) and file.startswith(_WORKFLOWS):
        return pypi_attestations.GitHubPublisher(
            repository=claims.repository.removeprefix(on_github), workflow=file.removeprefix(_WORKFLOWS)
        )
    if claims.issuer == GITLAB and claims.repository.startswith(on_gitlab):
        return pypi_attestations.GitLabPublisher(
            repository=claims.repository.removeprefix(on_gitlab), workflow_filepath=file
        )
    return None


def provenance_subjects(provenance: bytes) -> set[tuple[str, str]]:
    """Return the file names and sha256 of the statements in a provenance file.

    :raises AttestationError: it is not a provenance file, or an attestation has no certificate or no log entry.
    """
    with report_unreadable("the provenance"):
        return {_attestation_subject(each) for each in _attestations(parse_json(provenance.decode()))}


def matches_bundle(provenance: bytes, bundle: Bundle) -> bool:
    """Return True if all attestations have the statement, signature and certificate of a bundle.

    :param provenance: a file that ``provenance_subjects`` accepts.
    """
    signed = (bundle.certificate, bundle.statement, bundle.signature)
    return all(_signed_parts(each) == signed for each in _attestations(parse_json(provenance.decode())))


def _signed_parts(attestation: Any) -> tuple[bytes, bytes, bytes]:
    envelope = attestation["envelope"]
    texts = attestation["verification_material"]["certificate"], envelope["statement"], envelope["signature"]
    certificate, statement, signature = (base64.b64decode(text, validate=True) for text in texts)
    return certificate, statement, signature


def _attestations(data: Any) -> list[Any]:
    if data["version"] != 1:
        raise ValueError("its version is not 1")
    found = [each for bundle in data["attestation_bundles"] for each in bundle["attestations"]]
    if not found:
        raise ValueError("it has no attestations")
    return found


def _attestation_subject(attestation: Any) -> tuple[str, str]:
    # Imported here because indexes do not need the modules that write statements.
    from wheelsmith.wheel.attestation.statement import read_subject

    certificate, statement, _ = _signed_parts(attestation)
    logged = attestation["verification_material"]["transparency_entries"]
    if not certificate or not logged or not isinstance(logged, list):
        raise ValueError("an attestation has no certificate or no log entry")
    return read_subject(statement)
