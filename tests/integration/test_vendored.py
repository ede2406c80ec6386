"""What was vendored is enough: without a network, and without a cache, the same wheel comes of it; and it is proven."""

import json
import os
import shutil
import subprocess
import sys
import zipfile

import pytest
import wants
from factory import Factory
from kernels import matrix, pure_kernel, tiny_kernel, write
from wheels import make_wheel

from wheelsmith.run.vendor import _MARK_TEXT

pytestmark = pytest.mark.xdist_group("vendored")

PYTHON = f"{sys.version_info[0]}.{sys.version_info[1]}"
GIT = ("git", "-c", "user.name=a", "-c", "user.email=a@b")
NOWHERE = ("unshare", "--net") if os.geteuid() == 0 else ("unshare", "--map-current-user", "--net")


@pytest.fixture
def factory(tmp_path):
    made = Factory.at(tmp_path)
    made.resolves_alone()
    return made


def offline(factory, *argv, **env):
    """Run a command where there is no network, with an empty cache."""
    cache = factory.folder / "empty"
    shutil.rmtree(cache, ignore_errors=True)
    own = factory.environment(WHEELSMITH_CACHE=str(cache), HF_HOME=str(cache / "hub"), **env)
    answer = subprocess.run(
        [*NOWHERE, *factory.command(*argv)], cwd=factory.folder, env=own, capture_output=True, text=True
    )
    assert "Traceback" not in answer.stderr, answer.stderr
    return answer


def in_git(repo):
    subprocess.run([*GIT, "init", "--quiet", "--initial-branch", "main"], cwd=repo, check=True)
    subprocess.run([*GIT, "add", "--all"], cwd=repo, check=True)
    subprocess.run([*GIT, "commit", "--quiet", "--message", "all"], cwd=repo, check=True)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A kernel of a repository that is gone, whose matrix was locked and vendored."""
    wants.program("unshare")
    wants.program("g++")
    factory = Factory.at(tmp_path_factory.mktemp("vendored"))
    script = tiny_kernel(factory.folder / "repo", **{"torch-ext/tiny/run.sh": "true\n"}) / "torch-ext/tiny/run.sh"
    script.chmod(0o755)
    in_git(factory.folder / "repo")
    text = "kernel: {git: repo, revision: main}\naxes: {torch: [2.13], cuda: [cpu]}\ntoolchain: host\n"
    (factory.folder / "matrix.yaml").write_text(text)
    for command in (("lock",), ("vendor",), ("build-matrix", "--locked", "--out", "online")):
        answer = factory.run(*command, "--engine", "bwrap")
        assert answer.returncode == 0, answer.stderr
    (factory.folder / "repo").rename(factory.folder / "gone")
    return factory


@pytest.fixture
def vendored(made, tmp_path):
    """One of its own, to spoil."""
    folder = tmp_path / "copy"
    shutil.copytree(made.folder, folder, symlinks=True)
    return Factory(folder=folder, cache=folder / "cache")


BUILD = ("build-matrix", "--locked", "--offline", "--engine", "bwrap")


@pytest.mark.network
@pytest.mark.release("builds twice, without a network the second time")
def test_the_same_wheel_comes_of_what_was_vendored(vendored):
    answer = offline(vendored, *BUILD)
    assert answer.returncode == 0, answer.stderr
    assert vendored.hashes() == vendored.hashes("online")
    folder = vendored.folder / "wheelsmith.vendor"
    assert (folder / "source/files/torch-ext/tiny/run.sh").stat().st_mode & 0o100
    # Of torch's wheel of half a gigabyte, its headers.
    assert sum(path.stat().st_size for path in folder.rglob("*.whl")) < 20 << 20
    # It is no source, and what is there already is not fetched again.
    again = offline(vendored, "plan", "--locked", "--offline", "--engine", "bwrap")
    assert again.returncode == 0, again.stderr


@pytest.mark.release("locks, vendors and builds a kernel first")
@pytest.mark.network
def test_what_was_changed_in_the_folder_is_refused_by_name(vendored):
    folder = vendored.folder / "wheelsmith.vendor"
    source = folder / "source/files/tiny.cpp"
    source.write_text(source.read_text().replace("42", "43"))
    answer = offline(vendored, *BUILD)
    assert (answer.returncode, "have changed since they were vendored" in answer.stderr) == (4, True), answer.stderr
    # Whoever changes the digest beside it, too, is told by the lock.
    identity = folder / "source/source.json"
    data = json.loads(identity.read_text())
    from wheelsmith.source.tree import make_tree, walk

    data["tree"] = make_tree(walk(folder / "source/files"), origin="path").id.tree
    identity.write_text(json.dumps(data))
    answer = offline(vendored, *BUILD)
    assert answer.returncode == 2
    assert "the files of git:repo" in answer.stderr, answer.stderr


@pytest.mark.release("a folder is vendored for each; two of them are quick")
@pytest.mark.network
def test_a_changed_header_is_refused_by_name(vendored):
    (part,) = (vendored.folder / "wheelsmith.vendor/parts").rglob("*.whl")
    with zipfile.ZipFile(part) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    changed = next(name for name in files if name.endswith("torch/library.h"))
    files[changed] += b"// evil\n"
    with zipfile.ZipFile(part, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    answer = offline(vendored, *BUILD)
    assert answer.returncode == 1
    assert f"{changed} differs from RECORD" in answer.stderr
    part.unlink()
    missing = offline(vendored, *BUILD)
    assert (missing.returncode, "help: run wheelsmith vendor" in missing.stderr) == (1, True), missing.stderr


BACKEND = """\
import helper


def build_wheel(to, settings=None, metadata=None):
    raise SystemExit("helper is there")
"""


@pytest.fixture
def project(factory):
    wants.program("unshare")
    index = factory.folder / "index"
    make_wheel(index, "torch", "2.13.0")
    make_wheel(index, "helper", "1.0")
    pyproject = (
        '[project]\nname = "p"\nversion = "1"\n'
        '[build-system]\nrequires = ["helper"]\nbuild-backend = "own"\nbackend-path = ["."]\n'
    )
    write(factory.folder / "p", {"pyproject.toml": pyproject, "own.py": BACKEND})
    (factory.folder / "matrix.yaml").write_text(
        f"kernel: {{path: p}}\naxes: {{torch: [2.13], cuda: [cpu], python: [{PYTHON}]}}\ntoolchain: host\n"
    )
    where = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(index), "PIP_CONFIG_FILE": "/dev/null"}
    for command in ("lock", "vendor"):
        answer = factory.run(command, "--engine", "bwrap", **where)
        assert answer.returncode == 0, answer.stderr
    shutil.rmtree(index)
    return factory


@pytest.mark.release("a folder is vendored for each; two of them are quick")
def test_a_projects_environment_comes_out_of_the_folder(project, tmp_path):
    """Also where a path has a space, and whatever else pip would be told or find there."""
    wheels = project.folder / "wheelsmith.vendor/wheels"
    assert sorted(path.name.partition("-")[0] for path in wheels.iterdir()) == ["helper", "torch"]
    (wheels / "links.html").write_text('<a href="http://127.0.0.1:1/helper-1.0-py3-none-any.whl">helper</a>')
    os.mkfifo(wheels / "helper-1.0-py2-none-any.whl")
    (wheels / "helper-1.0-py3-none-linux_x86_64.whl").symlink_to("/dev/zero")
    there = tmp_path / "a folder"
    there.mkdir()
    for name in ("p", "matrix.yaml", "wheelsmith.lock", "wheelsmith.lock.d", "wheelsmith.vendor"):
        (project.folder / name).rename(there / name)
    elsewhere = Factory(folder=there, cache=there / "cache")
    answer = offline(elsewhere, *BUILD, PIP_CONSTRAINT="http://127.0.0.1:1/c.txt", PIP_REQUIREMENT="/nothing.txt")
    log = next((there / "dist/logs").glob("*.log")).read_text()
    assert (answer.returncode, "helper is there" in log) == (1, True), answer.stderr


@pytest.mark.release("a folder is vendored for each; two of them are quick")
def test_a_changed_wheel_of_an_environment_is_refused_by_name(project):
    helper = next((project.folder / "wheelsmith.vendor/wheels").glob("helper*"))
    helper.write_bytes(b"PK" + helper.read_bytes())
    changed = offline(project, *BUILD)
    assert changed.returncode == 1
    assert "helper 1.0 (sha256" in changed.stderr
    assert "is not in the vendored folder" in changed.stderr


SET = """\
axes: {torch: [2.13], cuda: [cpu]}
kernels:
  one: {git: one, revision: main}
  two: {git: two, revision: main, distribution: two, module: two}
"""


def test_the_sources_of_all_kernels_of_a_set_come_out_of_the_folder(factory):
    for name in ("one", "two"):
        in_git(pure_kernel(factory.folder / name))
    (factory.folder / "matrix.yaml").write_text(SET)
    for command in ("lock", "vendor"):
        answer = factory.run(command, "--engine", "local")
        assert answer.returncode == 0, answer.stderr
    for name in ("one", "two"):
        (factory.folder / name).rename(factory.folder / f"gone-{name}")
    answer = offline(factory, "build-matrix", "--locked", "--offline", "--engine", "local")
    assert answer.returncode == 0, answer.stderr
    assert len(list((factory.folder / "dist/wheels").glob("*.whl"))) == 2


@pytest.mark.release("a folder is vendored for each; two of them are quick")
def test_another_origin_or_revision_than_the_matrixs_is_refused(vendored):
    identity = vendored.folder / "wheelsmith.vendor/source/source.json"
    honest = identity.read_text()
    for key, value in (("origin", "hub:evil/other"), ("origin", "git:\ud800"), ("commit", "\n")):
        identity.write_text(json.dumps({**json.loads(honest), key: value}))
        answer = offline(vendored, "plan", "--locked", "--offline", "--engine", "bwrap")
        assert answer.returncode in {2, 4}, (key, value, answer.stderr)
    identity.write_text(honest)
    path = vendored.folder / "matrix.yaml"
    path.write_text(path.read_text().replace("revision: main", "revision: other"))
    answer = offline(vendored, "plan", "--offline", "--engine", "bwrap")
    assert (answer.returncode, "of another kernel or revision" in answer.stderr) == (4, True), answer.stderr


@pytest.mark.release("a folder is vendored for each; two of them are quick")
def test_what_is_vendored_or_left_of_it_is_no_source(factory):
    pure_kernel(factory.folder)
    (factory.folder / "matrix.yaml").write_text("kernel: {path: .}\naxes: {torch: [2.13], cuda: [cpu]}\n")

    def digest():
        (plan,) = json.loads(factory.run("plan", "--engine", "local", "--json").stdout)["plans"]
        return plan["source"]["tree"]

    before = digest()
    assert factory.run("lock", "--engine", "local").returncode == 0
    for folder in ((), ("offline",)):
        answer = factory.run("vendor", "--engine", "local", *folder)
        assert answer.returncode == 0, answer.stderr
    for name in (".wheelsmith.vendor.part", ".wheelsmith.vendor.old", ".offline.part"):
        shutil.copytree(factory.folder / "offline", factory.folder / name)
    assert digest() == before
    # What a killed run left is put right by the next one.
    shutil.rmtree(factory.folder / "offline")
    (factory.folder / ".offline.part").rename(factory.folder / ".offline.old")
    assert factory.run("vendor", "--engine", "local", "offline").returncode == 0
    assert not list(factory.folder.glob(".offline*"))


@pytest.mark.release("a folder is vendored for each; two of them are quick")
def test_a_folder_of_somebody_else_is_left_alone(factory):
    pure_kernel(factory.folder / "k")
    matrix(factory.folder, "k")
    assert factory.run("lock", "--engine", "local").returncode == 0
    (factory.folder / "mine").mkdir()
    for name in ("thesis.txt", "README.txt", "wheelsmith-vendored.txt"):
        (factory.folder / "mine" / name).write_text("all")
        for folder in ("mine", "."):
            refused = factory.run("vendor", "--engine", "local", folder)
            assert (refused.returncode, "was not written by wheelsmith vendor" in refused.stderr) == (2, True)
    assert (factory.folder / "mine" / "thesis.txt").read_text() == "all"


@pytest.mark.release("a folder is vendored for each; two of them are quick")
@pytest.mark.parametrize("left", [(), (".scratch-1/x",), (".scratch-1/x", "wheelsmith-vendored.txt", "parts/a/b")])
def test_what_a_killed_run_left_is_in_nobodys_way(factory, left):
    pure_kernel(factory.folder / "k")
    matrix(factory.folder, "k")
    assert factory.run("lock", "--engine", "local").returncode == 0
    part = factory.folder / ".wheelsmith.vendor.part"
    part.mkdir()
    for name in left:
        (part / name).parent.mkdir(parents=True, exist_ok=True)
        (part / name).write_text(_MARK_TEXT)
    answer = factory.run("vendor", "--engine", "local")
    assert answer.returncode == 0, answer.stderr
    assert not part.exists()


@pytest.mark.release("a folder is vendored for each; two of them are quick")
@pytest.mark.parametrize("place", ["/", "matrix.yaml", "link"])
def test_what_is_no_folder_to_replace(factory, place):
    pure_kernel(factory.folder / "k")
    matrix(factory.folder, "k")
    assert factory.run("lock", "--engine", "local").returncode == 0
    (factory.folder / "link").symlink_to(factory.folder / "k")
    answer = factory.run("vendor", "--engine", "local", place)
    assert (answer.returncode, "choose another folder" in answer.stderr) == (2, True), answer.stderr


def test_offline_nobody_is_asked(factory):
    (factory.folder / "matrix.yaml").write_text(
        "kernel: {git: 'https://127.0.0.1:1/x.git', revision: main}\naxes: {torch: [2.13], cuda: [cpu]}\n"
    )
    answer = factory.run("plan", "--offline", "--engine", "local")
    assert (answer.returncode, "wheelsmith is offline" in answer.stderr) == (4, True), answer.stderr
