"""The workflow that wheelsmith writes: pinned, with no right that it does not ask for, and secrets in one job alone."""

import re

import pytest
import yaml

from wheelsmith.base.errors import SettingError
from wheelsmith.base.facts import read_facts
from wheelsmith.report.pipelines import Pipeline, github_workflow

WHOLE = Pipeline(wheelsmith="wheelsmith[x]==1", sign=True, publish="s3://wheels/kernels", locked=True, shards="3")


def read(pipeline):
    return yaml.load(github_workflow(pipeline), yaml.BaseLoader)


def steps(workflow):
    return [(name, step) for name, job in workflow["jobs"].items() for step in job["steps"]]


@pytest.mark.parametrize("pipeline", [WHOLE, Pipeline(wheelsmith="wheelsmith==1")], ids=["whole", "least"])
def test_every_action_is_pinned_to_a_commit_that_is_told_of(pipeline):
    text = github_workflow(pipeline)
    used = re.findall(r"uses: (\S+)@(\S+) # (v[\d.]+)$", text, re.MULTILINE)
    known = {(each["uses"], each["commit"], each["version"]) for each in _actions().values()}
    assert len(used) == text.count("uses:")
    assert set(used) <= known
    assert all(re.fullmatch("[0-9a-f]{40}", commit) for _, commit, _ in used)
    assert "<<" not in text


def _actions():
    return read_facts("wheelsmith.report.pipelines", "actions.json")["actions"]


def test_only_the_job_after_join_has_secrets():
    workflow = read(WHOLE)
    with_secrets = {name for name, step in steps(workflow) if "secrets." in str(step)}
    assert with_secrets == {"publish"}
    assert workflow["jobs"]["publish"]["needs"] == "join"
    assert (workflow["permissions"], workflow["jobs"]["publish"]["permissions"]) == ({}, {})
    assert "build-matrix" not in str(workflow["jobs"]["publish"])
    assert {name for name, job in workflow["jobs"].items() if "environment" in job} == {"publish"}


def test_no_expression_stands_in_a_script():
    """What a tag or a branch is called would be run."""
    for _, step in steps(read(WHOLE)):
        assert "${{" not in step.get("run", "")


def test_a_shard_that_failed_reaches_join_and_none_does_publish():
    jobs = read(WHOLE)["jobs"]
    assert "!cancelled()" in jobs["join"]["if"]
    assert "cancelled" not in jobs["publish"]["if"]
    assert jobs["build"]["strategy"]["fail-fast"] == "false"


def test_without_a_target_and_a_key_there_is_nothing_to_publish():
    assert "publish" not in read(Pipeline(wheelsmith="wheelsmith==1"))["jobs"]
    signed = read(Pipeline(wheelsmith="wheelsmith==1", sign=True))["jobs"]["publish"]
    assert signed["name"] == "Sign"
    assert signed["steps"][-1]["with"]["name"] == "wheelsmith-signed"


def test_it_says_by_which_command_it_is_written():
    first = github_workflow(WHOLE).splitlines()[0]
    assert first == (
        "# Written by: wheelsmith ci github --shards 3 --wheelsmith 'wheelsmith[x]==1' --publish s3://wheels/kernels "
        "--locked --sign"
    )


@pytest.mark.parametrize(
    "words",
    [
        {"matrix": 'a"; rm -rf ~; "'},
        {"matrix": "$(id)"},
        {"wheelsmith": "x\ny"},
        {"publish": "s3://a/${{ secrets.X }}"},
        {"publish": "s3://`id`"},
        {"wheelsmith": "x' y"},
        {"matrix": "a\\b"},
        {"matrix": ""},
        {"shards": "3; id"},
        {"shards": "0"},
        {"python": "3.12 x"},
    ],
)
def test_a_word_that_could_say_something_else_is_refused(words):
    with pytest.raises(SettingError, match="cannot stand in a pipeline"):
        github_workflow(Pipeline(**{"wheelsmith": "wheelsmith==1", **words}))


def test_writing_it_again_shows_what_changed(tmp_path, monkeypatch, capsys):
    from command_line import run_command

    monkeypatch.chdir(tmp_path)

    def run(*argv):
        return run_command(monkeypatch, capsys, "ci", "github", *argv)

    assert run("--check").code == 1
    assert not (tmp_path / ".github").exists()
    assert run().code == 0
    again = run("--check")
    assert (again.code, again.out) == (0, "")
    changed = run("--sign")
    assert (changed.code, "+        run: wheelsmith sign dist --key env:WHEELSMITH_KEY" in changed.out) == (0, True)
    (tmp_path / "own.yml").write_text("name: mine\n")
    assert run("--output", "own.yml").code != 0
    assert (tmp_path / "own.yml").read_text() == "name: mine\n"
    assert run("--sign", "--output", "-").out == (tmp_path / ".github/workflows/wheels.yml").read_text()
