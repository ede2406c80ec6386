"""Wheels are signed by the run that made them, and verified by anybody: by wheelsmith, openssl and cosign."""

import base64
import json
import os
import shlex
import shutil
import subprocess
import sys
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import cosign as cosigns
import pytest
from factory import Factory
from kernels import matrix, pure_kernel
from loopback import serving, serving_files
from sampled import sampled
from signing_keys import ED25519, P256, make_key
from wheels import make_wheel

from wheelsmith.base.errors import SigningKeyError
from wheelsmith.index.entries.state import remove
from wheelsmith.index.publish import writer
from wheelsmith.index.publish.input_folders import external_wheels
from wheelsmith.index.publish.verify import verify as verify_index
from wheelsmith.index.publish.writer import Index
from wheelsmith.index.storage.folder import Folder
from wheelsmith.wheel.attestation.keys import KeySigner

pytestmark = [pytest.mark.xdist_group("signing"), pytest.mark.usefixtures("in_process_worker")]

WHEEL = "pure-1-py3-none-any.whl"
BUNDLE = f"{WHEEL}.sigstore.json"


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """What a run left, which nobody signed, and two keys."""
    factory = Factory.at(tmp_path_factory.mktemp("signing"))
    pure_kernel(factory.folder / "k")
    matrix(factory.folder, "k", torch="2.13", cuda="cpu, 13.0")
    answer = factory.run("build-matrix", "--engine", "local")
    assert answer.returncode == 0, answer.stderr
    make_key(factory.folder, "release")
    make_key(factory.folder, "other", ED25519)
    return factory


@pytest.fixture
def unsigned(built, tmp_path):
    """A copy of it."""
    folder = tmp_path / "factory"
    shutil.copytree(built.folder, folder, symlinks=True)
    return Factory(folder=folder, cache=folder / "cache")


@pytest.fixture
def signed(unsigned):
    answer = unsigned.run_in_process("sign", "--key", "release.key")
    assert (answer.returncode, answer.stderr) == (0, "1 wheel signed, 0 already signed\n")
    return unsigned


def verify(factory, *argv, key="release.pub"):
    believed = ("--key", key) if key else ()
    answer = factory.run_in_process("verify", "--json", *map(str, argv), *believed)
    return answer.returncode, json.loads(answer.stdout)["wheels"] if answer.stdout else answer.stderr


def refusal(factory, *argv, key="release.pub"):
    code, answers = verify(factory, *argv, key=key)
    assert code == 1, answers
    (answer,) = answers
    assert answer["verified"] is None
    return answer["refused"]


def bundle_of(factory):
    return json.loads((factory.folder / "dist/wheels" / BUNDLE).read_bytes())


def statement_of(factory):
    return json.loads(base64.b64decode(bundle_of(factory)["dsseEnvelope"]["payload"]))


def test_it_says_how_the_wheel_was_made(signed):
    results = json.loads((signed.folder / "dist/results.json").read_bytes())
    (digest,) = {cell["plan_digest"] for cell in results["cells"].values()}
    statement = statement_of(signed)
    (subject,) = statement["subject"]
    assert subject["digest"]["sha256"] == next(iter(signed.hashes().values()))
    made = statement["predicate"]["buildDefinition"]
    assert made["internalParameters"]["plan"] == {"sha256": digest}
    assert made["externalParameters"]["cells"] == sorted(results["cells"])
    assert made["externalParameters"]["matrix"] == {"sha256": results["matrix_sha256"]}
    times = statement["predicate"]["runDetails"]["metadata"]
    assert times == {"startedOn": results["started_on"], "finishedOn": results["finished_on"]}
    assert str(signed.folder) not in json.dumps(statement)


@pytest.mark.parametrize("place", [f"dist/wheels/{WHEEL}", "dist/wheels", "dist", "dist/index"])
def test_it_is_verified_wherever_it_lies(signed, place):
    code, (answer,) = verify(signed, place)
    assert (code, answer["refused"]) == (0, None)
    assert (answer["verified"]["wheel"], answer["verified"]["key"]) == (WHEEL, "release.pub")


@pytest.mark.parametrize("serve", [serving_files, serving], ids=["HTML", "JSON"])
@pytest.mark.parametrize("root", sampled(["simple/", "cu130"], "simple/"))
def test_it_is_verified_on_an_index(signed, serve, root):
    published = signed.run_in_process("publish", "public", "--from", "dist")
    assert published.returncode == 0
    assert "1 wheel published, 0 already there, 1 new signature: " in published.stderr
    with serve(signed.folder / "public") as address:
        code, (answer,) = verify(signed, f"{address}/{root}")
        assert (code, answer["refused"]) == (0, None)
        assert "its sha256 is" in refusal(signed, f"{address}/{root}", key="other.pub")
        code, why = verify(signed, f"{address}/{root}", "--offline")
        assert (code, "wheelsmith is offline" in why) == (4, True)


def test_to_sign_again_changes_nothing_and_by_another_key_everything(signed):
    before = bundle_of(signed)
    answer = signed.run_in_process("sign", "dist", "--key", "release.key")
    assert (answer.returncode, answer.stderr, bundle_of(signed)) == (0, "0 wheels signed, 1 already signed\n", before)
    other = signed.run_in_process("sign", "--key", "env:KEY", KEY=(signed.folder / "other.key").read_text())
    counts = "1 wheel signed, 0 already signed; 1 signature by another signer replaced\n"
    assert (other.returncode, other.stderr) == (0, counts)
    assert "its sha256 is" in refusal(signed, "dist")
    code, (answer,) = verify(signed, "dist", key="other.pub")
    assert (code, answer["verified"]["key"]) == (0, "other.pub")
    assert signed.run_in_process("index", "verify", "dist/index").returncode == 0


GITHUB = {
    "GITHUB_ACTIONS": "true",
    "GITHUB_SERVER_URL": "https://git",
    "GITHUB_REPOSITORY": "o/r",
    "GITHUB_WORKFLOW_REF": "o/r/.github/workflows/wheels.yml@refs/tags/v1",
    "GITHUB_REF": "refs/tags/v1",
    "GITHUB_SHA": "e" * 40,
    "GITHUB_RUN_ID": "1",
}


def told(factory, **changes):
    file = factory.folder / "dist/results.json"
    file.write_text(json.dumps({**json.loads(file.read_bytes()), **changes}))


@pytest.mark.parametrize(
    ("env", "matrix_sha256", "image", "new"),
    [
        ({}, None, None, 0),
        ({"GITHUB_RUN_ID": "2"}, None, None, 0),
        ({"GITHUB_SHA": "f" * 40}, None, None, 1),
        ({}, "a" * 64, None, 1),
        ({}, None, f"sha256:{'5' * 64}", 1),
    ],
    ids=["nothing", "another run", "commit", "matrix", "image"],
)
def test_what_is_said_otherwise_is_signed_again(unsigned, env, matrix_sha256, image, new):
    assert unsigned.run_in_process("sign", "--key", "release.key", **GITHUB).returncode == 0
    if matrix_sha256:
        told(unsigned, matrix_sha256=matrix_sha256)
    if image:
        state = unsigned.folder / "dist/index/_state/pure.json"
        state.write_text(state.read_text().replace('"image": null', f'"image": "{image}"'))
    answer = unsigned.run_in_process("sign", "--key", "release.key", **{**GITHUB, **env})
    assert (answer.returncode, answer.stderr.split()[0]) == (0, str(new)), answer.stderr


def test_nothing_is_written_through_a_link(unsigned, tmp_path):
    wheels = unsigned.folder / "dist/wheels"
    wheels.rename(tmp_path / "elsewhere")
    wheels.symlink_to(tmp_path / "elsewhere")
    answer = unsigned.run_in_process("sign", "--key", "release.key")
    assert (answer.returncode, "dist/wheels is a link" in answer.stderr) == (4, True)
    assert not list(tmp_path.rglob("*.sigstore.json"))


def replaced(wheel, name, text):
    """Write a member of a wheel anew, and leave the rest."""
    with zipfile.ZipFile(wheel) as archive:
        members = {each: archive.read(each) for each in archive.namelist()}
    (found,) = (each for each in members if each.endswith(name))
    members[found] = text
    with zipfile.ZipFile(wheel, "w") as archive:
        for each, data in members.items():
            archive.writestr(each, data)


def test_a_changed_wheel_is_refused(signed):
    wheel = signed.folder / "dist/wheels" / WHEEL
    replaced(wheel, "pure/__init__.py", b"VALUE = 3\n")
    assert "the statement is about a wheel with the sha256" in refusal(signed, wheel)
    with (signed.folder / "dist/wheels" / WHEEL).open("wb"):
        pass
    assert "cannot be read" in refusal(signed, wheel)


def test_a_wheel_built_from_other_source_under_the_right_name_is_refused(signed, tmp_path):
    """By its bytes, by what it records, and, where the thief has signed it too, by who is believed."""
    (signed.folder / "k/torch-ext/pure/__init__.py").write_text("VALUE = 'stolen'\n")
    assert signed.run("build-matrix", "--engine", "local", "--out", "forged").returncode == 0
    forged, true = signed.folder / "forged/wheels" / WHEEL, signed.folder / "dist/wheels"
    bundle = shutil.copy(true / BUNDLE, forged.with_name(BUNDLE))
    why = refusal(signed, forged)
    assert "the statement is about a wheel with the sha256" in why
    assert "is made from the source" in why
    assert "records the plan" in why
    assert signed.run_in_process("sign", "forged", "--key", "other.key").returncode == 0
    assert "not signed by release.pub" in refusal(signed, forged)
    assert bundle.read_bytes() != (true / BUNDLE).read_bytes()


def test_what_the_statement_says_must_be_believed(unsigned):
    assert unsigned.run_in_process("sign", "--key", "release.key", **GITHUB).returncode == 0
    policy = unsigned.folder / "policy.yaml"
    builder = "https://git/o/r/.github/workflows/wheels.yml@refs/tags/*"
    policy.write_text(f"keys: release.pub\nrepositories: https://git/o/r\nsources: path\nbuilders: '{builder}'\n")
    assert verify(unsigned, "dist", "--policy", policy, key=None)[0] == 0
    for words, refused in (
        (("--source", "hub:o/k"), "its source is path, not hub:o/k"),
        (("--repository", "https://git/o/fork"), "its repository is https://git/o/r, not https://git/o/fork"),
        (
            ("--builder", "https://git/o/r/*"),
            "its builder is https://git/o/r/.github/workflows/wheels.yml@refs/tags/v1",
        ),
    ):
        assert refused in refusal(unsigned, "dist", "--policy", policy, *words, key=None)


@pytest.mark.parametrize("case", ["none", "changed", "a link", "too large", "words"])
def test_what_lies_beside_a_wheel_is_somebody_elses_word(signed, case):
    bundle = signed.folder / "dist/wheels" / BUNDLE
    data = bundle_of(signed)
    bundle.unlink()
    if case == "changed":
        text = base64.b64decode(data["dsseEnvelope"]["payload"]).replace(b'"path"', b'"hub:"')
        data["dsseEnvelope"]["payload"] = base64.b64encode(text).decode()
        bundle.write_text(json.dumps(data))
    elif case == "a link":
        bundle.symlink_to("/etc/hostname")
    elif case == "too large":
        bundle.write_bytes(b" " * (5 << 20))
    elif case == "words":
        bundle.write_bytes(b"\x1b[31m::error::")
    assert "\x1b" not in refusal(signed, bundle.with_name(WHEEL))


PICK = ("--torch", "2.13", "--cuda", "cpu", "--keep-torch")


@pytest.mark.parametrize("served_as", ["folder", "address"])
def test_pick_chooses_what_is_signed_by_who_is_believed(signed, served_as):
    with serving_files(signed.folder / "dist/index") as address:
        index = "dist/index" if served_as == "folder" else f"{address}/simple/"
        picked = ("pick", "pure", "--index", index, *PICK)
        answer = signed.run_in_process(*picked, "--key", "release.pub", "--json")
        said = json.loads(answer.stdout)
        assert (answer.returncode, said["verified"]["key"]) == (0, "release.pub"), answer.stderr
        assert f"#sha256={next(iter(signed.hashes().values()))}" in said["command"]
        assert json.loads(signed.run_in_process(*picked, "--json").stdout)["verified"] is None
        answer = signed.run_in_process(*picked, "--key", "other.pub")
        assert (answer.returncode, answer.stdout) == (1, "")
        assert "not signed by other.pub" in answer.stderr
        answer = signed.run_in_process(*picked, "--key", "release.pub", "--source", "hub:o/k")
        assert (answer.returncode, "not hub:o/k" in answer.stderr) == (1, True)
        for wrong in (("--source", "path"), ("--key", "release.pub", "--installer", "uv-project")):
            assert signed.run_in_process(*picked, *wrong).returncode == 2


@pytest.mark.release("several indexes, or installers, for each")
@pytest.mark.parametrize("program", [("pip", "--isolated", "--no-cache-dir"), ("uv",)])
def test_installers_take_no_other_wheel_than_the_one_that_was_picked(signed, program, tmp_path):
    (wheel,) = (signed.folder / "dist/index/files").rglob("*.whl")
    with serving_files(signed.folder / "dist/index") as address:
        picked = ("pick", "pure", "--index", address, *PICK, "--key", "release.pub", "--installer", program[0])
        answer = signed.run_in_process(*picked)
        assert answer.returncode == 0, answer.stderr
        (named,) = (word for word in shlex.split(answer.stdout) if "#sha256=" in word)
        tools = {"pip": [sys.executable, "-m", *program], "uv": ["uv", "pip"]}[program[0]]
        install = [*tools, "install", "--no-deps", "--target", tmp_path / "there", named]
        assert subprocess.run(install, capture_output=True).returncode == 0
        shutil.rmtree(tmp_path / "there")
        text = wheel.read_bytes()
        wheel.unlink()
        shutil.copyfile(signed.folder / "dist/wheels" / WHEEL, wheel)
        replaced(wheel, "pure/__init__.py", b"VALUE = 3\n")
        assert wheel.read_bytes() != text
        env = {**os.environ, "UV_CACHE_DIR": str(tmp_path / "cache")}
        assert subprocess.run(install, capture_output=True, env=env).returncode != 0
        assert not (tmp_path / "there/pure").exists()


def evil(folder, name):
    (folder / name).write_bytes(b"evil")


def linked(folder, name):
    (folder / "payload").write_bytes(b"evil")
    (folder / name).symlink_to("payload")


@pytest.mark.parametrize(
    ("name", "lay", "place"),
    [
        ("evil-9-py3-none-any.whl", evil, "dist"),
        ("evil-9-py3-none-any.whl", linked, "dist/wheels"),
        ("pure-2-py3-none-any.WHL", evil, "dist/wheels"),
        ("pure-2.tar.gz", evil, "dist/wheels"),
        ("pure-2.tlz", lambda folder, name: (folder / name).mkdir(), "dist"),
    ],
)
def test_nothing_that_lies_in_a_folder_is_passed_over(signed, name, lay, place):
    lay(signed.folder / "dist/wheels", name)
    code, answers = verify(signed, place)
    if code != 4:  # an index that does not list what lies beside it is refused as a whole
        assert (code, {each["wheel"] for each in answers if each["refused"]}) == (1, {name})


def test_a_key_by_mistake_is_not_shown(unsigned):
    key = (unsigned.folder / "release.key").read_text()
    body = "".join(line for line in key.splitlines() if not line.startswith("-"))
    words = (key, f"env:{key}", body, f"env:{body}", f"env:{body.replace('/', '').replace('+', '')}", body[:60], "x\0y")
    for named in words:
        answer = unsigned.run_in_process("sign", "--key", named)
        assert answer.returncode == 2
        assert body[:20] not in answer.stderr


def test_what_cannot_be_signed_leaves_all_unsigned(unsigned, monkeypatch):
    monkeypatch.setattr(KeySigner, "sign", _refuse)
    answer = unsigned.run_in_process("sign", "--key", "release.key")
    assert answer.returncode == 2
    assert not list((unsigned.folder / "dist").rglob("*.sigstore.json"))


def _refuse(key, data):
    raise SigningKeyError("throttled")


def _edit(path, before, after):
    path.write_text(path.read_text().replace(before, after))


@pytest.mark.parametrize(
    "change",
    [
        lambda dist, *_: _edit(dist / "index/_state/pure.json", '"origin": "path"', '"origin": "hub:org/k"'),
        lambda dist, plan, _: _edit(dist / "index/_state/pure.json", plan, "0" * 64),
        lambda dist, _, sha: _edit(dist / "results.json", sha, "0" * 64),
        lambda dist, *_: _edit(dist / "results.json", '"started_on": "', '"started_on": 7, "x": "'),
        lambda dist, *_: (dist / "results.json").unlink(),
    ],
    ids=["another source", "another plan", "another wheel", "no time", "no results"],
)
def test_what_the_index_and_the_results_tell_otherwise_is_not_signed(unsigned, change):
    (digest,) = {cell["plan_digest"] for cell in unsigned.results().values()}
    change(unsigned.folder / "dist", digest, next(iter(unsigned.hashes().values())))
    answer = unsigned.run_in_process("sign", "--key", "release.key")
    assert (answer.returncode, " no record of " in answer.stderr) == (1, True), answer.stderr


def test_an_index_that_offers_another_bundle_is_refused(signed):
    """Whoever can write to an index can put there what he likes, and has no key."""
    assert signed.run_in_process("publish", "public", "--from", "dist").returncode == 0
    (stored,) = (signed.folder / "public/files").rglob("*.sigstore.json")
    stored.write_bytes(stored.read_bytes().replace(b"dsseEnvelope", b"messageSignature"))
    with serving_files(signed.folder / "public") as address:
        assert "the bundle cannot be read" in refusal(signed, f"{address}/simple/")
    page = signed.folder / "public/simple/pure/index.html"
    for link in ("file:///etc/hostname", "http://[::1/x"):
        page.write_text(page.read_text().replace('data-sigstore-bundle="..', f'data-sigstore-bundle="{link}" x="..'))
        with serving_files(signed.folder / "public") as address:
            assert verify(signed, f"{address}/simple/")[0] == 4


def published_key(factory, *argv):
    """Publish, and return by whom the wheel is signed there."""
    answer = factory.run_in_process("publish", "public", "--from", "dist", "--json", *argv)
    assert answer.returncode == 0, answer.stderr
    (bundle,) = read_bundles(factory.folder / "public")
    return json.loads(answer.stdout), bundle["verificationMaterial"]["publicKey"]["hint"]


def read_bundles(index):
    """What the pages announce, not what lies there."""
    page = index / "simple/pure"
    files = json.loads((page / "index.json").read_bytes())["files"]
    return [json.loads((page / each["_sigstore-bundle"]["url"]).read_bytes()) for each in files]


def test_another_signature_is_taken_by_an_index_only_when_asked(signed):
    _, first = published_key(signed)
    assert signed.run_in_process("sign", "--key", "other.key").returncode == 0
    said, kept = published_key(signed)
    assert (kept, said["signed_otherwise"], said["replaced_signatures"]) == (first, [WHEEL], [])
    plain = signed.run_in_process("publish", "public", "--from", "dist")
    assert "1 wheel already signed differently" in plain.stderr
    tried = signed.run_in_process("publish", "public", "--from", "dist", "--replace-signatures", "--dry-run")
    assert "1 signature would be replaced" in tried.stderr
    assert published_key(signed)[1] == first
    said, now = published_key(signed, "--replace-signatures")
    assert (now != first, said["signed_otherwise"], said["replaced_signatures"]) == (True, [], [WHEEL])
    assert published_key(signed, "--replace-signatures")[0]["replaced_signatures"] == []
    assert verify(signed, "public", key="other.pub")[0] == 0
    assert signed.run_in_process("index", "verify", "public").returncode == 0


@pytest.mark.release("several indexes, or installers, for each")
def test_publishers_that_replace_signatures_at_once_leave_one_whole(signed):
    """Two with other keys, and one that asks for nothing: each ends, and what is announced is there."""
    assert signed.run_in_process("publish", "public", "--from", "dist").returncode == 0
    shutil.copytree(signed.folder / "dist", signed.folder / "second", symlinks=True)
    assert signed.run_in_process("sign", "second", "--key", "other.key").returncode == 0
    calls = [("dist", "--replace-signatures"), ("second", "--replace-signatures"), ("second",)] * 3
    with ThreadPoolExecutor(len(calls)) as pool:
        answers = list(pool.map(lambda call: signed.run("publish", "public", "--from", *call), calls))
    assert {answer.returncode for answer in answers} == {0}, [answer.stderr for answer in answers]
    assert signed.run_in_process("index", "verify", "public").returncode == 0
    assert {verify(signed, "public", key=key)[0] for key in ("release.pub", "other.pub")} == {0, 1}


@pytest.mark.release("several indexes, or installers, for each")
def test_a_wheel_that_comes_back_meanwhile_is_given_no_file_that_is_not_there(signed, monkeypatch):
    """attach knows the wheels that were there when it wrote its files."""
    data = (signed.folder / "dist/wheels" / BUNDLE).read_bytes()
    wheel = signed.folder / "alone" / WHEEL
    wheel.parent.mkdir()
    shutil.copy(signed.folder / "dist/wheels" / WHEEL, wheel)
    index = Index(Folder(signed.folder / "public"))
    (offer,) = external_wheels([wheel])
    index.add([offer], upload_time="2026-11-24T10:00:00Z")
    index.change("pure", lambda state: remove(state, "1"))
    advance = writer._change_state

    def after_it_came_back(storage, project, transition):
        monkeypatch.setattr(writer, "_change_state", advance)
        Index(storage).add([offer], upload_time="2026-11-24T10:00:00Z")
        return advance(storage, project, transition)

    monkeypatch.setattr(writer, "_change_state", after_it_came_back)
    index.attach("pure", {offer.entry.sha256: {".sigstore.json": data}})
    assert [entry.side_files for entry in index.entries("pure")] == [{}]
    assert not verify_index(Folder(signed.folder / "public"))


@pytest.mark.parametrize("place", ["index", "folder"])
@pytest.mark.parametrize("case", ["name", "hash", "no bundle"])
def test_what_was_signed_of_another_wheel_is_not_published(signed, tmp_path, place, case):
    data = bundle_of(signed)
    statement = json.loads(base64.b64decode(data["dsseEnvelope"]["payload"]))
    if case == "name":
        statement["subject"][0]["name"] = "other-1-py3-none-any.whl"
    elif case == "hash":
        statement["subject"][0]["digest"]["sha256"] = "0" * 64
    data["dsseEnvelope"]["payload"] = base64.b64encode(json.dumps(statement).encode()).decode()
    text = b"{}" if case == "no bundle" else json.dumps(data).encode()
    source = tmp_path / "alone"
    if place == "folder":
        source.mkdir()
        shutil.copy(signed.folder / "dist/wheels" / WHEEL, source / WHEEL)
        (source / BUNDLE).write_bytes(text)
    else:
        source = signed.folder / "dist"
        index = Index(Folder(source / "index"))
        index.attach("pure", {entry.sha256: {".sigstore.json": text} for entry in index.entries("pure")})
    answer = signed.run_in_process("publish", "public", "--from", str(source))
    why = {"name": "other-1-py3", "hash": "sha256 0000", "no bundle": "cannot be read"}[case]
    assert (answer.returncode, why in answer.stderr, "wheelsmith sign" in answer.stderr) == (4, True, True)
    assert not (signed.folder / "public").exists()


def test_nothing_is_signed_that_the_run_did_not_make(unsigned, tmp_path):
    foreign = make_wheel(tmp_path / "foreign", "pure", "2")
    assert unsigned.run_in_process("index", "add", "dist/index", str(foreign)).returncode == 0
    answer = unsigned.run_in_process("sign", "--key", "release.key")
    assert (answer.returncode, "pure-2-py3-none-any.whl has no record of its build" in answer.stderr) == (1, True)
    assert not (unsigned.folder / "dist/wheels" / BUNDLE).exists()


def test_a_wheel_that_was_changed_after_the_run_is_not_signed(unsigned):
    (wheel,) = (unsigned.folder / "dist/index/files").rglob("*.whl")
    text = wheel.read_bytes()
    wheel.unlink()
    wheel.write_bytes(text + b"\0")
    answer = unsigned.run_in_process("sign", "--key", "release.key")
    assert (answer.returncode, "is not the file that was built" in answer.stderr) == (1, True)
    wheel.unlink()
    answer = unsigned.run_in_process("sign", "--key", "release.key")
    assert (answer.returncode, "cannot be read" in answer.stderr) == (1, True)


@pytest.mark.parametrize(("name", "kind"), [("release", P256), ("other", ED25519)])
def test_openssl_alone_verifies_it(unsigned, name, kind, tmp_path):
    assert unsigned.run_in_process("sign", "--key", f"{name}.key").returncode == 0
    envelope = bundle_of(unsigned)["dsseEnvelope"]
    payload, signature = (base64.b64decode(text) for text in (envelope["payload"], envelope["signatures"][0]["sig"]))
    kept = envelope["payloadType"]
    data, sig = tmp_path / "data", tmp_path / "sig"
    sig.write_bytes(signature)
    public = unsigned.folder / f"{name}.pub"
    argv = ["openssl", "dgst", "-sha256", "-verify", public, "-signature", sig, data]
    if kind == ED25519:
        argv = ["openssl", "pkeyutl", "-verify", "-pubin", "-inkey", public, "-rawin", "-sigfile", sig, "-in", data]
    for text, code in ((payload, 0), (payload + b" ", 1)):
        data.write_bytes(f"DSSEv1 {len(kept)} {kept} {len(text)} ".encode() + text)
        assert subprocess.run(argv, capture_output=True).returncode == code


EMPTY = ("--trusted-root", "EMPTY")


@pytest.mark.release("another program, of 15 MB")
@pytest.mark.network
@pytest.mark.parametrize("name", ["release", "other"])
@pytest.mark.parametrize(
    ("package", "more"),
    [(cosigns.STABLE, ("--new-bundle-format", *EMPTY)), (cosigns.UNSTABLE, ())],
    ids=["2.5.0", "3.1.1"],
)
def test_cosign_verifies_it_without_a_network(unsigned, package, more, name, tmp_path):
    program = cosigns.cosign(package, tmp_path)
    assert unsigned.run_in_process("sign", "--key", f"{name}.key").returncode == 0
    if more:
        subprocess.run([program, "trusted-root", "create", "--out", tmp_path / "EMPTY"], check=True)
    wheel = unsigned.folder / "dist/wheels" / WHEEL

    def verifies(key=name, kind="slsaprovenance1"):
        argv = [program, "verify-blob-attestation", "--key", unsigned.folder / f"{key}.pub"]
        argv += ["--bundle", wheel.with_name(BUNDLE), "--insecure-ignore-tlog", "--type", kind, *more, wheel]
        alone = ["unshare", "--net", *argv] if os.getuid() == 0 else argv
        answer = subprocess.run(alone, cwd=tmp_path, capture_output=True, text=True)
        return "Verified OK" in answer.stderr if answer.returncode == 0 else False

    assert verifies()
    assert not verifies(key="other" if name == "release" else "release")
    # Of a bundle, 2.5.0 does not look at what it is told to expect.
    assert verifies(kind="spdxjson") is (package == cosigns.STABLE)
    replaced(wheel, "pure/__init__.py", b"VALUE = 3\n")
    assert not verifies()


# moto does not know that what is to be signed may be a digest already, which is all that securesystemslib sends.
KMS = """
import sys
import boto3
from cryptography.hazmat.primitives.asymmetric.ec import ECDSA
from cryptography.hazmat.primitives.asymmetric.utils import Prehashed
from cryptography.hazmat.primitives.hashes import SHA256
from moto.kms.utils import ECDSAPrivateKey
from moto.server import ThreadedMotoServer

ECDSAPrivateKey.sign = lambda self, digest, algorithm: self.private_key.sign(digest, ECDSA(Prehashed(SHA256())))
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
server.start()
host, port = server.get_host_and_port()
client = boto3.client("kms", endpoint_url=f"http://{host}:{port}")
key = client.create_key(KeyUsage="SIGN_VERIFY", KeySpec="ECC_NIST_P256")["KeyMetadata"]["KeyId"]
der = client.get_public_key(KeyId=key)["PublicKey"]
print("KMS", f"http://{host}:{port}", key, der.hex(), flush=True)
sys.stdin.read()
"""


@pytest.mark.release("a key management service on loopback")
def test_a_key_in_a_service_signs(unsigned):
    pytest.importorskip("moto")
    account = {"AWS_ACCESS_KEY_ID": "A", "AWS_SECRET_ACCESS_KEY": "B", "AWS_DEFAULT_REGION": "us-east-1"}
    argv = [sys.executable, "-c", KMS]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
    with subprocess.Popen(argv, env={**os.environ, **account}, **pipes) as service:
        # The server says more.
        address, key, der = next(line.split()[1:] for line in service.stdout if line.startswith("KMS "))
        given = {**account, "AWS_ENDPOINT_URL_KMS": address}
        pem = subprocess.run(
            ["openssl", "pkey", "-pubin", "-inform", "DER"], input=bytes.fromhex(der), capture_output=True
        )
        public = Path(unsigned.folder, "kms.pub")
        public.write_bytes(pem.stdout)
        named = ("sign", "--key", f"awskms:{key}")
        answer = unsigned.run_in_process(*named, "--public-key", "kms.pub", **given)
        assert answer.returncode == 0, answer.stderr
        assert verify(unsigned, "dist", key="kms.pub")[0] == 0
        for wrong, refused in (
            ((), "needs its public key"),
            (("--public-key", "release.pub"), "the signature is not by"),
        ):
            answer = unsigned.run_in_process("sign", "--key", f"awskms:{key}", *wrong, **given)
            assert (answer.returncode, refused in answer.stderr) == (2, True), answer.stderr
        service.stdin.close()
    answer = unsigned.run_in_process(*named, "--public-key", "kms.pub", **given)
    # What is signed already is not signed again, and no service is asked.
    assert answer.returncode == 0, answer.stderr


@pytest.mark.parametrize("argv", [("dist",), ("dist", "--key", "a", "--policy", "b"), ("dist", "--key", "release.key")])
def test_who_is_believed_must_be_said(signed, argv):
    answer = signed.run_in_process("verify", *argv)
    assert (answer.returncode, bool(answer.stderr)) == (2, True)


def build_version(factory, version):
    """Build the kernel again, with another version in the same folder."""
    _edit(factory.folder / "k/build.toml", "version = 1", f"version = {version}")
    answer = factory.run("build-matrix", "--engine", "local")
    assert answer.returncode == 0, answer.stderr


@pytest.fixture(scope="module")
def built_next(built, tmp_path_factory):
    """Version 1 without a signature, and version 2 of a later run, in one folder."""
    folder = tmp_path_factory.mktemp("next") / "factory"
    shutil.copytree(built.folder, folder, symlinks=True)
    factory = Factory(folder=folder, cache=folder / "cache")
    build_version(factory, 2)
    return factory


@pytest.fixture
def unsigned_next(built_next, tmp_path):
    folder = tmp_path / "factory"
    shutil.copytree(built_next.folder, folder, symlinks=True)
    return Factory(folder=folder, cache=folder / "cache")


NEXT = WHEEL.replace("-1-", "-2-")


def test_a_later_version_is_signed_and_the_signature_of_an_earlier_one_stays(signed):
    assert signed.run_in_process("publish", "public", "--from", "dist").returncode == 0
    before = bundle_of(signed)
    build_version(signed, 2)
    published = signed.run_in_process("publish", "public", "--from", "dist")
    warning = "warning: pure 2 has no signature, unlike pure 1; sign it with wheelsmith sign, and publish again\n"
    assert (published.returncode, warning in published.stderr) == (0, True), published.stderr
    assert warning in signed.run_in_process("publish", "public", "--from", "dist", "--dry-run").stderr
    answer = signed.run_in_process("sign", "--key", "other.key", "--json")
    counts = "1 wheel signed, 0 already signed; 1 of earlier runs was left as it is\n"
    assert (answer.returncode, answer.stderr) == (0, counts)
    found = json.loads(answer.stdout)
    assert [each["wheel"] for each in found["signed"]] == [NEXT]
    assert [(each["wheel"], each["signed"]) for each in found["left"]] == [(WHEEL, True)]
    assert bundle_of(signed) == before
    assert verify(signed, f"dist/wheels/{NEXT}", key="other.pub")[0] == 0
    published = signed.run_in_process("publish", "public", "--from", "dist")
    assert (published.returncode, "no signature" in published.stderr) == (0, False), published.stderr


def test_an_unsigned_wheel_of_an_earlier_run_is_counted_and_no_reason_to_warn(unsigned_next):
    answer = unsigned_next.run_in_process("sign", "--key", "release.key")
    counts = "1 wheel signed, 0 already signed; 1 of earlier runs was left as it is (1 without a signature)\n"
    assert (answer.returncode, answer.stderr) == (0, counts)
    assert not (unsigned_next.folder / "dist/wheels" / BUNDLE).exists()
    # The index gets version 1 first: sign cannot add its signature here.
    (unsigned_next.folder / "old").mkdir()
    shutil.copy(unsigned_next.folder / "dist/wheels" / WHEEL, unsigned_next.folder / "old")
    assert unsigned_next.run_in_process("publish", "public", "--from", "old").returncode == 0
    published = unsigned_next.run_in_process("publish", "public", "--from", "dist")
    assert (published.returncode, "no signature" in published.stderr) == (0, False), published.stderr


@pytest.mark.parametrize("case", ["plan", "tree", "bytes", "missing", "foreign"])
def test_a_wheel_that_no_run_built_is_refused_among_those_of_earlier_runs(unsigned_next, tmp_path, case):
    dist, name = unsigned_next.folder / "dist", WHEEL
    state = json.loads((dist / "index/_state/pure.json").read_bytes())
    (made,) = (each["provenance"] for each in state["entries"] if each["filename"] == WHEEL)
    wheel = next((dist / "index/files").rglob(WHEEL))
    if case == "plan":
        _edit(dist / "index/_state/pure.json", made["plan_digest"], "0" * 64)
    elif case == "tree":
        _edit(dist / "index/_state/pure.json", made["source"]["tree"], "0" * 64)
    elif case == "foreign":
        name = "pure-3-py3-none-any.whl"
        foreign = make_wheel(tmp_path / "foreign", "pure", "3")
        assert unsigned_next.run_in_process("index", "add", "dist/index", str(foreign)).returncode == 0
    else:
        data = wheel.read_bytes()
        wheel.unlink()
        if case == "bytes":
            wheel.write_bytes(data + b"\0")
    answer = unsigned_next.run_in_process("sign", "--key", "release.key")
    assert (answer.returncode, f"error: {name} " in answer.stderr) == (1, True), answer.stderr
    assert not list(dist.rglob("*.sigstore.json"))


def test_wheels_of_one_version_of_which_only_some_are_signed(signed, tmp_path):
    assert signed.run_in_process("publish", "public", "--from", "dist").returncode == 0
    foreign = make_wheel(tmp_path / "foreign", "pure", "1", tag="py2-none-any")
    answer = signed.run_in_process("publish", "public", "--from", str(foreign.parent))
    warning = "warning: 1 of 2 wheels of pure 1 has no signature; "
    assert (answer.returncode, warning in answer.stderr) == (0, True), answer.stderr
