"""The pipelines that wheelsmith writes: pinned, without rights that nobody asked for, secrets in one job alone."""

import json
import re
import shlex
import tomllib
from dataclasses import replace

import pytest
import yaml
from command_line import run_command
from factory import ROOT

from wheelsmith.base.errors import SettingError
from wheelsmith.base.files import read_facts
from wheelsmith.plan.shards import Shard
from wheelsmith.report.pipelines import (
    KubernetesJobs,
    Pipeline,
    buildkite_pipeline,
    buildkite_shards,
    github_watch_workflow,
    github_workflow,
    gitlab_pipeline,
    kubernetes_jobs,
)
from wheelsmith.report.shards import format_shards

WHOLE = Pipeline(wheelsmith="wheelsmith-factory[x]", sign=True, publish="s3://wheels/kernels", locked=True, shards="3")
TESTED = replace(
    WHOLE,
    channel="test",
    url="https://wheels.example.org/kernels",
    project="tiny",
    test='python -c "import tiny" && true # {1: 2}',
    test_on=("gpu-a", "on"),
    promote="stable",
    require="passed",
)
KEYLESS = replace(TESTED, sign=False, keyless=True)
LEAST = Pipeline(wheelsmith="wheelsmith-factory==1", shards="3")
WATCH = Pipeline(wheelsmith="wheelsmith-factory==1", matrix="kernels/relu.v1.yaml", watch=True)
WRITERS = {"github": github_workflow, "gitlab": gitlab_pipeline, "buildkite": buildkite_pipeline}
SHARDS = (Shard(cells=("a",), seconds=1), Shard(cells=(), seconds=0), Shard(cells=("b",), seconds=1))
every_system = pytest.mark.parametrize("system", WRITERS)
SECRETS = ("WHEELSMITH_KEY", "AWS_")


def read(pipeline, system="github"):
    return yaml.load(WRITERS[system](pipeline), yaml.BaseLoader)


def steps(workflow):
    return [(name, step) for name, job in workflow["jobs"].items() for step in job["steps"]]


@pytest.mark.parametrize(
    "text",
    [*map(github_workflow, (WHOLE, TESTED, KEYLESS, LEAST)), github_watch_workflow(WATCH)],
    ids=["whole", "tested", "keyless", "least", "watch"],
)
def test_every_action_is_pinned_to_a_commit_that_is_told_of(text):
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
    for _, step in steps(read(TESTED)):
        assert "${{" not in step.get("run", "")


@every_system
def test_what_is_locked_is_planned_and_built_so(system):
    text = WRITERS[system](WHOLE) + buildkite_shards(WHOLE, SHARDS) * (system == "buildkite")
    commands = re.findall(r"wheelsmith (plan|build-matrix) --matrix \"matrix.yaml\"( --locked)?", text)
    assert commands == [("plan", " --locked"), ("build-matrix", " --locked")] + [("build-matrix", " --locked")] * (
        system == "buildkite"
    )


@every_system
@pytest.mark.parametrize(
    ("pipeline", "said"),
    [
        (LEAST, []),
        (WHOLE, ["sign", "publish"]),
        (Pipeline(wheelsmith="w", shards="3", sign=True), ["sign"]),
        (Pipeline(wheelsmith="w", shards="3", publish="hf://a/b"), ["publish"]),
    ],
    ids=["nothing", "both", "sign", "publish"],
)
def test_it_signs_and_publishes_what_is_asked_for(system, pipeline, said):
    assert re.findall(r"wheelsmith (sign|publish) [^=]", WRITERS[system](pipeline)) == said


@pytest.mark.parametrize(
    "words",
    [
        {"matrix": "$(id)"},
        {"wheelsmith": "x\ny"},
        {"publish": "s3://a/${{ secrets.X }}"},
        {"shards": "0"},
        {"url": "file:///x"},
        {"test": "echo 'x'"},
        {"test": "one\x85two"},
        {"test_on": ("gpu", "x] y")},
        {"promote": "stable --require nothing"},
    ],
)
@every_system
def test_a_word_that_could_say_something_else_is_refused(system, words):
    with pytest.raises(SettingError, match="cannot be used in a pipeline"):
        WRITERS[system](replace(TESTED, **words))


@pytest.mark.parametrize(
    ("system", "file", "line"),
    [
        ("github", ".github/workflows/wheels.yml", "        run: wheelsmith sign dist --key env:WHEELSMITH_KEY"),
        ("gitlab", ".gitlab-ci.yml", '    - wheelsmith sign dist --key "$WHEELSMITH_KEY"'),
        ("buildkite", ".buildkite/wheels.yml", "      wheelsmith sign dist --key env:WHEELSMITH_KEY"),
    ],
)
def test_writing_it_again_shows_what_changed(system, file, line, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)

    def run(*argv):
        return run_command(monkeypatch, capsys, "ci", system, "--wheelsmith", "wheelsmith-factory==1", *argv)

    assert run("--check").code == 1
    assert list(tmp_path.iterdir()) == []
    assert run().code == 0
    again = run("--check")
    assert (again.code, again.out) == (0, "")
    changed = run("--sign")
    assert (changed.code, f"+{line}" in changed.out.splitlines()) == (0, True)
    (tmp_path / "own.yml").write_text("name: mine\n")
    assert run("--output", "own.yml").code != 0
    assert (tmp_path / "own.yml").read_text() == "name: mine\n"
    written = (tmp_path / file).read_text()
    assert run("--sign", "--output", "-").out == written
    other = run("--matrix", "relu/matrix.yaml")
    assert (other.code != 0, f"{file} builds matrix.yaml, not relu/matrix.yaml" in other.err) == (True, True)
    assert (tmp_path / file).read_text() == written
    assert run("--matrix", "relu/matrix.yaml", "--output", "relu.yml").code == 0
    assert run("--output", "relu.yml").code != 0


# Without a key


@pytest.mark.parametrize("system", ["github", "gitlab"])
def test_without_a_key_only_the_job_after_join_has_a_token(system):
    tokens = {
        name: job.get("id_tokens", {}) or {"right": job.get("permissions", {}).get("id-token")}
        for name, job in jobs(system, KEYLESS).items()
        if "id_tokens" in job or "id-token" in str(job)
    }
    assert tokens == {
        "publish": {"right": "write"} if system == "github" else {"SIGSTORE_ID_TOKEN": {"aud": "sigstore"}}
    }
    assert "WHEELSMITH_KEY" not in WRITERS[system](KEYLESS)
    assert "id-token" not in str(jobs(system)).replace("_", "-")


@pytest.mark.parametrize("system", ["github", "gitlab"])
def test_without_a_key_an_address_needs_no_test(system):
    pipeline = Pipeline(wheelsmith="w", shards="3", keyless=True, publish="hf://a/b", url="https://example.org/")
    assert '--from dist --address "https://example.org/"' in WRITERS[system](pipeline)
    signed = WRITERS[system](replace(pipeline, publish=None, url=None))
    assert re.findall(r"wheelsmith (sign|publish) [^=]", signed) == ["sign"]


@pytest.mark.parametrize(
    ("url", "words"), [("http://wheels.example.org/k", "is not valid: "), ("https://[::1", "--url is not an address")]
)
def test_an_address_that_could_not_be_published_is_refused_before_anything_is_signed(url, words):
    with pytest.raises(SettingError, match=words):
        github_workflow(replace(KEYLESS, url=url))


def test_releases_of_github_are_written_with_the_token_of_the_job():
    target = "github://acme/kernels"
    found = {name: job for name, job in jobs("github", replace(TESTED, publish=target)).items() if target in str(job)}
    assert set(found) == {"publish", "promote"}
    for job in found.values():
        assert job["permissions"] == {"contents": "write"}
        assert "${{ secrets.GITHUB_TOKEN }}" in str(job)
    keyless = jobs("github", replace(KEYLESS, publish=target))["publish"]
    assert keyless["permissions"] == {"contents": "write", "id-token": "write"}


@every_system
@pytest.mark.parametrize(
    ("option", "address"),
    [
        ("publish", "s3://me:hunter2@b/p"),
        ("url", "https://h/w?token=hunter2"),
        ("wheelsmith", "wheelsmith-factory @ git+https://hunter2@h/w@v1"),
        ("wheelsmith", "wheelsmith-factory@https://me:hunter2@h/w.whl"),
    ],
)
def test_no_pipeline_has_a_password(system, option, address):
    with pytest.raises(SettingError) as refused:
        WRITERS[system](replace(TESTED, **{option: address}))
    assert "hunter2" not in f"{refused.value}{refused.value.remedy}"


@pytest.mark.parametrize("place", ["dist", "https://h/w"])
def test_a_pipeline_publishes_where_others_reach_it(place):
    with pytest.raises(SettingError, match="other machines"):
        github_workflow(replace(TESTED, publish=place))


@every_system
@pytest.mark.parametrize("where", ["@git+https://git.example.org/w@v1.2", f" @ https://h/w.whl#sha256={'a' * 64}"])
def test_wheelsmith_may_come_from_a_commit_or_a_hashed_file(system, where):
    where = f"wheelsmith-factory{where}"
    assert where in WRITERS[system](replace(TESTED, wheelsmith=where))


@every_system
def test_no_python_imports_from_the_folder_of_a_job(system):
    """What a kernel's repository, or a job that ran it, left there would have the secrets."""
    text = WRITERS[system](TESTED) + buildkite_shards(TESTED, SHARDS) * (system == "buildkite")
    started = re.findall(r"python\S* (?:-I )?-m \w+", text.partition("\n")[2].replace(TESTED.test, ""))
    assert started
    assert all(" -I " in each for each in started)


def test_on_buildkite_nothing_is_signed_without_a_key():
    with pytest.raises(SettingError, match="--keyless is not supported"):
        buildkite_pipeline(KEYLESS)


@pytest.mark.parametrize("system", ["github", "gitlab"])
def test_it_is_signed_in_one_way(system):
    with pytest.raises(SettingError, match="cannot be used together"):
        WRITERS[system](replace(WHOLE, keyless=True))


def test_what_pip_installs_for_it_are_the_extras_of_this_project():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    asked = {
        name: [each for each in extras[name] if "wheelsmith" not in each] for name in ("buckets", "sign", "keyless")
    }
    install = next(line for line in script(jobs("github", KEYLESS)["publish"]) if "pip install" in line)
    assert sorted(shlex.split(install)[7:]) == sorted([*asked["buckets"], *asked["sign"], *asked["keyless"]])
    install = next(line for line in script(jobs("github", TESTED)["publish"]) if "pip install" in line)
    assert sorted(shlex.split(install)[7:]) == sorted([*asked["buckets"], *asked["sign"]])


# Test and promote

JOBS = {
    "github": lambda read: dict(read["jobs"].items()),
    "gitlab": lambda read: {name.removeprefix("wheels:"): job for name, job in read.items()},
    "buildkite": lambda read: {
        each.get("key", each.get("label", "")).removeprefix("wheels-").lower(): each for each in read["steps"]
    },
}


def jobs(system, pipeline=TESTED):
    """Return the jobs of a pipeline by names that all systems share."""
    return JOBS[system](read(pipeline, system))


def script(job):
    """Return all that a job runs, a line each."""
    if "command" in job:
        return job["command"].replace("$$", "$").splitlines()
    lines = [*job.get("before_script", ()), *job["script"]] if "script" in job else []
    lines += [step["run"] for step in job.get("steps", ()) if "run" in step]
    return [line for text in lines for line in text.splitlines()]


def commands_of(job, *verbs):
    """Return the commands of wheelsmith's that a job runs, as a shell reads them."""
    text = "\n".join(script(job)).replace("\\\n", " ")
    found = [shlex.split(line) for line in text.splitlines() if line.startswith("wheelsmith ")]
    return [words[1:] for words in found if not verbs or words[1] in verbs]


@every_system
def test_each_runner_tests_in_a_job_without_secrets_what_was_published(system):
    found = jobs(system)
    for number, runner in enumerate(TESTED.test_on, 1):
        job = found[f"test-{number}"]
        assert runner in str({name: job[name] for name in ("runs-on", "tags", "agents") if name in job})
        assert not any(word in str(job) for word in ("secrets.", "environment", *SECRETS))
        file = f"wheel-tests/wheelsmith-test-{number}/test.json"
        tested = ["test", "tiny", "--of", "dist", "--index", "https://wheels.example.org/kernels/test"]
        assert commands_of(job) == [[*tested, "--output", file, "--", "sh", "-c", TESTED.test]]
    assert "test-3" not in found


@every_system
def test_the_last_job_records_and_promotes_what_every_test_job_left(system):
    job = jobs(system)["promote"]
    files = [f"wheel-tests/wheelsmith-test-{number}/test.json" for number in (1, 2)]
    said = ["index", "record-tests", "s3://wheels/kernels/test", "--of", "dist", *files]
    promoted = ["promote", "s3://wheels/kernels", "--of", "dist", "--from", "test", "--to", "stable"]
    assert commands_of(job) == [said, [*promoted, "--require", "passed"]]
    assert "'obstore>=0.11'" in "".join(script(job))
    assert "securesystemslib" not in "".join(script(job))
    assert "WHEELSMITH_KEY" not in str(job)
    published = commands_of(jobs(system)["publish"], "publish")
    assert published == [["publish", "s3://wheels/kernels", "--channel", "test", "--from", "dist"]]


def test_the_job_that_promotes_is_of_the_release_alone():
    github, gitlab, buildkite = (jobs(system)["promote"] for system in WRITERS)
    assert (github["environment"], github["permissions"]) == ("release", {})
    assert github["if"] == "${{ !cancelled() && needs.publish.result == 'success' }}"
    assert gitlab["rules"] == [{"if": "$CI_COMMIT_TAG =~ /^v/", "when": "always"}]
    assert gitlab["environment"] == {"name": "release"}
    assert buildkite["agents"] == {"queue": "release"}


@every_system
@pytest.mark.parametrize(
    ("without", "said"),
    [
        ({"publish": None}, "--channel needs --publish"),
        ({"promote": None, "require": "not-failed"}, "--test needs --promote"),
        (
            {"test": None, "url": None, "project": None, "promote": None, "require": "not-failed"},
            "--test-on needs --test",
        ),
        ({"promote": "test"}, "are the same channel: test"),
    ],
)
def test_options_of_which_one_says_nothing_without_another_are_refused(system, without, said):
    with pytest.raises(SettingError, match=said):
        WRITERS[system](replace(TESTED, **without))


@every_system
def test_what_is_tested_is_in_the_command_that_writes_it_again(system, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    words = shlex.split(WRITERS[system](TESTED).splitlines()[0].removeprefix("# Written by: wheelsmith "))
    assert run_command(monkeypatch, capsys, *words).code == 0
    again = run_command(monkeypatch, capsys, *words, "--check")
    assert (again.code, again.out) == (0, "")
    assert run_command(monkeypatch, capsys, *words, "--output", "-").out == WRITERS[system](TESTED)
    assert run_command(monkeypatch, capsys, *words, "--check", "--require", "tested").code == 1
    refused = run_command(monkeypatch, capsys, "ci", system, *words[2:6], "--promote", "stable")
    assert (refused.code, "--promote needs --test" in refused.err) == (2, True)


def test_buildkite_tests_nothing_where_the_secrets_are():
    with pytest.raises(SettingError, match="its agents have secrets"):
        buildkite_pipeline(replace(TESTED, test_on=("gpu", "release")))


# GitLab


def test_gitlab_has_to_know_how_many_jobs_there_are():
    for number, why in (("auto", "needs a fixed number of jobs"), ("201", "at most 200 parallel jobs")):
        with pytest.raises(SettingError, match=why):
            gitlab_pipeline(Pipeline(wheelsmith="wheelsmith-factory==1", shards=number))
    build = read(WHOLE, "gitlab")["wheels:build"]
    assert build["parallel"] == "3"
    assert '--shard "$CI_NODE_INDEX/$CI_NODE_TOTAL"' in build["script"][0]


def test_gitlab_sets_nothing_for_jobs_that_are_not_its_own():
    assert all(re.fullmatch(r"\.?wheels(:[\w-]+)?", name) for name in read(TESTED, "gitlab"))


def test_of_gitlabs_jobs_only_the_one_after_join_has_the_variables_of_the_release():
    """They are of its environment, which no other has."""
    jobs = read(WHOLE, "gitlab")
    assert {name for name, job in jobs.items() if "environment" in job} == {"wheels:publish"}
    assert {name for name, job in jobs.items() if any(word in str(job) for word in SECRETS)} == {"wheels:publish"}
    publish = jobs["wheels:publish"]
    assert publish["needs"] == ["wheels:join"]
    assert publish["rules"] == [{"if": "$CI_COMMIT_TAG =~ /^v/"}]
    assert not {"build-matrix", "join", "bwrap"} & set(
        " ".join([*publish["script"], *publish["before_script"]]).split()
    )


# Buildkite


def test_of_buildkites_steps_only_the_one_after_join_is_where_the_secrets_are():
    *others, publish = (step for step in read(WHOLE, "buildkite")["steps"] if "command" in step)
    others += yaml.load(buildkite_shards(WHOLE, SHARDS), yaml.BaseLoader)["steps"]
    assert (publish["agents"], publish["depends_on"], publish["if"]) == (
        {"queue": "release"},
        "wheels-join",
        "build.tag =~ /^v/",
    )
    assert "build-matrix" not in publish["command"]
    assert "allow_dependency_failure" not in publish
    assert not any("agents" in step for step in others)
    assert not any(word in str(step) for step in others for word in SECRETS)


def test_buildkite_builds_the_shards_that_have_something_to_build():
    steps = yaml.load(buildkite_shards(WHOLE, SHARDS), yaml.BaseLoader)["steps"]
    assert [step["label"] for step in steps] == ["Build 1/3", "Build 3/3"]
    assert [step["artifact_paths"] for step in steps] == ["shards/1/**/*", "shards/3/**/*"]
    assert "--shard 3/3 \\\n  --shard-plan wheelsmith.shards.json" in steps[1]["command"]


def test_buildkite_leaves_every_dollar_to_the_shell():
    for text in (buildkite_pipeline(TESTED), buildkite_shards(TESTED, SHARDS)):
        assert set(re.findall(r"\$+", text)) == {"$$"}


# aarch64

NATIVE = replace(WHOLE, aarch64_on="arm-runner")
OF_AARCH64 = (*SHARDS, Shard(cells=("c",), seconds=1, arch="aarch64"))


@every_system
def test_projects_for_aarch64_are_planned_and_built_on_a_runner_of_their_own(system):
    text = WRITERS[system](NATIVE)
    assert "--arch aarch64 --shards" in text
    assert "--add-plan wheelsmith.aarch64.json" in text
    assert "aarch64" not in WRITERS[system](WHOLE)
    assert f"--aarch64-on {NATIVE.aarch64_on}" in text.partition("\n")[0]


def test_github_builds_a_shard_for_aarch64_on_its_runner():
    jobs = read(NATIVE)["jobs"]
    assert [name for name, job in jobs.items() if job["runs-on"] == NATIVE.aarch64_on] == ["plan-aarch64"]
    assert jobs["plan"]["needs"] == "plan-aarch64"
    assert jobs["build"]["runs-on"] == "${{ matrix.arch == 'aarch64' && 'arm-runner' || 'ubuntu-latest' }}"
    assert json.loads(format_shards(OF_AARCH64, "github-matrix", ()))["include"][-1] == {
        "shard": "4/4",
        "number": 4,
        "arch": "aarch64",
    }


def test_gitlab_builds_as_many_shards_on_the_runner_for_aarch64():
    jobs = read(NATIVE, "gitlab")
    assert {name for name, job in jobs.items() if job.get("tags") == ["arm-runner"]} == {
        "wheels:plan-aarch64",
        "wheels:build-aarch64",
    }
    assert '--shard "$CI_NODE_INDEX/6"' in jobs["wheels:build"]["script"][0]
    assert '--shard "$((3 + CI_NODE_INDEX))/6"' in jobs["wheels:build-aarch64"]["script"][0]
    assert jobs["wheels:join"]["needs"] == ["wheels:plan", "wheels:build", "wheels:build-aarch64"]


def test_buildkite_builds_a_shard_for_aarch64_on_its_queue():
    built = yaml.load(buildkite_shards(NATIVE, OF_AARCH64), yaml.BaseLoader)["steps"]
    assert [step.get("agents") for step in built] == [None, None, {"queue": "arm-runner"}]
    first, second = read(NATIVE, "buildkite")["steps"][:2]
    assert (first["agents"], second["depends_on"]) == ({"queue": "arm-runner"}, first["key"])
    with pytest.raises(SettingError, match="queue release"):
        buildkite_pipeline(replace(WHOLE, aarch64_on="release"))


# Watch


def test_only_the_job_that_opens_the_pull_request_may_write_and_has_a_token():
    workflow = yaml.load(github_watch_workflow(WATCH), yaml.BaseLoader)
    assert workflow["permissions"] == {}
    assert {name: job["permissions"] for name, job in workflow["jobs"].items()} == {
        "bump": {"contents": "read"},
        "propose": {"contents": "write", "pull-requests": "write"},
    }
    with_token = [name for name, step in steps(workflow) if "github.token" in str(step) or "secrets." in str(step)]
    assert with_token == ["propose"]
    assert {str(step["with"].get("persist-credentials")) for _, step in steps(workflow) if "checkout" in str(step)} == {
        "false"
    }
    propose = " ".join(script(workflow["jobs"]["propose"]))
    assert not re.search(r"python|pip |wheelsmith ", propose)
    assert all("${{" not in step.get("run", "") for _, step in steps(workflow))


def test_a_pull_request_has_a_branch_for_each_matrix():
    workflow = yaml.load(github_watch_workflow(WATCH), yaml.BaseLoader)
    assert workflow["jobs"]["propose"]["steps"][-1]["env"]["BRANCH"] == "wheelsmith/bump-kernels-relu-v1"
    (bump,) = commands_of(workflow["jobs"]["bump"])
    expected = ["bump", "--all", "--matrix", "kernels/relu.v1.yaml", "--pull-request", "$RUNNER_TEMP/bump"]
    assert bump == [*expected, "||", "[", "$?", "-eq", "1", "]"]  # a kernel that cannot be planned
    assert Pipeline(wheelsmith="w").branch == "wheelsmith/bump-matrix"


@pytest.mark.parametrize("options", [{"publish": "hf://a/b"}, {"shards": "3"}, {"locked": True}, {"test_on": ("a",)}])
def test_what_watches_does_not_build(options):
    option = next(iter(options)).replace("_", "-")
    with pytest.raises(SettingError, match=f"--watch cannot be used with --{option}"):
        github_watch_workflow(replace(WATCH, **options))


def test_what_watches_is_a_file_of_its_own(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)

    def run(*argv):
        return run_command(monkeypatch, capsys, "ci", "github", "--wheelsmith", "wheelsmith-factory==1", *argv)

    file = tmp_path / ".github/workflows/wheels-watch.yml"
    assert (run("--watch", "--check").code, file.exists()) == (1, False)
    assert run("--watch").code == 0
    assert [path.name for path in file.parent.iterdir()] == [file.name]
    words = shlex.split(file.read_text().splitlines()[0].removeprefix("# Written by: wheelsmith "))
    assert run_command(monkeypatch, capsys, *words, "--check").code == 0
    assert run("--watch", "--python", "3.13", "--check").code == 1
    assert run("--watch", "--output", "-").out == file.read_text()


KUBERNETES = KubernetesJobs(
    image="example.org/a@sha256:" + 64 * "0", claim="wheels", matrix="matrix.yaml", locked=True, arch="x86_64",
    shard_plan="wheelsmith.shards.json", plan_digest="d" * 64,
    shards=(*SHARDS, Shard(cells=("c",), seconds=36000, arch="aarch64")),
)  # fmt: skip


def test_kubernetes_builds_the_shards_of_each_architecture_on_its_nodes():
    builds = [job for job in yaml.safe_load_all(kubernetes_jobs(KUBERNETES)) if job["spec"].get("completions")]
    pods = [job["spec"]["template"]["spec"] for job in builds]
    assert [job["spec"]["completions"] for job in builds] == [3, 1]
    assert [pod["nodeSelector"]["kubernetes.io/arch"] for pod in pods] == ["amd64", "arm64"]
    assert [pod["containers"][0]["args"][0].splitlines()[0] for pod in pods] == [
        f'shard="$((JOB_COMPLETION_INDEX + {first}))"' for first in (1, 4)
    ]


def test_kubernetes_gives_long_shards_more_cpus_within_a_limit():
    def asked(seconds):
        jobs = replace(KUBERNETES, shards=(Shard(cells=("a",), seconds=seconds),))
        [build, _] = yaml.safe_load_all(kubernetes_jobs(jobs))
        [container] = build["spec"]["template"]["spec"]["containers"]
        requests = container["resources"]["requests"]
        return requests["cpu"], requests["memory"], build["spec"]["template"]["spec"]["activeDeadlineSeconds"]

    assert asked(10) == ("2", "4Gi", 1815)
    assert asked(7200) == ("4", "8Gi", 7200)
    assert asked(10**6) == ("16", "32Gi", 189300)


@pytest.mark.parametrize(
    "changed",
    [{"image": "example.org/a:1"}, {"claim": 'a"b'}, {"matrix": "a $(b).yaml"}, {"matrix": "../a.yaml"}],
    ids=lambda each: next(iter(each)),
)
def test_kubernetes_takes_plain_values_and_an_image_with_a_digest(changed):
    with pytest.raises(SettingError, match=f"--{next(iter(changed))}|cannot be used"):
        kubernetes_jobs(replace(KUBERNETES, **changed))
