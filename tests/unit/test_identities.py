"""Who signed without a key: what certificates say is read strictly, and compared with what somebody wrote down."""

import base64
import datetime as dt
import json
import sys
from dataclasses import replace

import pytest
from cryptography import x509
from cryptography.hazmat import asn1
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import given
from hypothesis import strategies as st

from wheelsmith.base.distribution import install_command
from wheelsmith.base.errors import AttestationError, PolicyError, SigningKeyError
from wheelsmith.index.entries.entry import check_address
from wheelsmith.wheel.attestation.certificate import (
    GITHUB,
    GITLAB,
    CertificateClaims,
    make_verifier,
    read_claims,
    signing_config,
)
from wheelsmith.wheel.attestation.keyless import KeylessSigner
from wheelsmith.wheel.attestation.pep740 import _publisher, provenance_subjects
from wheelsmith.wheel.attestation.policy import Identity, identity_violation, known_issuer, read_policy

REPOSITORY = "https://github.com/org/wheels"
WORKFLOW = f"{REPOSITORY}/.github/workflows/wheels.yml@refs/tags/v1"
CLAIMS = CertificateClaims(
    subject=WORKFLOW, issuer=GITHUB, repository=REPOSITORY, ref="refs/tags/v1", commit="e" * 40, workflow=WORKFLOW
)
NUMBERS = {"issuer": 8, "repository": 12, "commit": 13, "ref": 14, "workflow": 18}


def claim(number, value):
    oid = x509.ObjectIdentifier(f"1.3.6.1.4.1.57264.1.{number}")
    return x509.UnrecognizedExtension(oid, value)


def text(value):
    return asn1.encode_der(value)


NAMES = (x509.UniformResourceIdentifier(WORKFLOW),)


def certificate(*claims, names=NAMES):
    key = ec.generate_private_key(ec.SECP256R1())
    now = dt.datetime.now(dt.UTC)
    builder = x509.CertificateBuilder(
        subject_name=x509.Name([]),
        issuer_name=x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "x")]),
        public_key=key.public_key(),
        serial_number=1,
        not_valid_before=now,
        not_valid_after=now + dt.timedelta(minutes=10),
    )
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=True)
    for each in claims:
        builder = builder.add_extension(each, critical=False)
    return builder.sign(key, hashes.SHA256())


def test_what_a_certificate_says_is_read():
    said = [claim(number, text(getattr(CLAIMS, name))) for name, number in NUMBERS.items()]
    assert read_claims(certificate(*said)) == CLAIMS
    person = certificate(claim(1, b"https://accounts.test"), names=(x509.RFC822Name("me@example.org"),))
    assert read_claims(person) == CertificateClaims(subject="me@example.org", issuer="https://accounts.test")
    both = certificate(claim(1, b"https://old.test"), claim(8, text("https://new.test")))
    assert read_claims(both).issuer == "https://new.test"


@pytest.mark.parametrize(
    "wrong",
    [
        certificate,
        lambda: certificate(claim(8, text(GITHUB)), names=()),
        lambda: certificate(claim(8, GITHUB.encode())),
        lambda: certificate(claim(8, text(GITHUB)), claim(12, text("https://h\n::error::"))),
        lambda: certificate(claim(8, text(GITHUB)), claim(12, text(""))),
        lambda: certificate(claim(8, text(GITHUB)), claim(12, text(REPOSITORY) + b"\0")),
        lambda: certificate(claim(8, text(GITHUB)), names=(x509.UniformResourceIdentifier("https://h/\x1b[31m"),)),
    ],
)
def test_a_certificate_that_says_nothing_clear_is_of_nobody(wrong):
    with pytest.raises(ValueError, match=r"^(it|its extensions|one of its claims|one of its texts) "):
        read_claims(wrong())


@pytest.mark.parametrize(
    ("words", "refused"),
    [
        ({"subject": WORKFLOW.replace("v1", "*")}, None),
        ({"subject": "https://github.com/*"}, f"the subject is {WORKFLOW}, not https://github.com/*"),
        ({"repository": REPOSITORY}, None),
        ({"repository": f"{REPOSITORY}/"}, f"the repository is {REPOSITORY}, not {REPOSITORY}/"),
        ({"repository": REPOSITORY, "workflow": ".github/workflows/*.yml"}, None),
        ({"repository": REPOSITORY, "workflow": "wheels.yml"}, f"the workflow is {WORKFLOW}, not wheels.yml"),
        ({"repository": REPOSITORY, "ref": "refs/tags/v*"}, None),
        ({"repository": REPOSITORY, "ref": "refs/heads/main"}, "the ref is refs/tags/v1, not refs/heads/main"),
    ],
)
def test_all_that_is_written_down_must_be_so(words, refused):
    said = identity_violation(CLAIMS, (Identity(issuer=GITHUB, **words),))
    assert said == (f"its certificate matches no accepted identity: {refused}" if refused else None)
    assert f"the issuer is {GITHUB}, not {GITLAB}" in identity_violation(CLAIMS, (Identity(issuer=GITLAB, **words),))
    assert (
        identity_violation(CLAIMS, (Identity(issuer=GITLAB, **words), Identity(issuer=GITHUB, subject=WORKFLOW)))
        is None
    )


def test_nobody_is_believed_where_nobody_is_named():
    bare = CertificateClaims(subject="me@example.org", issuer=GITHUB)
    for words in ({"repository": REPOSITORY}, {"subject": "*", "ref": "*"}, {"subject": "*", "workflow": "*"}):
        assert "is unknown, not" in identity_violation(bare, (Identity(issuer=GITHUB, **words),))
    assert identity_violation(CLAIMS, ()) is not None


@pytest.mark.parametrize(
    ("change", "file"),
    [
        ({}, ".github/workflows/wheels.yml"),
        ({"workflow": f"{REPOSITORY}/.github/workflows/wheels.yml@{'e' * 40}"}, ".github/workflows/wheels.yml"),
        ({"workflow": f"{REPOSITORY}2/.github/workflows/wheels.yml@refs/tags/v1"}, None),
        ({"workflow": f"{REPOSITORY}/.github/workflows/wheels.yml@refs/heads/main"}, None),
        ({"workflow": f"{REPOSITORY}/.github/workflows/wheels.yml"}, None),
        ({"ref": None, "commit": None}, None),
    ],
)
def test_a_workflow_is_a_file_of_its_repository_at_its_revision(change, file):
    assert replace(CLAIMS, **change).workflow_file == file


def test_publishers_are_those_that_indexes_know():
    on_gitlab = "https://gitlab.com/group/sub/wheels"
    gitlab = CertificateClaims(
        subject="x",
        issuer=GITLAB,
        repository=on_gitlab,
        ref="refs/heads/main",
        workflow=f"{on_gitlab}//ci/wheels.yml@refs/heads/main",
    )
    pytest.importorskip("pypi_attestations")
    assert _publisher(CLAIMS).model_dump(exclude_none=True) == {
        "kind": "GitHub",
        "repository": "org/wheels",
        "workflow": "wheels.yml",
    }
    assert _publisher(gitlab).model_dump(exclude_none=True) == {
        "kind": "GitLab",
        "repository": "group/sub/wheels",
        "workflow_filepath": "ci/wheels.yml",
    }
    for wrong in (replace(CLAIMS, issuer="https://ghe.test"), replace(gitlab, issuer=GITHUB), replace(CLAIMS, ref="x")):
        assert _publisher(wrong) is None
    assert (known_issuer(REPOSITORY), known_issuer(on_gitlab), known_issuer("https://github.com.test/x")) == (
        GITHUB,
        GITLAB,
        None,
    )


STATEMENT = {"subject": [{"name": "k-1-py3-none-any.whl", "digest": {"sha256": "a" * 64}}]}
ATTESTATION = {
    "version": 1,
    "verification_material": {"certificate": "AAAA", "transparency_entries": [{}]},
    "envelope": {"statement": base64.b64encode(json.dumps(STATEMENT).encode()).decode(), "signature": "AAAA"},
}


def provenance(*attestations, **changes):
    bundle = {"publisher": {"kind": "GitHub"}, "attestations": attestations}
    return json.dumps({"version": 1, "attestation_bundles": [bundle], **changes}).encode()


def test_attestations_are_of_a_file_with_a_certificate_and_a_log_entry():
    assert provenance_subjects(provenance(ATTESTATION, ATTESTATION)) == {("k-1-py3-none-any.whl", "a" * 64)}
    material = ATTESTATION["verification_material"]
    for wrong in (
        provenance(),
        provenance(ATTESTATION, version=2),
        provenance(ATTESTATION, attestation_bundles={}),
        provenance({**ATTESTATION, "verification_material": {**material, "certificate": ""}}),
        provenance({**ATTESTATION, "verification_material": {**material, "transparency_entries": []}}),
        provenance({**ATTESTATION, "verification_material": {"public_key": "AAAA"}}),
        provenance({**ATTESTATION, "envelope": {"statement": "%%"}}),
        b"[" * 100_000,
    ):
        with pytest.raises(AttestationError):
            provenance_subjects(wrong)


@given(st.binary(max_size=200))
def test_reading_attestations_ends_in_an_answer(data):
    with pytest.raises(AttestationError):
        provenance_subjects(data)


@pytest.mark.parametrize(
    "text",
    [
        "identities: []",
        "identities: [{repository: x}]",
        "identities: [{issuer: x, ref: y}]",
        "identities: [{issuer: x, subject: y, who: z}]",
        "identities: [{issuer: x, subject: y}]\nkeys: []",
        "trust-config: root.json",
    ],
)
def test_identities_that_say_nothing_clear_allow_nothing(text, tmp_path):
    path = tmp_path / "policy.yaml"
    path.write_text(text)
    with pytest.raises(PolicyError):
        read_policy(path)


@pytest.mark.parametrize("data", [b"{}", b"\xff", b"[" * 100_000, b" " * (1 << 21)])
def test_what_is_no_root_of_trust_is_refused(data, tmp_path):
    pytest.importorskip("sigstore")
    path = tmp_path / "root.json"
    path.write_bytes(data)
    for read in (make_verifier, signing_config):
        with pytest.raises(SigningKeyError, match=r"the trust configuration .*root\.json"):
            read(path)


def test_what_is_not_installed_is_said(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "sigstore", None)
    monkeypatch.setitem(sys.modules, "sigstore.models", None)
    for read in (make_verifier, signing_config, lambda trust: KeylessSigner.from_token("env:X", trust)):
        with pytest.raises(SigningKeyError, match="need sigstore") as caught:
            read(tmp_path / "root.json")
        assert caught.value.remedy == install_command("keyless")


@pytest.mark.parametrize(
    "address", ["https://w.test", "https://w.test:8443/a/b/", "http://127.0.0.1:80", "http://[::1]"]
)
def test_an_index_is_found_at_an_address(address):
    assert check_address(address) == f"{address.rstrip('/')}/"
    assert check_address(check_address(address)) == check_address(address)


@pytest.mark.parametrize(
    "address",
    [
        "http://w.test",
        "https://u:p@w.test",
        "https://w.test/?x",
        'https://w.test/"x',
        "https://w.test/\n",
    ],
)
def test_nothing_else_is_the_address_of_an_index(address):
    with pytest.raises(ValueError, match="address"):
        check_address(address)
