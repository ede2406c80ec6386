"""A lock: what a matrix is built from stays, is asked for no more, and what does not hold is refused by its name."""

import hashlib
import shutil
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path

import pytest
from factory import Factory
from kernels import matrix, pure_kernel, tiny_kernel, write
from packaging.pylock import Pylock
from wheels import make_wheel

PYTHON = f"{sys.version_info[0]}.{sys.version_info[1]}"
GIT = ("git", "-c", "user.name=a", "-c", "user.email=a@b")


def commit(repo):
    subprocess.run([*GIT, "add", "--all"], cwd=repo, check=True)
    subprocess.run([*GIT, "commit", "--quiet", "--message", "more"], cwd=repo, check=True)


@pytest.fixture
def factory(tmp_path):
    made = Factory.at(tmp_path)
    made.resolves_alone()
    return made


@pytest.fixture
def kernel(factory):
    """A kernel in a git repository, on a branch."""
    repo = pure_kernel(factory.folder / "repo")
    subprocess.run([*GIT, "init", "--quiet", "--initial-branch", "main"], cwd=repo, check=True)
    commit(repo)
    axes = "axes: {torch: [2.13], cuda: [cpu]}\n"
    (factory.folder / "matrix.yaml").write_text(f"kernel: {{git: repo, revision: main}}\n{axes}")
    return repo


class SimpleIndex:
    """A package index in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.yanked: set[str] = set()
        make_wheel(folder / "files", "torch", "2.13.0")

    def write(self) -> dict[str, str]:
        """Write its pages; return how pip finds it."""
        for wheel in (self.folder / "files").glob("*.whl"):
            page = self.folder / "simple" / wheel.name.partition("-")[0] / "index.html"
            page.parent.mkdir(parents=True, exist_ok=True)
            page.write_text("")
        for wheel in sorted((self.folder / "files").glob("*.whl")):
            name = wheel.name.partition("-")[0]
            digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
            yanked = 'data-yanked="it is broken"' if wheel.name in self.yanked else ""
            with (self.folder / "simple" / name / "index.html").open("a") as page:
                page.write(f'<a href="../../files/{wheel.name}#sha256={digest}" {yanked}>{wheel.name}</a><br>\n')
        return {
            "PIP_INDEX_URL": f"file://{self.folder}/simple",
            "PIP_EXTRA_INDEX_URL": "",
            "PIP_FIND_LINKS": "",
            "PIP_CONFIG_FILE": "/dev/null",
        }


@pytest.fixture
def index(factory):
    """What a project's build system needs, on an index."""
    made = SimpleIndex(factory.folder / "index")
    make_wheel(made.folder / "files", "helper", "1.0")
    pyproject = '[project]\nname = "p"\nversion = "1"\n[build-system]\nrequires = ["helper"]\nbuild-backend = "evil"\n'
    write(factory.folder / "p", {"pyproject.toml": pyproject})
    axes = f"axes: {{torch: [2.13], cuda: [cpu], python: [{PYTHON}]}}\n"
    (factory.folder / "matrix.yaml").write_text(f"kernel: {{path: p}}\n{axes}")
    return made


def read(factory):
    return tomllib.loads((factory.folder / "wheelsmith.lock").read_text())


def test_a_branch_stays_where_it_was_until_it_is_upgraded(factory, kernel):
    assert factory.run_in_process("lock", "--engine", "local").returncode == 0
    locked = read(factory)["source"]
    (kernel / "torch-ext/pure/__init__.py").write_text("VALUE = 2\n")
    commit(kernel)
    plan = factory.run_in_process("plan", "--engine", "local", "--json")
    assert (plan.returncode, locked["commit"] in plan.stdout, '"revision": "main"' in plan.stdout) == (0, True, True)
    refused = factory.run_in_process("plan", "--engine", "local", "--locked")
    assert refused.returncode == 2
    assert f"git:repo main has moved from {locked['commit'][:12]} to {head(kernel)[:12]}" in refused.stderr
    assert factory.run_in_process("lock", "--engine", "local").returncode == 0
    assert read(factory)["source"] == locked
    assert factory.run_in_process("lock", "--engine", "local", "--upgrade").returncode == 0
    assert read(factory)["source"]["commit"] == head(kernel)
    assert factory.run_in_process("plan", "--engine", "local", "--locked").returncode == 0


def head(repo):
    told = subprocess.run(["git", "rev-parse", "HEAD"], cwd=repo, capture_output=True, text=True, check=True)
    return told.stdout.strip()


def test_a_pin_that_is_another_now_is_named(factory):
    tiny_kernel(factory.folder / "k")
    matrix(factory.folder, "k")
    assert factory.run_in_process("lock", "--engine", "local").returncode == 0
    path, name = factory.folder / "wheelsmith.lock", "compilers gcc-12.2.0-manylinux_2_28 for x86_64"
    known = read(factory)["pins"]
    assert name in known
    path.write_text(path.read_text().replace(known[name], "0" * 64))
    said = f"wheelsmith.lock: {name} is now {known[name][:12]}, was 000000000000"
    warned = factory.run_in_process("plan", "--engine", "local")
    assert (warned.returncode, f"warning: {said}" in warned.stderr) == (0, True)
    refused = factory.run_in_process("plan", "--engine", "local", "--locked")
    assert (refused.returncode, f"error: {said}" in refused.stderr) == (2, True)
    # What is locked and not needed for the cells that were asked for is no difference.
    only = factory.run_in_process("plan", "--engine", "local", "--locked", "--skip", "*")
    assert only.returncode == 3, only.stderr


def test_without_a_lock_there_is_nothing_to_keep_to(factory, kernel):
    refused = factory.run_in_process("plan", "--engine", "local", "--locked")
    assert refused.returncode == 2
    assert "wheelsmith.lock: there is no lock file" in refused.stderr
    assert "help: create it: wheelsmith lock" in refused.stderr


@pytest.mark.release("other tools resolve the environments again")
def test_environments_are_pylocks_that_others_can_read_and_stay(factory, index):
    found = index.write()
    assert factory.run_in_process("lock", "--engine", "local", **found).returncode == 0
    (environment,) = read(factory)["environments"]
    path = factory.folder / "wheelsmith.lock.d" / f"pylock.{environment['name']}.toml"
    pylock = Pylock.from_dict(tomllib.loads(path.read_text()))
    pylock.validate()
    assert [(package.name, str(package.version)) for package in pylock.packages] == [
        ("helper", "1.0"),
        ("torch", "2.13.0"),
    ]
    make_wheel(index.folder / "files", "helper", "2.0")
    index.write()
    shutil.rmtree(factory.cache / "locks")
    plan = factory.run_in_process("plan", "--engine", "local", "--json", **found)
    assert '"version": "1.0"' in plan.stdout
    assert factory.run_in_process("plan", "--engine", "local", "--locked", **found).returncode == 0
    nobody = factory.run_in_process("lock", "--engine", "local", "--upgrade-package", "other", **found)
    assert "no locked environment contains 'other'" in nobody.stderr
    upgraded = factory.run_in_process("lock", "--engine", "local", "--upgrade-package", "helper", **found)
    assert f"changed: helper of {environment['name']} is now 2.0, was 1.0" in upgraded.stderr
    assert "2.0" in path.read_text()


def test_what_an_index_took_back_or_replaced_is_refused_by_name(factory, index):
    found = index.write()
    assert factory.run_in_process("lock", "--engine", "local", **found).returncode == 0
    index.yanked.add("helper-1.0-py3-none-any.whl")
    index.write()
    yanked = factory.run_in_process("plan", "--engine", "local", "--locked", **found)
    assert (yanked.returncode, "helper 1.0 of" in yanked.stderr, "was yanked" in yanked.stderr) == (2, True, True)
    index.yanked.clear()
    make_wheel(index.folder / "files", "helper", "1.0", files={"more.py": b""})
    index.write()
    replaced = factory.run_in_process("plan", "--engine", "local", "--locked", **found)
    assert replaced.returncode == 2
    assert "helper==1.0 was replaced on the index: its sha256 differs" in replaced.stderr
    (index.folder / "files" / "helper-1.0-py3-none-any.whl").unlink()
    index.write()
    (index.folder / "simple" / "helper" / "index.html").write_text("")
    gone = factory.run_in_process("plan", "--engine", "local", "--locked", **found)
    assert gone.returncode == 2
    assert "helper" in gone.stderr


@pytest.mark.parametrize(
    "text",
    [
        "version = 2\npins = {}\n",
        "version = [\n",
        "version = 1\n[source]\nkernel = 3\n",
        'version = 1\n[[environments]]\nname = "../../x"\n',
        'version = 1\n[[environments]]\nname = "gone"\nrequirements = []\nrather = []\npython = "3.12"\narch = "x"\n',
        "a = " + "[" * 100_000,
        'version = 1\n[source]\nkernel = "git:repo"\ncommit = "HEAD"\ntree = "x"\n',
        'version = 1\n[[environments]]\nname = "a"\n[[environments]]\nname = "a"\n',
    ],
)
def test_a_lock_that_cannot_be_read_is_one_message(factory, kernel, text):
    (factory.folder / "wheelsmith.lock").write_text(text)
    answer = factory.run_in_process("plan", "--engine", "local")
    assert answer.returncode == 2
    assert answer.stderr.startswith("error: wheelsmith.lock:")
    assert len(answer.stderr) < 1000


def test_a_lock_in_the_kernels_own_folder_is_no_source(factory):
    pure_kernel(factory.folder)
    matrix(factory.folder, ".")
    before = factory.run_in_process("plan", "--engine", "local", "--json").stdout
    assert factory.run_in_process("lock", "--engine", "local").returncode == 0
    (factory.folder / "wheelsmith.lock.d").mkdir()
    (factory.folder / "wheelsmith.lock.d" / "pylock.x.toml").touch()
    assert factory.run_in_process("plan", "--engine", "local", "--json").stdout == before
    assert read(factory) == {"version": 1, "cells": ["torch213-cxx11-cpu-x86_64-linux"], "pins": {}, "environments": []}


def test_an_archive_that_was_replaced_is_refused(factory):
    kernel = pure_kernel(factory.folder / "k")
    pack(kernel, factory.folder / "k.tar.gz")
    matrix(factory.folder, "k.tar.gz")
    assert factory.run_in_process("lock", "--engine", "local").returncode == 0
    assert factory.run_in_process("plan", "--engine", "local", "--locked").returncode == 0
    locked = read(factory)["source"]["commit"]
    (kernel / "torch-ext/pure/__init__.py").write_text("VALUE = 3\n")
    pack(kernel, factory.folder / "k.tar.gz")
    refused = factory.run_in_process("plan", "--engine", "local", "--locked")
    assert refused.returncode == 2
    assert f"path:k.tar.gz has moved from {locked[:12]} to {sha256(factory.folder / 'k.tar.gz')[:12]}" in refused.stderr


def pack(folder, path):
    with tarfile.open(path, "w:gz") as archive:
        archive.add(folder, "k-1")


def sha256(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('sha256 = "', 'sha256 = "x\\n--index-url https://evil.invalid\\n'),
        ('name = "helper"', 'name = "another"'),
    ],
)
def test_an_environment_that_was_tampered_with_is_not_read(factory, index, old, new):
    """What stands there becomes part of what pip is told."""
    found = index.write()
    assert factory.run_in_process("lock", "--engine", "local", **found).returncode == 0
    (path,) = (factory.folder / "wheelsmith.lock.d").iterdir()
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new, 1))
    for more in ((), ("--locked",)):
        answer = factory.run_in_process("plan", "--engine", "local", *more, **found)
        assert answer.returncode == 2
        assert answer.stderr.startswith("error: wheelsmith.lock: it cannot be read: ")


def test_another_kernel_or_another_cell_is_not_what_was_locked(factory, kernel):
    assert factory.run_in_process("lock", "--engine", "local").returncode == 0
    path = factory.folder / "matrix.yaml"
    text = path.read_text()
    path.write_text(text.replace("[2.13]", "[2.13, 2.12]"))
    more = factory.run_in_process("plan", "--engine", "local", "--locked")
    assert (more.returncode, "torch212-cxx11-cpu-x86_64-linux is not in it" in more.stderr) == (2, True)
    path.write_text(text.replace("{git: repo, revision: main}", "{path: repo}"))
    other = factory.run_in_process("plan", "--engine", "local", "--locked")
    assert (other.returncode, "it locks git:repo, but the matrix builds a folder" in other.stderr) == (2, True)


@pytest.mark.release("environments are resolved several times")
def test_an_index_that_cannot_be_asked_costs_nothing_that_is_locked(factory, index):
    found = index.write()
    assert factory.run_in_process("lock", "--engine", "local", **found).returncode == 0
    before = {path: path.read_bytes() for path in factory.folder.rglob("*lock*") if path.is_file()}
    answer = factory.run_in_process(
        "lock", "--engine", "local", "--upgrade", **{**found, "PIP_INDEX_URL": "file:///nowhere"}
    )
    assert answer.returncode == 2
    assert "was locked and cannot be planned now: " in answer.stderr
    assert {path: path.read_bytes() for path in before} == before


def test_nobodys_password_is_locked(factory, kernel):
    repo = f"file://user:SECRET@localhost{kernel}"
    path = factory.folder / "matrix.yaml"
    path.write_text(path.read_text().replace("git: repo", f'git: "{repo}"'))
    assert factory.run_in_process("lock", "--engine", "local").returncode == 0
    assert "SECRET" not in (factory.folder / "wheelsmith.lock").read_text()
    assert factory.run_in_process("plan", "--engine", "local", "--locked").returncode == 0
