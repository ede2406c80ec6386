"""Wheels are signed without a key, by a CI system's token, and verified by wheelsmith, sigstore, cosign and others."""

import base64
import json
import os
import re
import shutil
import subprocess
import sys
import time

import cosign as cosigns
import pytest
from factory import Factory
from kernels import matrix, pure_kernel
from loopback import serving
from loopback_sigstore import (
    GITHUB,
    GITLAB,
    GITLAB_PIPELINE,
    JOB,
    REPOSITORY,
    WORKFLOW,
    gitlab_token,
    job_tokens,
    loopback_sigstore,
    token,
)

from wheelsmith.wheel.attestation import keyless

pytestmark = [
    pytest.mark.xdist_group("keyless"),
    pytest.mark.release("npm fetches what plays Sigstore, and each program that verifies imports its library anew"),
    pytest.mark.network,
]
WHEEL = "pure-1-py3-none-any.whl"
BUNDLE, PROVENANCE = f"{WHEEL}.sigstore.json", f"{WHEEL}.provenance"
TRUST = ("--trust-config", "root.json")


@pytest.fixture(scope="module")
def sigstore(request):
    pytest.importorskip("sigstore")
    with loopback_sigstore(request.config.cache.mkdir("sigstore")) as running:
        yield running


def sign(factory, *argv, folder="dist", claims=None, **env):
    """Sign as a job of GitHub's does, that has its token in a variable."""
    named = ("--keyless", "--trust-config", "trust.json", "--identity-token", "env:TOKEN")
    return factory.run_in_process("sign", folder, *named, *argv, TOKEN=token(**claims or {}), **{**JOB, **env})


@pytest.fixture(scope="module")
def once(sigstore, tmp_path_factory):
    factory = Factory.at(tmp_path_factory.mktemp("keyless"))
    pure_kernel(factory.folder / "k")
    matrix(factory.folder, "k", torch="2.13", cuda="cpu, 13.0")
    answer = factory.run("build-matrix", "--engine", "local")
    assert answer.returncode == 0, answer.stderr
    sigstore.write(factory.folder)
    shutil.copytree(factory.folder / "dist", factory.folder / "unsigned", symlinks=True)
    answer = sign(factory)
    assert (answer.returncode, answer.stderr) == (0, "1 wheel signed, 0 already signed\n")
    return factory


@pytest.fixture
def signed(once, tmp_path):
    """A copy of a run's folder, signed in ``dist`` and not in ``unsigned``."""
    folder = tmp_path / "factory"
    shutil.copytree(once.folder, folder, symlinks=True)
    return Factory(folder=folder, cache=folder / "cache")


def verify(factory, *argv, trust=TRUST):
    answer = factory.run_in_process("verify", "--json", *map(str, argv), *trust)
    return answer.returncode, json.loads(answer.stdout)["wheels"] if answer.stdout else answer.stderr


def refusal(factory, *argv, trust=TRUST):
    code, answers = verify(factory, *argv, trust=trust)
    assert code == 1, answers
    (answer,) = answers
    assert answer["verified"] is None
    return answer["refused"]


def wheel_of(factory, folder="dist"):
    return factory.folder / folder / "wheels" / WHEEL


@pytest.mark.parametrize(
    ("place", "who", "trust"),
    [
        ("dist", ("--identity", WORKFLOW), "root.json"),
        (f"dist/wheels/{WHEEL}", ("--repository", REPOSITORY), "trust.json"),
        ("dist/index", ("--identity", WORKFLOW.replace("v1", "*")), "root.json"),
    ],
)
def test_who_signed_is_said_without_a_network(signed, place, who, trust):
    code, (answer,) = verify(signed, place, *who, "--offline", trust=("--trust-config", trust))
    assert (code, answer["refused"]) == (0, None)
    by = answer["verified"]["certificate"]
    assert (by["subject"], by["issuer"], by["repository"]) == (WORKFLOW, GITHUB, REPOSITORY)
    assert answer["verified"]["key"] is None


POLICY = f"""
identities:
  - issuer: {GITHUB}
    repository: {REPOSITORY}
    workflow: .github/workflows/wheels.yml
    ref: refs/tags/*
trust-config: root.json
sources: path
repositories: {REPOSITORY}
builders: {WORKFLOW.replace("v1", "*")}
"""


def test_a_policy_says_who_may_sign(signed):
    policy = signed.folder / "policy.yaml"
    policy.write_text(POLICY)
    assert verify(signed, "dist", "--policy", policy, trust=())[0] == 0
    for before, after, refused in (
        ("issuer: https://token", "issuer: https://other", f"the issuer is {GITHUB}, not https://other"),
        ("wheels.yml\n", "other.yml\n", "the workflow is https://github.com/org/wheels/.github/workflows/wheels.yml@"),
        ("sources: path", "sources: hub:org/k", "its source is path, not hub:org/k"),
        ("repositories: https", "repositories: http", f"its repository is {REPOSITORY}, not http://"),
        ("builders: https", "builders: http", f"its builder is {WORKFLOW}, not http://"),
    ):
        assert before in POLICY
        policy.write_text(POLICY.replace(before, after, 1))
        assert refused in refusal(signed, "dist", "--policy", policy, trust=())


def changed(*path, to):
    """Return what changes a value of a bundle: keys and places → a function of what is there."""

    def change(data, other):
        *folders, last = path
        for each in folders:
            data, other = data[each], other[each]
        data[last] = to(data[last], other[last])

    return change


def flipped(text, _):
    data = bytearray(base64.b64decode(text))
    data[len(data) // 2] ^= 1
    return base64.b64encode(data).decode()


def others(_, other):
    return other


def more(number, _):
    return str(int(number) + 1)


MATERIAL, ENVELOPE = "verificationMaterial", "dsseEnvelope"
ENTRY = (MATERIAL, "tlogEntries", 0)
TAMPERED = {
    "statement": changed(ENVELOPE, "payload", to=flipped),
    "signature": changed(ENVELOPE, "signatures", 0, "sig", to=flipped),
    "another certificate": changed(MATERIAL, "certificate", "rawBytes", to=others),
    "log entry: another's": changed(*ENTRY, to=others),
    "log entry: time": changed(*ENTRY, "integratedTime", to=more),
    "log entry: none": changed(MATERIAL, "tlogEntries", to=lambda *_: []),
    "log entry: words": changed(MATERIAL, "tlogEntries", to=lambda *_: ["\x1b[31m"]),
}


@pytest.mark.parametrize("case", TAMPERED)
def test_what_was_tampered_with_is_refused(signed, case):
    """With parts of another bundle, too, that holds and is by the same workflow."""
    shutil.copytree(signed.folder / "unsigned", signed.folder / "other", symlinks=True)
    assert sign(signed, folder="other", GITHUB_REF="refs/tags/v1", GITHUB_SHA="f" * 40).returncode == 0
    bundle = signed.folder / "dist/wheels" / BUNDLE
    data, other = (json.loads((signed.folder / each / "wheels" / BUNDLE).read_bytes()) for each in ("dist", "other"))
    before = json.dumps(data)
    TAMPERED[case](data, other)
    assert json.dumps(data) != before
    bundle.write_text(json.dumps(data))
    why = refusal(signed, wheel_of(signed), "--identity", WORKFLOW)
    assert why.startswith(("the signature is not valid: ", "the bundle cannot be read: "))
    assert "\x1b" not in why


def test_what_another_sigstore_signed_is_refused(signed, request):
    with loopback_sigstore(request.config.cache.mkdir("sigstore")) as another:
        (signed.folder / "another").mkdir()
        another.write(signed.folder / "another")
        trust = ("--trust-config", "another/root.json")
        assert "the signature is not valid: " in refusal(signed, "dist", "--identity", WORKFLOW, trust=trust)


def test_a_key_and_a_certificate_are_not_taken_for_one_another(signed):
    subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", signed.folder / "k.key"], check=True)
    argv = ["openssl", "pkey", "-in", signed.folder / "k.key", "-pubout", "-out", signed.folder / "k.pub"]
    subprocess.run(argv, check=True)
    assert "no identity is accepted" in refusal(signed, "dist", "--key", "k.pub", trust=())
    assert signed.run_in_process("sign", "unsigned", "--key", "k.key").returncode == 0
    assert "by a key, but no key is accepted" in refusal(signed, "unsigned", "--identity", WORKFLOW)
    both = ("--key", "k.pub", "--identity", WORKFLOW)
    assert [verify(signed, place, *both)[0] for place in ("dist", "unsigned")] == [0, 0]


@pytest.fixture
def lying(monkeypatch):
    """Whoever signs by a program of their own."""
    monkeypatch.setattr(keyless, "builder_conflict", lambda *_: None)


FAMOUS = {"GITHUB_REPOSITORY": "org/famous", "GITHUB_WORKFLOW_REF": "org/famous/.github/workflows/w.yml@refs/tags/v1"}
NOBODYS = dict.fromkeys(("repository", "ref", "sha", "workflow_ref", "job_workflow_ref"))


def test_nothing_is_signed_that_contradicts_the_certificate(signed):
    answer = sign(signed, folder="unsigned", **FAMOUS)
    assert (answer.returncode, "names the builder https://github.com/org/famous" in answer.stderr) == (2, True)
    assert not (signed.folder / "unsigned/wheels" / BUNDLE).exists()


@pytest.mark.usefixtures("lying")
def test_what_no_certificate_names_no_statement_makes_true(signed):
    """A person who may sign, too, says in vain that a workflow of a repository did."""
    person = {"iss": "https://accounts.test", "sub": "https://people.test/me", **NOBODYS}
    assert sign(signed, folder="unsigned", claims=person).returncode == 0
    who = ("--identity", "https://people.test/me", "--issuer", "https://accounts.test")
    assert f"names the builder {WORKFLOW}, but the certificate names https://people.test/me" in refusal(
        signed, "unsigned", *who
    )
    assert "the repository is unknown, not" in refusal(signed, "unsigned", *who, "--repository", REPOSITORY)


def test_a_workflow_that_another_repository_calls_is_believed_with_that_alone(signed):
    evil = {"repository": "evil/x", "workflow_ref": "evil/x/.github/workflows/e.yml@refs/heads/m"}
    assert sign(signed, folder="unsigned", claims=evil, GITHUB_REPOSITORY="evil/x").returncode == 0
    assert "the repository https://github.com/evil/x called the workflow" in refusal(
        signed, "unsigned", "--identity", WORKFLOW
    )
    both = ("--identity", WORKFLOW, "--repository", "https://github.com/evil/x")
    assert verify(signed, "unsigned", *both)[0] == 0


def test_on_gitlab_the_jobs_token_is_taken_wherever_its_runner_is(signed, monkeypatch):
    """sigstore asks a machine of Google's first, and would sign as that."""
    monkeypatch.setattr("sigstore.oidc.detect_credential", lambda: pytest.fail("another token was asked for"))
    job = {"GITLAB_CI": "true", "CI_PROJECT_URL": f"{GITLAB}/org/wheels"}
    job |= {"CI_COMMIT_TAG": "v1", "CI_COMMIT_REF_NAME": "v1"}
    argv = ("sign", "unsigned", "--keyless", "--trust-config", "trust.json")
    answer = signed.run_in_process(*argv, **job, SIGSTORE_ID_TOKEN=gitlab_token())
    assert answer.returncode == 0, answer.stderr
    assert verify(signed, "unsigned", "--identity", GITLAB_PIPELINE)[0] == 0


def test_what_cannot_be_sent_is_not_shown(signed):
    given = {"ACTIONS_ID_TOKEN_REQUEST_URL": "http://127.0.0.1:9/t?x=1", "ACTIONS_ID_TOKEN_REQUEST_TOKEN": "hidden\n"}
    answer = signed.run_in_process("sign", "unsigned", "--keyless", "--trust-config", "trust.json", **JOB, **given)
    assert (answer.returncode, "hidden" in answer.stderr) == (2, False)
    data = (signed.folder / "trust.json").read_text().replace("http://127.0.0.1", "http://user:hunter2@127.0.0.1")
    (signed.folder / "trust.json").write_text(re.sub(r"@127\.0\.0\.1:\d+", "@127.0.0.1:9", data))
    answer = sign(signed, folder="unsigned")
    assert (answer.returncode, "hunter2" in answer.stderr) == (2, False)


@pytest.mark.usefixtures("lying")
def test_a_statement_that_contradicts_the_certificate_is_refused_by_name(signed):
    """Whoever may sign in one repository says in vain that it was another's."""
    job = FAMOUS
    assert sign(signed, folder="unsigned", **job).returncode == 0
    why = refusal(signed, "unsigned", "--repository", REPOSITORY)
    assert f"names the repository https://github.com/org/famous, but the certificate names {REPOSITORY}" in why
    builder = f"https://github.com/{job['GITHUB_WORKFLOW_REF']}"
    assert f"names the builder {builder}, but the certificate names {WORKFLOW}" in why
    assert signed.run_in_process("sign", "--keyless", "--builder", "https://x").returncode == 2


def test_pick_chooses_what_a_workflow_signed(signed):
    picked = ("pick", "pure", "--index", "dist/index", "--torch", "2.13", "--cuda", "cpu", "--keep-torch", *TRUST)
    answer = signed.run_in_process(*picked, "--repository", REPOSITORY, "--json")
    said = json.loads(answer.stdout)
    assert (answer.returncode, said["verified"]["certificate"]["repository"]) == (0, REPOSITORY), answer.stderr
    assert "#sha256=" in said["command"]
    answer = signed.run_in_process(*picked, "--repository", f"{REPOSITORY}2")
    assert (answer.returncode, f"not {REPOSITORY}2" in answer.stderr) == (1, True)


@pytest.mark.usefixtures("lying")
def test_to_sign_again_changes_nothing_but_for_another_workflow(signed):
    before = (signed.folder / "dist/wheels" / BUNDLE).read_bytes()
    assert sign(signed).stderr == "0 wheels signed, 1 already signed\n"
    assert (signed.folder / "dist/wheels" / BUNDLE).read_bytes() == before
    assert sign(signed, GITHUB_SHA="f" * 40).stderr == "1 wheel signed, 0 already signed\n"
    # The statement names another builder than the certificate, which is nobody's whom it could be held against.
    assert sign(signed, folder="unsigned", claims={**NOBODYS, "sub": "https://other.test/"}).returncode == 0
    replaced = "1 wheel signed, 0 already signed; 1 signature by another signer replaced\n"
    assert sign(signed, folder="unsigned").stderr == replaced


def test_what_was_signed_stays_together_in_an_index(signed):
    """Beside a key's bundle there is no provenance, until all of it is replaced."""
    subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", signed.folder / "k.key"], check=True)
    assert signed.run_in_process("sign", "unsigned", "--key", "k.key").returncode == 0
    there = ("--address", "https://w.test")
    assert signed.run_in_process("publish", "public", "--from", "unsigned", *there).returncode == 0
    for more, offered in (((), False), (("--replace-signatures",), True)):
        assert signed.run_in_process("publish", "public", "--from", "dist", *more).returncode == 0
        file, _ = page_of(signed)
        assert ("provenance" in file) is offered
        bundle = json.loads((signed.folder / "public/simple/pure" / file["_sigstore-bundle"]["url"]).read_bytes())
        assert ("certificate" in bundle["verificationMaterial"]) is offered
    assert signed.run_in_process("index", "verify", "public").returncode == 0


def page_of(factory, root="simple"):
    folder = factory.folder / "public" / root / "pure"
    (file,) = json.loads((folder / "index.json").read_bytes())["files"]
    return file, (folder / "index.html").read_text()


def test_pages_name_the_provenance_once_the_address_is_known(signed):
    publish = ("publish", "public", "--from", "dist")
    assert signed.run_in_process(*publish).returncode == 0
    file, html = page_of(signed)
    assert ("provenance" in file, "data-provenance" in html) == (False, False)
    for wrong in ("http://example.org", "https://u@x", "x"):
        answer = signed.run_in_process(*publish, "--address", wrong)
        assert (answer.returncode, "is not the address of an index" in answer.stderr) == (4, True)
    assert signed.run_in_process(*publish, "--address", "https://wheels.test/kernels").returncode == 0
    for root in ("simple", "cpu", "cu130"):
        file, html = page_of(signed, root)
        assert f'data-provenance="{file["provenance"]}"' in html
        path = file["provenance"].removeprefix("https://wheels.test/kernels/")
        stored = (signed.folder / "public" / path).read_bytes()
        assert stored == (signed.folder / "dist/wheels" / PROVENANCE).read_bytes()
    assert signed.run_in_process("index", "verify", "public").returncode == 0
    # Who publishes without the address changes nothing of it.
    assert signed.run_in_process(*publish).returncode == 0
    assert page_of(signed, "cpu")[0] == page_of(signed, "cu130")[0] == file


def test_installers_and_readers_of_pages_take_it_as_before(signed, tmp_path):
    from pypi_simple import PyPISimple

    assert signed.run_in_process("publish", "public", "--from", "dist").returncode == 0
    with serving(signed.folder / "public") as url:
        address = f"{url}/"
        told = ("publish", "public", "--from", "dist", "--address", address)
        assert signed.run_in_process(*told).returncode == 0
        index = ("--index-url", f"{address}simple/")
        env = {**os.environ, "UV_NO_CONFIG": "1", "PIP_NO_INDEX": "0", "UV_CACHE_DIR": str(tmp_path / "cache")}
        for name, program in (("pip", [sys.executable, "-m", "pip"]), ("uv", ["uv", "pip"])):
            argv = [*program, "install", "-q", "--no-deps", "--target", tmp_path / name, *index, "pure"]
            subprocess.run(argv, check=True, env=env)
            assert (tmp_path / name / "pure/__init__.py").is_file()
        for accept in ("application/vnd.pypi.simple.v1+json", "text/html"):
            with PyPISimple(f"{address}simple/", accept=accept) as client:
                (package,) = client.get_project_page("pure").packages
                provenance = client.get_provenance(package)
            assert provenance == json.loads((signed.folder / "dist/wheels" / PROVENANCE).read_bytes())
        code, (answer,) = verify(signed, f"{address}simple/", "--repository", REPOSITORY)
        assert (code, answer["refused"]) == (0, None)


def test_pypi_attestations_reads_and_sigstore_verifies_what_it_read(signed):
    import pypi_attestations
    from sigstore.errors import VerificationError
    from sigstore.models import TrustedRoot
    from sigstore.verify import Verifier, policy

    text = (signed.folder / "dist/wheels" / PROVENANCE).read_text()
    (bundle,) = pypi_attestations.Provenance.model_validate_json(text).attestation_bundles
    publisher = {"kind": "GitHub", "repository": "org/wheels", "workflow": "wheels.yml", "environment": None}
    assert bundle.publisher.model_dump() == publisher
    (attestation,) = bundle.attestations
    dist = pypi_attestations.Distribution.from_file(wheel_of(signed))
    (subject,) = attestation.statement["subject"]
    assert (subject["name"], subject["digest"]["sha256"]) == (dist.name, dist.digest)
    # Its own verify knows the roots of production and staging alone.
    judge = Verifier(trusted_root=TrustedRoot.from_file(str(signed.folder / "root.json")))
    judge.verify_dsse(attestation.to_bundle(), policy.OIDCSourceRepositoryURI(REPOSITORY))
    with pytest.raises(VerificationError):
        judge.verify_dsse(attestation.to_bundle(), policy.OIDCSourceRepositoryURI(f"{REPOSITORY}2"))


def test_sigstore_itself_verifies_it(signed, tmp_path):
    def verifies(wheel, identity=WORKFLOW):
        argv = [sys.executable, "-m", "sigstore", "--trust-config", signed.folder / "trust.json", "verify", "identity"]
        argv += ["--offline", "--bundle", signed.folder / "dist/wheels" / BUNDLE, "--cert-identity", identity]
        return subprocess.run([*argv, "--cert-oidc-issuer", GITHUB, wheel], capture_output=True).returncode == 0

    wheel = wheel_of(signed)
    assert verifies(wheel)
    assert not verifies(wheel, f"{WORKFLOW}2")
    changed = tmp_path / WHEEL
    changed.write_bytes(wheel.read_bytes() + b"\0")
    assert not verifies(changed)


@pytest.mark.parametrize(
    ("package", "more"),
    [(cosigns.STABLE, ("--new-bundle-format",)), (cosigns.UNSTABLE, ())],
    ids=["2.5.0", "3.1.1"],
)
def test_cosign_verifies_it_without_a_network(signed, package, more, tmp_path):
    program = cosigns.cosign(package, tmp_path)
    wheel = wheel_of(signed)

    def verifies(identity=WORKFLOW, issuer=GITHUB, bundle=None):
        argv = [program, "verify-blob-attestation", "--bundle", bundle or wheel.with_name(BUNDLE)]
        argv += ["--trusted-root", signed.folder / "root.json"]
        argv += ["--certificate-identity", identity, "--certificate-oidc-issuer", issuer]
        argv += ["--type", "slsaprovenance1", *more, wheel]
        alone = ["unshare", "--net", *argv] if os.getuid() == 0 else argv
        answer = subprocess.run(alone, cwd=tmp_path, capture_output=True, text=True)
        return "Verified OK" in answer.stderr if answer.returncode == 0 else False

    assert verifies()
    assert not verifies(identity=f"{WORKFLOW}2")
    assert not verifies(issuer="https://gitlab.com")
    tampered = json.loads(wheel.with_name(BUNDLE).read_bytes())
    TAMPERED["log entry: time"](tampered, tampered)
    (tmp_path / "tampered").write_text(json.dumps(tampered))
    assert not verifies(bundle=tmp_path / "tampered")
    wheel.write_bytes(wheel.read_bytes() + b"\0")
    assert not verifies()


def test_the_token_of_the_job_is_asked_for(signed):
    """As GitHub's runner gives it: from an address in the environment, for a token in the environment."""
    with job_tokens() as (given, asked):
        argv = ("sign", "unsigned", "--keyless", "--trust-config", "trust.json")
        answer = signed.run_in_process(*argv, **JOB, **given)
    assert answer.returncode == 0, answer.stderr
    assert asked == [("sigstore", "bearer hidden")]
    assert verify(signed, "unsigned", "--identity", WORKFLOW)[0] == 0


def test_without_a_token_nothing_is_signed_and_none_is_shown(signed):
    expired = token(exp=int(time.time()) - 60)
    trust = ("--trust-config", "trust.json")
    for argv, env in (
        ((*trust,), {"GITHUB_ACTIONS": "true"}),
        ((*trust, "--identity-token", "env:NOTHING"), {}),
        ((*trust, "--identity-token", "env:TOKEN"), {"TOKEN": expired}),
        ((*trust, "--identity-token", "secret"), {}),
        (("--trust-config", "root.json", "--identity-token", "env:TOKEN"), {"TOKEN": token()}),
        (("--trust-config", "nothing.json", "--identity-token", "env:TOKEN"), {"TOKEN": token()}),
        (("--trust-config", "down.json", "--identity-token", "env:TOKEN"), {"TOKEN": token()}),
    ):
        down = (signed.folder / "trust.json").read_text()
        port = json.loads(down)["signingConfig"]["caUrls"][0]["url"].rpartition(":")[2]
        (signed.folder / "down.json").write_text(down.replace(f":{port}", ":9"))
        answer = signed.run_in_process("sign", "unsigned", "--keyless", *argv, **env)
        assert answer.returncode == 2, (argv, answer.stderr)
        assert not any(each in answer.stderr for each in ("secret", expired, expired.rpartition(".")[2]))
    assert not list((signed.folder / "unsigned").rglob("*.sigstore.json"))


def test_how_to_sign_must_be_said(signed):
    for argv in ((), ("--key", "k", "--keyless"), ("--key", "k", *TRUST), ("--keyless", "--public-key", "k")):
        assert signed.run_in_process("sign", *argv).returncode == 2


def test_who_may_sign_must_be_said(signed):
    for argv in (("--identity", "me@example.org"), ("--issuer", GITHUB), (), ("--policy", "p", "--identity", "x")):
        assert signed.run_in_process("verify", "dist", *argv, *TRUST).returncode == 2


def test_attestations_of_another_wheel_are_not_published(signed):
    """Beside the wheel lies one bundle that is its own, and a provenance file that is another's, or none at all."""
    alone = signed.folder / "alone"
    alone.mkdir()
    for name in (WHEEL, BUNDLE):
        shutil.copy(signed.folder / "dist/wheels" / name, alone / name)
    text = (signed.folder / "dist/wheels" / PROVENANCE).read_text()
    data = json.loads(text)
    envelope = data["attestation_bundles"][0]["attestations"][0]["envelope"]
    statement = base64.b64decode(envelope["statement"]).replace(WHEEL.encode(), b"other-1-py3-none-any.whl")
    envelope["statement"] = base64.b64encode(statement).decode()
    others = json.loads(text)
    others["attestation_bundles"][0]["attestations"][0]["verification_material"]["certificate"] = "AAAA"
    for wrong in (json.dumps(data), json.dumps(others), "{}"):
        (alone / PROVENANCE).write_text(wrong)
        answer = signed.run_in_process("publish", "public", "--from", "alone")
        assert (answer.returncode, f"{PROVENANCE} does not belong to" in answer.stderr) == (4, True), answer.stderr
        assert not (signed.folder / "public").exists()
    (alone / PROVENANCE).write_text(text)
    assert signed.run_in_process("publish", "public", "--from", "alone").returncode == 0


def test_people_are_told_who_signed_as_the_certificate_has_it(signed):
    answer = signed.run_in_process("verify", "dist", "--identity", WORKFLOW, *TRUST)
    assert answer.stdout == (
        f"✓ {WHEEL}: signed by {WORKFLOW} (issuer {GITHUB})\n"
        f"    built from path by {WORKFLOW}\n"
        f"    repository in the certificate: {REPOSITORY}\n"
    )
