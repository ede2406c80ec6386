"""The workflow that looks for newer releases, run by act: it opens a pull request, and updates it while it is open."""

import json
import os
import subprocess
import sys
import sysconfig

import pytest
import wants
from factory import Factory
from kernels import pure_kernel, tiny_kernel
from run_github import run_act

from wheelsmith.base.distribution import DISTRIBUTION
from wheelsmith.frameworks import torch_releases

pytestmark = pytest.mark.release("act is another people's program")

GIT = ("git", "-c", "user.name=a", "-c", "user.email=a@example.org")
NEWEST = list(torch_releases())[-1]
BRANCH = "wheelsmith/bump-matrix"
MATRIX = """\
axes: {{torch: [2.11, 2.13], cuda: [cpu]}}  # what our users run
kernels:
  tiny: {{path: tiny, toolchain: host}}
  pure: {{git: {pure}, revision: v1.0}}
"""
# It keeps what it is asked for, and knows whether the pull request is open.
GH = """\
#!{python}
import json, os, pathlib, sys
folder, argv = pathlib.Path({folder!r}), sys.argv[1:]
assert os.environ["GH_TOKEN"] == "hush"
options = dict(zip(argv[3 if argv[1] == "edit" else 2::2], argv[4 if argv[1] == "edit" else 3::2]))
body = pathlib.Path(options["--body-file"]).read_text() if "--body-file" in options else ""
with (folder / "gh.jsonl").open("a") as log:
    log.write(json.dumps([argv[:2], options, body]) + "\\n")
if argv[:2] == ["pr", "create"]:
    (folder / "open").touch()
if argv[:2] == ["pr", "view"]:
    sys.exit("no pull requests found") if not (folder / "open").exists() else print("OPEN")
"""
# Only the job that opens the pull request may have a token.
WHEELSMITH = """\
#!/bin/sh
[ -z "$GH_TOKEN" ] || exit 9
exec "{python}" -m wheelsmith "$@"
"""


def git(folder, *argv):
    return subprocess.run([*GIT, *argv], cwd=folder, check=True, capture_output=True, text=True).stdout


def program(path, text):
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def upstream(folder):
    """A kernel in a git repository with a version, and a function that releases another."""
    pure_kernel(folder)
    git(folder, "init", "-q")
    git(folder, "add", "-A")

    def release(version):
        git(folder, "commit", "-q", "--allow-empty", "-m", version)
        git(folder, "tag", version)

    return release


@pytest.fixture
def repository(tmp_path):
    """A locked set with its workflow, pushed to a repository that only this machine has."""
    for name in ("git", "g++"):
        wants.program(name)
    factory = Factory.at(tmp_path / "repository")
    (factory.folder / ".gitignore").write_text("cache\n")
    tiny_kernel(factory.folder / "tiny")
    release = upstream(tmp_path / "pure")
    release("v1.0")
    (factory.folder / "matrix.yaml").write_text(MATRIX.format(pure=tmp_path / "pure"))
    for argv in (("lock",), ("ci", "github", "--watch", "--wheelsmith", DISTRIBUTION)):
        answer = factory.run(*argv)
        assert answer.returncode == 0, answer.stderr
    git(tmp_path, "init", "-q", "--bare", "remote.git")
    git(factory.folder, "init", "-q", "--initial-branch", "main")
    git(factory.folder, "add", "-A")
    git(factory.folder, "commit", "-q", "-m", "x")
    git(factory.folder, "remote", "add", "origin", str(tmp_path / "remote.git"))
    git(factory.folder, "push", "-q", "origin", "main")
    program(tmp_path / "bin" / "gh", GH.format(python=sys.executable, folder=str(tmp_path)))
    program(tmp_path / "bin" / "wheelsmith", WHEELSMITH.format(python=sys.executable))
    (tmp_path / "artifacts").mkdir()
    return factory, release


def watch(factory):
    """Run the workflow, and return what gh was asked for."""
    folder = factory.folder.parent
    asked = folder / "gh.jsonl"
    asked.write_text("")
    path = f"{folder / 'bin'}:{sysconfig.get_path('scripts')}:{os.environ['PATH']}"
    clean = {name: text for name, text in os.environ.items() if not name.startswith("CI")}
    ended = run_act(
        *("workflow_dispatch", "--workflows=.github/workflows/wheels-watch.yml", "--secret=GITHUB_TOKEN=hush"),
        repository=factory.folder,
        given={"ARTIFACTS": str(folder / "artifacts"), "WHEELSMITH_CACHE": str(factory.cache), "RESET": "1"},
        environment=clean | {"HOME": str(folder), "PATH": path, "XDG_CACHE_HOME": str(folder / "act")},
    )
    assert ended.code == 0, ended.text[-5000:]
    git(factory.folder, "switch", "-q", "--force-create", "main", "origin/main")
    git(factory.folder, "update-ref", "-d", f"refs/heads/{BRANCH}")
    return [json.loads(line) for line in asked.read_text().splitlines()]


def test_a_pull_request_is_opened_and_updated(repository):
    factory, release = repository
    asked = watch(factory)
    assert [words for words, *_ in asked] == [["auth", "setup-git"], ["pr", "view"], ["pr", "create"]]
    _, options, body = asked[-1]
    title = f"Take torch {NEWEST}"
    assert (options["--title"], options["--head"], options["--base"]) == (title, BRANCH, "main")
    assert f"- torch {NEWEST}\n" in body
    assert "\n| tiny | ✓ | ✓ | **✓ new** |\n" in body
    remote = factory.folder.parent / "remote.git"
    changed = git(remote, "diff", "--stat", "main", BRANCH)
    assert [line.split()[0] for line in changed.splitlines()[:-1]] == ["matrix.yaml", "wheelsmith.lock"]
    assert f"torch: [2.11, 2.13, {NEWEST}]" in git(remote, "show", f"{BRANCH}:matrix.yaml")
    assert git(remote, "log", "-1", "--format=%s", BRANCH).strip() == title
    release("v1.1")
    asked = watch(factory)
    assert [words for words, *_ in asked] == [["auth", "setup-git"], ["pr", "view"], ["pr", "edit"]]
    assert asked[-1][1]["--title"] == f"{title} and pure v1.1 instead of v1.0"
    assert "revision: v1.1" in git(remote, "show", f"{BRANCH}:matrix.yaml")
    assert git(remote, "rev-list", "--count", f"main..{BRANCH}").strip() == "1"


def test_without_news_there_is_no_pull_request(repository):
    factory, _ = repository
    answer = factory.run("bump", "--all")
    assert answer.returncode == 0, answer.stderr
    git(factory.folder, "commit", "-q", "--all", "-m", "take it")
    git(factory.folder, "push", "-q", "origin", "main")
    assert watch(factory) == []
