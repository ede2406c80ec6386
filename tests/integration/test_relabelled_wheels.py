"""Relabelled wheels are the proven bytes but for the version: an index takes them, and installers find them."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import wants
from factory import Factory
from kernels import matrix, tiny_kernel, write
from loopback import serving_files
from upload_server import upload_server
from wheels import make_wheel

pytestmark = pytest.mark.xdist_group("relabelled wheels")

UV = [Path(sys.executable).with_name("uv"), "pip", "install", "--no-config", "--no-cache"]
PIP = [sys.executable, "-m", "pip", "install", "--no-cache-dir", "--isolated"]
ONE = "--only", "torch213-*"
DAO = "{name}-{version}+cu{cuda_major}torch{torch}cxx11abi{abi}-{python}-{python}-linux_{arch}.whl"
HERE = f"cp3{sys.version_info[1]}"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A compiled kernel, built for two torches."""
    wants.program("g++")
    factory = Factory.at(tmp_path_factory.mktemp("relabelled"))
    tiny_kernel(factory.folder / "k")
    matrix(factory.folder, "k", torch="2.12, 2.13", more="toolchain: host\n")
    answer = factory.run("build-matrix", "--engine", "bwrap")
    assert answer.returncode == 0, answer.stderr
    answer = factory.run("relabel", "dist", "--out", "pypi", *ONE)
    assert answer.returncode == 0, answer.stderr
    return factory


def only(folder, pattern="*.whl"):
    (path,) = folder.glob(pattern)
    return path


def members(wheel):
    """Return each file of a wheel, under its path without the version."""
    with zipfile.ZipFile(wheel) as archive:
        version = wheel.name.split("-")[1]
        return {name.replace(f"-{version}.dist-info", ".dist-info"): archive.read(name) for name in archive.namelist()}


def test_only_the_version_differs_from_the_proven_wheel(made):
    new = only(made.folder / "pypi")
    assert new.name.startswith("tiny-1-cp39-abi3-manylinux")
    before, after = members(only(made.folder / "dist/wheels", "*torch2.13*")), members(new)
    assert before.keys() == after.keys()
    differing = {name for name in before if before[name] != after[name]}
    assert differing == {"tiny.dist-info/METADATA", "tiny.dist-info/RECORD"}
    metadata = before["tiny.dist-info/METADATA"]
    assert after["tiny.dist-info/METADATA"] == metadata.replace(b"Version: 1+cpu.torch2.13\n", b"Version: 1\n")
    assert b"Requires-Dist: torch==2.13.*" in metadata


def test_the_same_wheel_always_gives_the_same_bytes(made):
    answer = made.run("relabel", "dist/wheels", "--out", "again", *ONE, "--json")
    (told,) = json.loads(answer.stdout)["wheels"]
    assert told["requires_torch"] == "==2.13.*"
    first, second = only(made.folder / "pypi"), only(made.folder / "again")
    assert told["files"] == [first.name] == [second.name]
    assert hashlib.sha256(first.read_bytes()).digest() == hashlib.sha256(second.read_bytes()).digest()


def test_the_check_and_twine_pass_it_and_the_check_tells_what_was_built(made):
    answer = made.run("check", "pypi")
    assert answer.returncode == 0, answer.stdout
    assert "of tiny 1+cpu.torch2.13; it was relabelled" in answer.stdout
    assert (
        subprocess.run([sys.executable, "-m", "twine", "check", "--strict", only(made.folder / "pypi")]).returncode == 0
    )


def test_a_changed_description_is_no_relabelling(made, tmp_path):
    """Whoever relabels may not change METADATA else: the recorded plan has its hash."""
    folder, new = tmp_path / "unpacked", only(made.folder / "pypi")
    subprocess.run([sys.executable, "-m", "wheel", "unpack", new, "-d", folder], check=True, capture_output=True)
    metadata = next(folder.rglob("METADATA"))
    metadata.write_bytes(metadata.read_bytes().replace(b"Name: tiny\n", b"Name: tiny\nSummary: other\n"))
    subprocess.run([sys.executable, "-m", "wheel", "pack", folder / "tiny-1", "-d", tmp_path], check=True)
    answer = made.run("check", str(tmp_path / new.name))
    assert (answer.returncode, "it records a plan with another METADATA" in answer.stdout) == (1, True)


def test_a_rebuild_proves_a_relabelled_wheel(made):
    answer = made.run("verify-rebuild", "--engine", "bwrap", "--source", "k", "pypi")
    assert (answer.returncode, answer.stdout.count(".whl: equal\n")) == (0, 1), answer.stdout


def test_a_project_is_selected_as_in_the_plan_of_a_set(made, tmp_path):
    answer = made.run("relabel", "dist", "--out", str(tmp_path / "out"), "--only", "tiny/torch213-*")
    assert answer.returncode == 0, answer.stderr
    assert "1 wheel relabelled" in answer.stderr
    answer = made.run("relabel", "dist", "--out", str(tmp_path / "none"), "--only", "other/torch213-*")
    assert "'other/torch213-*' matches no combination" in answer.stderr


def test_a_wheel_of_an_older_source_is_left_out_and_counted(made, tmp_path):
    shutil.copytree(made.folder, tmp_path / "copy", symlinks=True)
    factory = Factory(folder=tmp_path / "copy", cache=made.cache)
    (factory.folder / "k/tiny.cpp").write_text("int tiny_answer() { return 43; }\n")
    answer = factory.run("build-matrix", "--engine", "bwrap", "--only", "torch212-*")
    assert answer.returncode == 0, answer.stderr
    answer = factory.run("relabel", "dist", "--out", "new")
    assert answer.stderr.splitlines()[-1] == "1 wheel of an older source left out: build again"


def test_both_torches_would_be_one_version(made):
    answer = made.run("relabel", "dist", "--out", "both")
    assert answer.returncode == 2
    assert "tiny-1+cpu.torch2.12-" in answer.stderr
    assert "tiny-1+cpu.torch2.13-" in answer.stderr
    assert (
        "would both be tiny 1\n  help: choose one of them, for example by --only 'torch213-cxx11-cpu-*'"
        in answer.stderr
    )
    assert not (made.folder / "both").exists()


def test_twine_uploads_it_and_pip_and_uv_install_it(made, tmp_path):
    new = only(made.folder / "pypi")
    with upload_server(tmp_path / "packages") as address:
        upload = ["twine", "upload", "--non-interactive", "--disable-progress-bar", "-u", "u", "-p", "p"]
        sent = subprocess.run(
            [sys.executable, "-m", *upload, "--repository-url", f"{address}/", new], capture_output=True, text=True
        )
        assert sent.returncode == 0, sent.stdout + sent.stderr
        assert (tmp_path / "packages" / new.name).read_bytes() == new.read_bytes()
        for name, command in (("pip", PIP), ("uv", [*UV, "--python", sys.executable])):
            site = tmp_path / name
            install = [*command, "--no-deps", "--index-url", f"{address}/simple/", "--target", site, "tiny"]
            answer = subprocess.run(install, capture_output=True, text=True)
            assert answer.returncode == 0, answer.stderr
            assert only(site, "tiny-*.dist-info").name == "tiny-1.dist-info"
            assert any(path.suffix == ".so" for path in (site / "tiny").iterdir())


SETUP = """\
# Guesses the name of a released wheel from torch, and builds only if there is none.
import os, sys, urllib.request
import torch
from setuptools import setup
from wheel.bdist_wheel import bdist_wheel

class CachedWheelsCommand(bdist_wheel):
    def run(self):
        python = f"cp{sys.version_info.major}{sys.version_info.minor}"
        torch_version = ".".join(torch.__version__.split(".")[:2])
        cuda = torch.version.cuda.split(".")[0]
        abi = str(torch._C._GLIBCXX_USE_CXX11_ABI).upper()
        name = f"guess-1.5+cu{cuda}torch{torch_version}cxx11abi{abi}-{python}-{python}-linux_{os.uname().machine}.whl"
        urllib.request.urlretrieve(f"ADDRESS/v1.5/{name}", name)
        os.makedirs(self.dist_dir, exist_ok=True)
        os.rename(name, os.path.join(self.dist_dir, f"{self.wheel_dist_name}-{'-'.join(self.get_tag())}.whl"))

setup(name="guess", version="1.5", cmdclass={"bdist_wheel": CachedWheelsCommand})
"""


@pytest.mark.parametrize("relabelled", [True, False])
def test_pip_installs_the_wheel_whose_name_a_setup_py_guesses(tmp_path, relabelled):
    """A wheel that only has the guessed name is not installed: pip compares the version in its METADATA."""
    given = tmp_path / "dist"
    for torch in ("2.12", "2.13"):
        made = make_wheel(given, "guess", f"1.5+cu130.torch{torch}", requires=(f"torch=={torch}.*",))
    released = tmp_path / "released/v1.5"
    factory = Factory.at(tmp_path / "factory")
    answer = factory.run("relabel", str(given), "--out", str(released), "--name-template", DAO)
    assert answer.returncode == 0, answer.stderr
    guessed = f"guess-1.5+cu13torch2.13cxx11abiTRUE-{HERE}-{HERE}-linux_{os.uname().machine}.whl"
    assert f"+ {guessed}: " in answer.stdout
    if not relabelled:
        shutil.copy(made, released / guessed)
    stub = "__version__ = '2.13.0+cu132'\nclass version: cuda = '13.2'\nclass _C: _GLIBCXX_USE_CXX11_ABI = True\n"
    write(tmp_path, {"torch/torch/__init__.py": stub})
    with serving_files(tmp_path / "released") as address:
        write(tmp_path, {"source/setup.py": SETUP.replace("ADDRESS", address)})
        command = [*PIP[:-1], "--no-deps", "--no-build-isolation", "--target", tmp_path / "site", tmp_path / "source"]
        env = {**os.environ, "PYTHONPATH": str(tmp_path / "torch"), "PYTHONWARNINGS": "ignore"}
        answer = subprocess.run(command, env=env, capture_output=True, text=True)
    assert (answer.returncode == 0) is relabelled, answer.stderr
    if relabelled:
        assert (tmp_path / "site/guess.py").read_text() == "VERSION = '1.5+cu130.torch2.13'\n"
