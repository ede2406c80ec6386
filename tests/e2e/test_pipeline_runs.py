"""The written pipelines, run at a tag by act and gitlab-ci-local, and by a stand-in for what runs Buildkite's steps."""

import json
import subprocess
import sys
from dataclasses import replace
from xml.etree import ElementTree as ET

import pytest
import wants
from loopback_sigstore import GITHUB, GITLAB, GITLAB_PIPELINE, WORKFLOW, gitlab_token, job_tokens, loopback_sigstore
from node_tools import node_tools
from releases import CACHE, released, statuses
from run_buildkite import Buildkite
from run_github import OWN_ACTION, Github
from run_gitlab import Gitlab
from served_bucket import fetched

from wheelsmith.base.distribution import DISTRIBUTION
from wheelsmith.run.shards import read_shards
from wheelsmith.store import Cost, Costs

pytestmark = pytest.mark.release("act and gitlab-ci-local are other people's programs")

ACTION = f"""
on: push
jobs:
  wheels:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@3d3c42e5aac5ba805825da76410c181273ba90b1
      - uses: {OWN_ACTION}
        with:
          wheelsmith: {DISTRIBUTION}
      - uses: actions/upload-artifact@bbbca2ddaa5d8feaa63e36b76fdaad77386f024f
        with:
          name: wheelsmith-dist
          path: dist
"""
MOST = 5000  # characters of a log that a failure shows


@pytest.fixture
def broken():
    return False


@pytest.fixture
def test_command():
    return ""


@pytest.fixture
def on_the_hub():
    return False


@pytest.fixture(params=["github", "gitlab", "buildkite"])
def released_by(request, broken, test_command, on_the_hub, tmp_path):
    """A release, and what runs its pipeline."""
    for program in ("g++", "openssl", "git", *(("rsync", "node") if request.param == "gitlab" else ())):
        wants.program(program)
    with released(tmp_path, request.param, broken=broken, test=test_command, hub=on_the_hub) as release:
        if request.param == "gitlab":
            yield release, Gitlab(release, node_tools(request.config))
        else:
            yield release, {"github": Github, "buildkite": Buildkite}[request.param](release)


@pytest.mark.parametrize("on_the_hub", [False, True])
def test_a_tag_becomes_a_signed_and_published_index(released_by):
    release, runner = released_by
    ended = runner.run()
    assert ended.code == 0, ended.text[-MOST:]
    assert "4 wheels signed, 0 already signed" in ended.text
    assert "4 wheels published, 0 already there" in ended.text
    assert release.verify().returncode == 0
    summary = (runner.dist / "summary.md").read_text()
    assert summary.startswith("### 4 of 4 combinations have a wheel\n")
    if isinstance(runner, Buildkite):
        assert runner.annotations == {"wheels-success": summary}
    # What the other jobs left has no signature.
    assert statuses(runner.dist) == {"built": 4}
    assert not list(runner.dist.rglob("*.sigstore.json"))
    again = runner.run()
    assert (again.code, "0 wheels published, 4 already there" in again.text) == (0, True), again.text[-MOST:]


TESTED_CELL = "torch213-cxx11-cpu-x86_64-linux"


@pytest.fixture(params=["github", "gitlab"])
def released_set(request, tmp_path):
    """A release of two kernels, what runs its pipeline, and the recorded costs before and after a run."""
    for program in ("g++", "openssl", "git", *(("rsync", "node") if request.param == "gitlab" else ())):
        wants.program(program)
    with released(tmp_path, request.param, more_kernels=True) as release:
        if request.param == "gitlab":
            cache = release.repository / ".gitlab-ci-local/cache/wheel-costs" / CACHE / "costs.sqlite"
            yield release, Gitlab(release, node_tools(request.config)), cache, cache
        else:
            caches = release.folder / "caches"
            before, after = (caches / f"wheel-costs-{run}" / "costs.sqlite" for run in ("0", "1-1"))
            yield release, Github(release), before, after


def test_a_set_is_sharded_by_what_its_builds_took_before(released_set):
    release, runner, before, after = released_set
    known, heavy = Costs(before), "build other cpu x86_64 torch2.12"
    keys = [f"build {name} cpu x86_64 torch{torch}" for name in ("tiny", "other") for torch in ("2.12", "2.13")]
    for key in keys:
        known.learn([key], Cost(seconds=9000 if key == heavy else 10, memory=0))
    known.save()
    ended = runner.run()
    assert ended.code == 0, ended.text[-MOST:]
    assert "4 wheels signed, 0 already signed" in ended.text
    assert "4 wheels published, 0 already there" in ended.text
    assert statuses(runner.dist) == {"built": 4}
    assert release.verify().returncode == 0
    for project in ("tiny", "other"):
        assert len(json.loads(fetched(f"{release.url}/projects/{project}/catalogue.json"))["wheels"]) == 2
    plan = read_shards(next(release.folder.rglob("wheelsmith.shards.json")))
    assert plan.shards[0].cells == ("other/torch212-cxx11-cpu-x86_64-linux",)
    assert sorted(len(shard.cells) for shard in plan.shards) == [1, 1, 2]
    # Join has told the next plan what all of them took now.
    took = {key: Costs(after).find([key]).seconds for key in keys}
    assert took[heavy] < 9000


def outcomes_of(catalogue):
    """Return what is told of the tests of the wheel that serves the newest torch, and how many wheels there are."""
    wheels = catalogue.get("wheels", ())
    told = [test for wheel in wheels for test in wheel.get("tests", ()) if "torch2.13" in wheel["filename"]]
    return [(test["outcome"], test["cell"]) for test in told], len(wheels)


@pytest.mark.parametrize("test_command", ['python -c "import tiny"'])
def test_what_was_published_is_tested_and_promoted(released_by):
    release, runner = released_by
    ended = runner.run()
    assert ended.code == 0, ended.text[-MOST:]
    assert "1 test recorded" in ended.text
    assert "4 wheels promoted, 0 already there" in ended.text
    told = outcomes_of(release.catalogue("test"))
    assert told == outcomes_of(release.catalogue("stable")) == ([("passed", TESTED_CELL)], 4)
    assert (release.verify("/test").returncode, release.verify("/stable").returncode) == (0, 0)


@pytest.mark.parametrize("test_command", ['python -c "import tiny; tiny.nothing"'])
def test_a_test_that_fails_is_recorded_and_nothing_is_promoted(released_by):
    release, runner = released_by
    ended = runner.run()
    assert ended.code != 0
    assert "has no attribute" in ended.text, ended.text[-MOST:]
    assert "1 test recorded" in ended.text, ended.text[-MOST:]
    assert "tiny 1 was not promoted: failed: tiny-1+cpu.torch2.13" in ended.text
    assert outcomes_of(release.catalogue("test")) == ([("failed", TESTED_CELL)], 4)
    assert release.catalogue("stable") == {}


@pytest.fixture(params=["github", "gitlab"])
def released_without_a_key(request, tmp_path):
    """A release without a key, what runs its pipeline, and who signs, with how many wheels have attestations."""
    pytest.importorskip("sigstore")
    for program in ("g++", "git", "node"):
        wants.program(program)
    test = 'python -c "import tiny"'
    with (
        loopback_sigstore(request.config.cache.mkdir("sigstore")) as sigstore,
        job_tokens() as (given, _),
        released(tmp_path, request.param, test=test, trust=sigstore.write(tmp_path)) as release,
    ):
        if request.param == "gitlab":
            job = {"CI_PROJECT_URL": f"{GITLAB}/org/wheels", "CI_COMMIT_REF_NAME": "v1"}
            job["SIGSTORE_ID_TOKEN"] = gitlab_token()
            with_token = replace(release, endpoint={**release.endpoint, **job})
            yield with_token, Gitlab(with_token, node_tools(request.config)), (GITLAB_PIPELINE, GITLAB, 0)
        else:
            with_token = replace(release, endpoint={**release.endpoint, **given})
            yield with_token, Github(with_token), (WORKFLOW, GITHUB, 4)


def test_without_a_key_the_index_has_attestations_of_its_job(released_without_a_key):
    release, runner, (workflow, issuer, attested) = released_without_a_key
    ended = runner.run()
    assert ended.code == 0, ended.text[-MOST:]
    assert "4 wheels signed, 0 already signed" in ended.text
    for channel in ("test", "stable"):
        index = f"{release.url}/{channel}/simple/"
        page = fetched(f"{index}tiny/").decode()
        assert page.count(f'data-provenance="{release.url}/{channel}/') == attested
        who = ("--identity", workflow, "--issuer", issuer, "--trust-config", release.folder / "root.json")
        argv = [sys.executable, "-m", "wheelsmith", "verify", index, *who]
        answer = subprocess.run(argv, capture_output=True, text=True)
        assert (answer.returncode, answer.stdout.count("✓")) == (0, 4), answer.stdout + answer.stderr


def test_a_missing_artefact_is_named_and_nothing_is_published(released_by):
    release, runner = released_by
    ended = runner.run(lose=2)
    assert ended.code != 0
    assert "some combinations have no result: shard 2/3" in ended.text, ended.text[-MOST:]
    assert "run again: wheelsmith build-matrix --shard 2/3" in ended.text
    assert "wheels published" not in ended.text
    assert "there is no index" in release.verify().stderr


@pytest.mark.parametrize("broken", [True])
def test_cells_that_do_not_compile_fail_join_which_has_the_others_and_nothing_is_published(released_by):
    release, runner = released_by
    ended = runner.run()
    assert ended.code != 0
    assert "no C++20 today" in ended.text, ended.text[-MOST:]
    assert statuses(runner.dist) == {"built": 2, "failed": 2}
    told = ET.parse(runner.dist / "junit.xml").getroot()
    assert (told.get("tests"), told.get("failures")) == ("4", "2")
    if isinstance(runner, Buildkite):
        assert "2 failed" in runner.annotations["wheels-error"]
    assert len(list((runner.dist / "index").rglob("*.whl"))) == 2
    assert "wheels signed" not in ended.text
    assert "there is no index" in release.verify().stderr


def test_a_killed_job_is_run_again_and_builds_what_is_missing(released_by):
    release, runner = released_by
    ended = runner.run(kill="1/3")
    assert ended.code != 0
    assert (release.folder / "killed").exists()
    assert "some combinations have no result: shard 1/3" in ended.text, ended.text[-MOST:]
    assert "there is no index" in release.verify().stderr
    again = runner.again()
    assert again.code == 0, again.text[-MOST:]
    # On Buildkite the other jobs are not run again, and what they built stands as it was.
    assert statuses(runner.dist)["built"] == 1 + 2 * isinstance(runner, Buildkite)
    assert statuses(runner.dist).total() == statuses(runner.dist)["built"] + statuses(runner.dist)["cached"] == 4
    assert "4 wheels published" in again.text
    assert release.verify().returncode == 0


def test_the_action_builds_the_matrix_and_keeps_its_cache(tmp_path):
    with released(tmp_path, "github", workflow=ACTION) as release:
        runner = Github(release)
        for status in ("built", "cached"):
            ended = runner.run()
            assert ended.code == 0, ended.text[-MOST:]
            assert statuses(runner.dist) == {status: 4}
