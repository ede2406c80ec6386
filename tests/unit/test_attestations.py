"""What is signed of a wheel: read strictly, whoever wrote it, and refused by name."""

import base64
import hashlib
import json
from dataclasses import replace

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from hypothesis import given
from hypothesis import strategies as st
from plans import plan

from wheelsmith.base.ci import LOCAL, Checkout, detect_ci_run
from wheelsmith.base.errors import AttestationError, PolicyError, SigningKeyError
from wheelsmith.frameworks import framework, torch_releases
from wheelsmith.model import ImageId, LockedWheel, PrefixId, Project, SourceId
from wheelsmith.platforms import cuda_prefix, cuda_toolkits, cxx_toolchains, header_library
from wheelsmith.wheel.attestation.bundle import Bundle, read_bundle
from wheelsmith.wheel.attestation.keys import key_signer, verifying_key
from wheelsmith.wheel.attestation.policy import SignaturePolicy, read_policy
from wheelsmith.wheel.attestation.statement import BuildProvenance, prefix_pins, read_statement, write_statement
from wheelsmith.wheel.attestation.verification import verify_statement
from wheelsmith.wheel.recorded_plan import RecordedPlan

WHEEL, SHA = "k1-1-py3-none-any.whl", "a" * 64
COMPILED = replace(
    plan(1),
    toolset=cxx_toolchains()[0].toolset,
    headers=framework("torch").prefix(torch_releases()["2.13"], "x86_64"),
    toolkit=cuda_prefix(cuda_toolkits()["13.0"], "x86_64", "x86_64"),
    libraries=(
        header_library("cutlass_2_10").prefix,
        PrefixId(kind="library", version="x", arch="any", digest="9" * 64),
    ),
)
GIT = SourceId(origin="git:https://host/org/k#subdirectory=k", revision="v1", commit="c" * 40, tree="t")
MADE = BuildProvenance(cells=("a", "b"), source=GIT, wheelsmith="1", builder="https://ci/w@refs/tags/v1")


def pem(key):
    form = serialization.PrivateFormat.PKCS8
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())


@pytest.fixture
def keys(tmp_path):
    """A key of each kind that is taken: name → both its files."""
    found = {}
    for name, key in (("ec", ec.generate_private_key(ec.SECP256R1())), ("ed", ed25519.Ed25519PrivateKey.generate())):
        private, public = tmp_path / f"{name}.key", tmp_path / f"{name}.pub"
        private.write_bytes(pem(key))
        kinds = serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        public.write_bytes(key.public_key().public_bytes(*kinds))
        found[name] = (private, public)
    return found


def recorded(made):
    return RecordedPlan(digest=made.build_digest, data=json.loads(made.recorded()))


def statement(made=MADE, **changes):
    """Return a statement, perhaps with other words: a path of keys, by dots → value."""
    data = json.loads(write_statement(WHEEL, SHA, recorded(plan(1)), made))
    for place, value in changes.items():
        *folders, last = place.split("__")
        inside = data
        for each in folders:
            inside = inside[int(each) if each.isdigit() else each]
        inside[last] = value
    return json.dumps(data).encode()


def signed(key, text):
    return key.sign(text).bundle


@pytest.mark.parametrize("kind", ["ec", "ed"])
def test_what_is_signed_holds_and_nothing_else_does(keys, kind):
    key = key_signer(str(keys[kind][0]))
    policy = SignaturePolicy(keys=(verifying_key(keys["ec"][1]), verifying_key(keys["ed"][1])))
    bundle = signed(key, statement())
    held = verify_statement(WHEEL, SHA, bundle, policy)
    assert (held.key, held.source, held.commit) == (str(keys[kind][1]), GIT.origin, GIT.commit)
    other = SignaturePolicy(keys=tuple(each for each in policy.keys if each.hint != key.public.hint))
    for refused, name, sha, by in (
        (r"about k1-1-py3-none-any\.whl", "k2-1-py3-none-any.whl", SHA, policy),
        ("with the sha256 a", WHEEL, "b" * 64, policy),
        ("but by another key: its sha256 is", WHEEL, SHA, other),
    ):
        with pytest.raises(AttestationError, match=refused):
            verify_statement(name, sha, bundle, by)


@given(data=st.data())
def test_no_changed_byte_of_a_statement_holds(data, tmp_path_factory):
    path = tmp_path_factory.getbasetemp() / "one.key"
    if not path.exists():
        path.write_bytes(pem(ed25519.Ed25519PrivateKey.generate()))
    key = key_signer(str(path))
    whole = read_bundle(signed(key, statement()))
    place = data.draw(st.integers(0, len(whole.statement) - 1))
    changed = bytearray(whole.statement)
    changed[place] ^= data.draw(st.integers(1, 255))
    bundle = replace(whole, statement=bytes(changed)).to_bytes()
    with pytest.raises(AttestationError, match="did not sign it"):
        verify_statement(WHEEL, SHA, bundle, SignaturePolicy(keys=(key.public,)))


@pytest.mark.parametrize(
    ("changes", "refused"),
    [
        ({"predicateType": "https://example.org/p"}, "its predicateType is"),
        ({"predicate__buildDefinition__buildType": "x"}, "its buildType is"),
        ({"subject": [{"name": WHEEL, "digest": {"sha256": SHA}}] * 2}, "cannot be read"),
        ({"subject__0__name": "other-1-py3-none-any.whl"}, "is about other-1"),
        ({"predicate__buildDefinition__externalParameters__source__origin": None}, "is not a string"),
    ],
)
def test_a_statement_of_something_else_is_refused_though_it_is_signed(keys, changes, refused):
    key = key_signer(str(keys["ec"][0]))
    with pytest.raises(AttestationError, match=refused):
        verify_statement(WHEEL, SHA, signed(key, statement(**changes)), SignaturePolicy(keys=(key.public,)))


def test_what_is_no_statement_is_refused(keys):
    key = key_signer(str(keys["ec"][0]))
    for text in (b"[" * 100_000, b"\xff", b"null"):
        with pytest.raises(AttestationError, match="statement cannot be read"):
            verify_statement(WHEEL, SHA, signed(key, text), SignaturePolicy(keys=(key.public,)))


BUNDLE = json.loads(Bundle(statement=b"{}", signature=b"s", hint="h").to_bytes())


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data.pop("mediaType"),
        lambda data: data.update(mediaType="application/vnd.dev.sigstore.bundle+json;version=0.1"),
        lambda data: data.update(verificationMaterial={"certificate": {"rawBytes": "AA=="}}),
        lambda data: data["dsseEnvelope"].update(payloadType="text/plain"),
        lambda data: data["dsseEnvelope"].update(payload="%%%"),
        lambda data: data["dsseEnvelope"].update(signatures=data["dsseEnvelope"]["signatures"] * 2),
    ],
)
def test_what_is_no_bundle_of_ours_is_refused(change):
    data = json.loads(json.dumps(BUNDLE))
    change(data)
    with pytest.raises(AttestationError, match="bundle cannot be read"):
        read_bundle(json.dumps(data).encode())


@given(st.binary(max_size=200))
def test_reading_ends_in_an_answer(data):
    for read in (read_bundle, read_statement):
        with pytest.raises(AttestationError):
            read(data)


def dependencies(made, **changes):
    data = json.loads(write_statement(WHEEL, SHA, recorded(made), replace(MADE, **changes)))
    return data["predicate"]["buildDefinition"]["resolvedDependencies"]


def test_every_pinned_file_is_a_dependency_by_its_hash():
    found = dependencies(COMPILED)
    hashes = {each["digest"].get("sha256") for each in found}
    pins = [pin for prefix in COMPILED.prefixes for pin in prefix_pins(prefix)]
    assert len(pins) > 40
    assert {pin.sha256 for pin in pins if hasattr(pin, "size") and not hasattr(pin, "folder")} <= hashes
    (cutlass,) = (each for each in found if each["name"] == "cutlass-2.10.0.tar.gz")
    assert set(cutlass["digest"]) == {"wheelsmithFolder"}
    (unknown,) = (each for each in found if each["name"] == "library x for any")
    assert unknown["digest"] == {"wheelsmithPins": "9" * 64}
    assert all(each["digest"] for each in found)


@pytest.mark.parametrize(
    ("origin", "commit", "uri", "digest"),
    [
        ("hub:org/k", "c" * 40, f"pkg:huggingface/org/k@{'c' * 40}", "gitCommit"),
        ("git:https://h/o/k", "c" * 40, f"git+https://h/o/k@{'c' * 40}", "gitCommit"),
        ("sdist:My_K==1.0", "d" * 64, "pkg:pypi/my-k@1.0", "sha256"),
        ("path", None, None, None),
    ],
)
def test_the_source_is_named_as_others_find_it(origin, commit, uri, digest):
    source = dependencies(plan(1), source=SourceId(origin=origin, revision=None, commit=commit, tree="t"))[0]
    assert source.get("uri") == uri
    assert source["digest"] == {"wheelsmithTree": "t", **({digest: commit} if digest else {})}


def test_what_a_project_was_built_with_is_there_and_what_it_was_told_is_not():
    wheels = (LockedWheel(name="Setup_Tools", version="80.1", sha256="4" * 64),)
    project = Project(python="3.11", environment=wheels, variables={"TOKEN": "hidden"})
    made = replace(plan(1), project=project, image=ImageId(name="x", digest=f"sha256:{'5' * 64}"))
    checkout = Checkout(repository="https://h/o/r", ref="refs/tags/v1", commit="e" * 40)
    found = {each["name"]: each for each in dependencies(made, image=made.image.digest, checkout=checkout)}
    assert found["Setup_Tools"]["uri"] == "pkg:pypi/setup-tools@80.1"
    assert found["image"]["digest"] == {"sha256": "5" * 64}
    assert found["checkout"]["digest"] == {"gitCommit": "e" * 40}
    assert "hidden" not in json.dumps(found)


@pytest.mark.parametrize(
    ("words", "holds"),
    [
        ({}, True),
        ({"sources": (GIT.origin,)}, True),
        ({"sources": ("git:https://host/org/k",)}, True),
        ({"sources": ("git:https://host/org/other", f"git:https://host/org/k@{'c' * 40}")}, True),
        ({"sources": ("git:https://host/org/k@v2",)}, False),
        ({"sources": ("git:https://host/org",)}, False),
        ({"builders": ("https://ci/w@refs/tags/*",)}, True),
        ({"builders": ("https://ci/w@refs/*",)}, False),
        ({"repositories": ("https://h/o/r",)}, False),
    ],
)
def test_what_is_said_must_be_believed(words, holds):
    refused = list(SignaturePolicy(keys=(), **words).violations(read_statement(statement())))
    assert (not refused) is holds


@pytest.mark.parametrize(
    ("origin", "revision", "word", "holds"),
    [
        ("git:https://h/o/k@v1", "main", "git:https://h/o/k@v1", False),
        ("git:https://h/o/k@v1", None, "git:https://h/o/k@v1", False),
        ("git:git@h:o/k", "v1", "git:git@h:o/k@v1", True),
        ("git:ssh://git@h/o/k@v1", "feature/x", "git:ssh://git@h/o/k@v1", False),
        ("git:https://h/o/k#subdirectory=a", "v1", "git:https://h/o/k#subdirectory=a@v1", True),
        ("git:https://h/o/k", "v1@x", "git:https://h/o/k@v1@x", True),
        ("archive:k@1.tar.gz", None, "archive:k@1.tar.gz", True),
        ("archive:k@1.tar.gz", None, f"archive:k@1.tar.gz@{'c' * 64}", False),
    ],
)
def test_an_at_sign_in_an_address_is_no_revision(origin, revision, word, holds):
    source = SourceId(origin=origin, revision=revision, commit=None, tree="t")
    said = read_statement(statement(replace(MADE, source=source)))
    assert (not list(SignaturePolicy(keys=(), sources=(word,)).violations(said))) is holds


def test_a_policy_is_a_file(keys, tmp_path):
    path = tmp_path / "policy.yaml"
    path.write_text("keys: [ec.pub, ed.pub]\nsources: hub:org/k\nbuilders:\n  - https://ci/*\n")
    policy = read_policy(path)
    assert [key.name for key in policy.keys] == [str(tmp_path / "ec.pub"), str(tmp_path / "ed.pub")]
    assert (policy.sources, policy.builders) == (("hub:org/k",), ("https://ci/*",))
    assert policy.with_overrides(builders=("b",)).builders == ("b",)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "keys: []",
        "sources: [x]",
        "keys: ec.pub\nsource: x",
        "keys: ec.pub\nsources: []",
        "keys: ec.pub\nsources: {a: b}",
        "[" * 5000,
        "keys: &a [*a]",
    ],
)
def test_a_policy_that_says_nothing_clear_allows_nothing(text, keys, tmp_path):
    path = tmp_path / "policy.yaml"
    path.write_text(text)
    with pytest.raises(PolicyError):
        read_policy(path)


@pytest.mark.parametrize(
    ("text", "place", "remedy"),
    [
        ("keys: ec.pub\nsource: x", (2, 1), "did you mean 'sources'?"),
        ("keys: ec.pub\ntrust_config: x", (2, 1), "did you mean 'trust-config'?"),
        ("identities:\n  - issuer: x\n    subjekt: y\n", (3, 5), "did you mean 'subject'?"),
        ("keys: ec.pub\nsources: []", (2, 10), "write keys: [release.pub]"),
        ("identities: [{subject: y}]", (1, 14), "write keys: [release.pub]"),
    ],
)
def test_a_mistake_in_a_policy_is_told_at_its_place(text, place, remedy, keys, tmp_path):
    path = tmp_path / "policy.yaml"
    path.write_text(text)
    with pytest.raises(PolicyError) as caught:
        read_policy(path)
    assert (caught.value.where.line, caught.value.where.column) == place
    assert caught.value.remedy.startswith(remedy)


def test_a_policy_that_says_one_thing_twice_is_refused_at_its_place(keys, tmp_path):
    path = tmp_path / "policy.yaml"
    path.write_text("keys: ec.pub\nbuilders: https://ci/*\nkeys: ed.pub\n")
    with pytest.raises(PolicyError, match="duplicate key 'keys'") as caught:
        read_policy(path)
    assert (caught.value.where.line, caught.value.where.column) == (3, 1)


def test_a_key_of_another_kind_is_refused_and_never_shown(tmp_path, monkeypatch):
    weak = {
        "rsa": pem(rsa.generate_private_key(65537, 2048)),
        "p384": pem(ec.generate_private_key(ec.SECP384R1())),
        "encrypted": pem(ed25519.Ed25519PrivateKey.generate()).replace(b"PRIVATE", b"ENCRYPTED PRIVATE"),
        "broken": b"-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n-----END PRIVATE KEY-----\n",
        "none": b"secret",
        "empty": b"",
        "long": b"PRIVATE KEY" * 9000,
    }
    for name, text in weak.items():
        path = tmp_path / name
        path.write_bytes(text)
        monkeypatch.setenv("KEY", text.decode())
        for named in (str(path), "env:KEY"):
            with pytest.raises(SigningKeyError) as caught:
                key_signer(named)
            assert "c2VjcmV0" not in str(caught.value)
        with pytest.raises(SigningKeyError):
            verifying_key(path)
    for named in ("env:NOTHING", str(tmp_path), str(tmp_path / "nothing"), "awskms:alias/x"):
        with pytest.raises(SigningKeyError):
            key_signer(named)


def test_a_key_in_a_variable_signs(keys, monkeypatch):
    monkeypatch.setenv("KEY", keys["ec"][0].read_text())
    assert verifying_key(keys["ec"][1]).verifies(key_signer("env:KEY").sign_bytes(b"x"), b"x")


def test_the_hint_is_the_one_that_sigstore_has(keys):
    der = serialization.load_pem_public_key(keys["ec"][1].read_bytes()).public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    assert base64.b64decode(verifying_key(keys["ec"][1]).hint) == hashlib.sha256(der).digest()


GITHUB = {
    "GITHUB_ACTIONS": "true",
    "GITHUB_SERVER_URL": "https://g",
    "GITHUB_REPOSITORY": "o/r",
    "GITHUB_WORKFLOW_REF": "o/r/.github/workflows/w.yml@refs/tags/v1",
    "GITHUB_REF": "refs/tags/v1",
    "GITHUB_SHA": "e" * 40,
    "GITHUB_RUN_ID": "7",
}
GITLAB = {
    "GITLAB_CI": "true",
    "CI_PROJECT_URL": "https://g/o/r",
    "CI_COMMIT_TAG": "v1",
    "CI_COMMIT_REF_NAME": "v1",
    "CI_COMMIT_SHA": "e" * 40,
    "CI_PIPELINE_URL": "https://g/o/r/-/pipelines/7",
}
BUILDKITE = {
    "BUILDKITE": "true",
    "BUILDKITE_BUILD_URL": "https://b/o/p/builds/7",
    "BUILDKITE_TAG": "v1",
    "BUILDKITE_REPO": "https://g/o/r",
    "BUILDKITE_COMMIT": "e" * 40,
}


def test_what_a_ci_system_says_is_not_believed_blindly(monkeypatch):
    for name in (*GITHUB, *GITLAB, *BUILDKITE):
        monkeypatch.delenv(name, raising=False)
    for name, value in {**GITLAB, "CI_COMMIT_REF_NAME": "main"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("CI_MERGE_REQUEST_REF_PATH", "refs/merge-requests/1/head")
    assert (detect_ci_run().builder, detect_ci_run().checkout.ref) == (
        "https://g/o/r//.gitlab-ci.yml@refs/merge-requests/1/head",
        "refs/merge-requests/1/head",
    )
    monkeypatch.setenv("CI_CONFIG_PATH", "https://evil.example/ci.yml")
    assert not detect_ci_run().builder.startswith("https://g/")
    monkeypatch.delenv("GITLAB_CI")
    for name, value in {**BUILDKITE, "BUILDKITE_REPO": "https://user:hidden@g/o/r"}.items():
        monkeypatch.setenv(name, value)
    assert detect_ci_run().checkout.repository == "https://g/o/r"
    monkeypatch.setenv("BUILDKITE_COMMIT", "HEAD")
    assert detect_ci_run().checkout is None
    monkeypatch.setenv("BUILDKITE_COMMIT", "e" * 40)
    monkeypatch.delenv("BUILDKITE_TAG")
    assert detect_ci_run().checkout is None


@pytest.mark.parametrize(
    ("given", "builder", "invocation"),
    [
        (GITHUB, "https://g/o/r/.github/workflows/w.yml@refs/tags/v1", "https://g/o/r/actions/runs/7/attempts/1"),
        (GITLAB, "https://g/o/r//.gitlab-ci.yml@refs/tags/v1", "https://g/o/r/-/pipelines/7"),
        (BUILDKITE, "https://b/o/p", "https://b/o/p/builds/7"),
    ],
)
def test_ci_systems_say_who_they_are(given, builder, invocation, monkeypatch):
    for name in (*GITHUB, *GITLAB, *BUILDKITE):
        monkeypatch.delenv(name, raising=False)
    assert detect_ci_run().builder == LOCAL
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    run = detect_ci_run()
    assert (run.builder, run.invocation) == (builder, invocation)
    assert run.checkout == Checkout(repository="https://g/o/r", ref="refs/tags/v1", commit="e" * 40)
