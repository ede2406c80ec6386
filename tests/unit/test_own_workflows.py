"""This repository's own workflows and its action: pinned, with no right too many, and of commands that there are."""

import os
import re
from pathlib import Path

import pytest
import yaml
from command_line import run_command

from wheelsmith import __version__
from wheelsmith.base.files import read_facts

ROOT = Path(__file__).parent.parent.parent
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
FILES = [*WORKFLOWS, ROOT / "action.yml"]
# Publishes to PyPI by trusted publishing, with attestations.
PYPI = ("pypa/gh-action-pypi-publish", "dc37677b2e1c63e2034f94d8a5b11f265b73ba33", "v1.14.2")
# Publish the documentation to GitHub Pages.
PAGES = {
    ("actions/upload-pages-artifact", "fc324d3547104276b827a68afc52ff2a11cc49c9", "v5.0.0"),
    ("actions/deploy-pages", "cd2ce8fcbc39b97be8ca5fce6e763baed58fa128", "v5.0.0"),
}
# The jobs that publish or open a pull request, with their environments and rights.
PUBLISHING = {
    ("nightly", "propose"): (None, {"contents": "write", "pull-requests": "write"}),
    ("release", "publish"): ("pypi", {"id-token": "write"}),
    ("docs", "publish"): ("github-pages", {"id-token": "write", "pages": "write"}),
}
every_file = pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
every_workflow = pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)


def read(path):
    return yaml.load(path.read_text(), yaml.BaseLoader)


def steps(path):
    data = read(path)
    jobs = data["jobs"].values() if "jobs" in data else [data["runs"]]
    return [step for job in jobs for step in job["steps"]]


def job_of(name, workflow="release"):
    return read(ROOT / ".github" / "workflows" / f"{workflow}.yml")["jobs"][name]


@every_file
def test_every_action_is_one_that_is_told_of_at_its_commit(path):
    known = read_facts("wheelsmith.report.pipelines", "actions.json")["actions"].values()
    told = {(each["uses"], each["commit"], each["version"]) for each in known} | {PYPI, *PAGES}
    used = re.findall(r"uses: (\S+)@([0-9a-f]{40}) # (v[\d.]+)$", path.read_text(), re.MULTILINE)
    assert used
    assert len(used) == path.read_text().count("uses:")
    assert set(used) <= told


@every_workflow
def test_a_job_may_read_the_repository_and_only_publishing_ones_have_a_token(path):
    data = read(path)
    assert data["permissions"] == {}
    for name, job in data["jobs"].items():
        environment, rights = PUBLISHING.get((path.stem, name), (None, {"contents": "read"}))
        assert job["permissions"] == rights
        assert job.get("environment") == environment
        assert "secrets." not in str(job)


def test_what_publishes_runs_nothing_else_and_waits_for_the_tests():
    publish = job_of("publish")
    assert set(publish["needs"]) == {"tests", "build"}
    assert [step["uses"].partition("@")[0] for step in publish["steps"]] == ["actions/download-artifact", PYPI[0]]
    assert publish["environment"] == "pypi"
    assert [step["run"] for step in job_of("tests")["steps"] if "scripts/test" in step.get("run", "")] == [
        "scripts/test --all"
    ]


def test_what_opens_a_pull_request_runs_no_code_of_others():
    steps = job_of("propose", "nightly")["steps"]
    assert [step["uses"].partition("@")[0] for step in steps[:-1]] == ["actions/checkout", "actions/download-artifact"]
    assert not re.search(r"python|pip|scripts/", steps[-1]["run"])


def test_every_supported_python_runs_the_unit_tests():
    names = ["3.11", "3.12", "3.13", "3.14"]
    assert job_of("unit", "nightly")["strategy"]["matrix"]["python"] == names
    # The job for all tests has the oldest.
    assert job_of("unit", "tests")["strategy"]["matrix"]["python"] == names[1:]
    assert f":-{' '.join(names)}}}" in (ROOT / "scripts/unit").read_text()


def test_only_the_main_branch_publishes_the_documentation():
    publish = job_of("publish", "docs")
    assert publish["if"] == "${{ github.ref == 'refs/heads/main' }}"
    assert publish["needs"] == "build"
    assert [step["uses"].partition("@")[0] for step in publish["steps"]] == ["actions/deploy-pages"]


@every_file
def test_the_scripts_that_are_run_are_there(path):
    for name in re.findall(r"run: (scripts/\S+)", path.read_text()):
        assert os.access(ROOT / name, os.X_OK)


def test_a_release_asks_the_wheel_for_its_version_as_that_says_it(monkeypatch, capsys):
    (asked,) = (
        match
        for step in job_of("build")["steps"]
        if (match := re.search(r'grep -F "(.*)\$\{.*\}(.*)"', step.get("run", "")))
    )
    assert run_command(monkeypatch, capsys, "--version").out.startswith(f"{asked[1]}{__version__}{asked[2]}")


def test_the_nightly_changes_the_line_of_the_matrix_that_names_torch():
    (old,) = re.findall(r"s/(.*?)/", (ROOT / "scripts" / "nightly").read_text().split("sed ")[-1])
    assert len(re.findall(old, (ROOT / "matrix.yaml").read_text(), re.MULTILINE)) == 1
