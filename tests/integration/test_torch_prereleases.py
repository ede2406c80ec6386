"""Pre-releases of torch as cells: found on torch's own indexes, and known by what their wheels hold."""

import json
import shutil
import subprocess
import sys

import pytest
from factory import Factory, example
from kernels import matrix, tiny_kernel
from loopback import serving
from prerelease_torch import ARCH, offer_real_torch, offer_torch

CANDIDATE = "2.16.0rc2"
OLD, NEW = "2.17.0.dev20261119", "2.17.0.dev20261120"
# Calls a function that only the release candidate has.
CALLS = "namespace c10 { int candidate_answer(); }\nint tiny_answer() { return c10::candidate_answer(); }\n"


@pytest.fixture
def torch_index(tmp_path):
    root = tmp_path / "whl"
    root.mkdir()
    with serving(root) as address:
        yield root, address


@pytest.fixture
def factory(tmp_path, torch_index, monkeypatch):
    monkeypatch.setenv("WHEELSMITH_TORCH_INDEX", torch_index[1])
    found = Factory.at(tmp_path / "work")
    found.resolves_alone()
    tiny_kernel(found.folder / "kernel", **{"tiny.cpp": CALLS})
    return found


def test_a_release_candidate_is_built_checked_and_kept_out_of_stable_channels(torch_index, factory, tmp_path):
    offer_torch(torch_index[0], tmp_path / "made", CANDIDATE, "cpu", "cu130")
    matrix(factory.folder, "kernel", torch=f"2.13, {CANDIDATE}", cuda="cpu")
    built = factory.run("build-matrix", "--only", "torch2160rc2*")
    assert built.returncode == 0, built.stdout + built.stderr
    assert "torch 2.16.0rc2+cpu for" in built.stderr
    (wheel,) = (factory.folder / "dist" / "wheels").iterdir()
    assert wheel.name.startswith(f"tiny-1+cpu.torch{CANDIDATE}-")
    assert factory.run("check", str(wheel)).returncode == 0
    (result,) = factory.results().values()
    assert result["cell"]["prerelease"] is True

    # The facts come from the cache: the index is no longer asked.
    shutil.rmtree(torch_index[0] / "test")
    planned = json.loads(factory.run("plan", "--json").stdout)["plans"]
    headers = {plan["cell"]["torch"]: plan["headers"]["version"] for plan in planned}
    assert headers == {"2.13": "2.13.0", CANDIDATE: f"{CANDIDATE}+cpu"}

    # Another machine does not know this torch, and says so.
    shutil.rmtree(factory.cache / "torch-facts")
    checked = factory.run("check", str(wheel))
    assert checked.returncode == 1
    assert f"this machine does not know torch {CANDIDATE}+cpu: run wheelsmith plan here" in checked.stdout

    assert factory.run("publish", "index", "--channel", "nightly").returncode == 0
    for channel, code in (("stable", 1), ("test", 0)):
        asked = ("index", "tiny", "1", "--from", "nightly", "--to", channel, "--incomplete")
        promoted = factory.run("promote", *asked)
        assert promoted.returncode == code, promoted.stderr
        assert ("for a pre-release of torch" in promoted.stderr) == (channel == "stable")
    assert "torch 2.16.0rc2 (pre-release)" in (factory.folder / "index/test/projects/tiny/index.html").read_text()


def test_a_symbol_that_the_candidate_lacks_is_found(torch_index, factory, tmp_path):
    offer_torch(torch_index[0], tmp_path / "made", CANDIDATE, "cpu")
    (factory.folder / "kernel" / "tiny.cpp").write_text(CALLS.replace("candidate_answer", "absent"))
    matrix(factory.folder, "kernel", torch=CANDIDATE, cuda="cpu")
    built = factory.run("build-matrix")
    assert built.returncode == 1
    assert f"torch {CANDIDATE} does not export _ZN3c106absentEv" in built.stdout + built.stderr


def test_a_build_that_the_index_lacks_is_one_mistake_with_the_nearest_ones(torch_index, factory, tmp_path):
    offer_torch(torch_index[0], tmp_path / "made", "2.16.0rc1", "cpu")
    offer_torch(torch_index[0], tmp_path / "made", "2.16.0rc3", "cpu")
    matrix(factory.folder, "kernel", torch=CANDIDATE, cuda="cpu")
    planned = factory.run("plan")
    assert planned.returncode == 2
    assert f"matrix.yaml:2:16: torch {CANDIDATE} has no build for cpu on {ARCH} on {torch_index[1]}/test/cpu" in (
        planned.stderr
    )
    assert "the nearest ones there are 2.16.0rc1, 2.16.0rc3" in planned.stderr


def test_nightly_is_the_newest_for_all_combinations_and_the_lock_keeps_it(torch_index, factory, tmp_path):
    root, made = torch_index[0], tmp_path / "made"
    offer_torch(root, made, OLD, "cpu", "cu130")
    offer_torch(root, made, NEW, "cpu")
    (factory.folder / "kernel" / "tiny.cpp").write_text("int tiny_answer() { return 42; }\n")
    matrix(factory.folder, "kernel", torch="nightly", cuda='cpu, "13.0"')
    planned = factory.run("plan")
    assert f"torch nightly is {OLD}, the newest for all combinations" in planned.stderr
    locked = factory.run("lock")
    assert locked.returncode == 0, locked.stderr
    assert f'nightly = "{OLD}"' in (factory.folder / "wheelsmith.lock").read_text()

    offer_torch(root, made, NEW, "cu130")
    assert f"torch nightly is {OLD}, from the lock file" in factory.run("plan", "--locked").stderr
    assert f"torch nightly is {NEW}" in factory.run("lock", "--upgrade").stderr
    assert f'nightly = "{NEW}"' in (factory.folder / "wheelsmith.lock").read_text()


def test_bump_takes_a_candidate_that_the_index_has(torch_index, factory, tmp_path):
    offer_torch(torch_index[0], tmp_path / "made", CANDIDATE, "cpu")
    path = matrix(factory.folder, "kernel", torch="2.13", cuda="cpu")
    assert factory.run("lock").returncode == 0
    before = path.read_text()
    refused = factory.run("bump", "torch", "2.16.0rc9")
    assert (refused.returncode, path.read_text()) == (2, before)
    assert f"matrix.yaml:2:22: torch 2.16.0rc9 has no build for cpu on {ARCH}" in refused.stderr
    taken = factory.run("bump", "torch", CANDIDATE)
    assert taken.returncode == 0, taken.stderr
    assert path.read_text() == before.replace("2.13", f"2.13, {CANDIDATE}")
    assert "torch2160rc2" in (factory.folder / "wheelsmith.lock").read_text()
    assert "torch2160rc2" in taken.stdout


@pytest.mark.network
@pytest.mark.release("repacks torch's wheel and compiles against its headers")
def test_an_example_is_built_and_tested_with_the_real_torch(torch_index, tmp_path, monkeypatch):
    command = (sys.executable, "-m", "pip", "download", "--no-deps", "--dest", str(tmp_path), "torch==2.13.0+cpu")
    subprocess.run(command, check=True)
    (wheel,) = tmp_path.glob("torch-*.whl")
    offer_real_torch(torch_index[0], wheel, CANDIDATE)
    monkeypatch.setenv("WHEELSMITH_TORCH_INDEX", torch_index[1])
    # The constraints of the machine may exclude a torch that is not out.
    (tmp_path / "constraints.txt").touch()
    monkeypatch.setenv("PIP_CONSTRAINT", str(tmp_path / "constraints.txt"))
    found = example(tmp_path / "work")
    found.resolves_alone()
    matrix(found.folder, "examples/img2gray", torch=CANDIDATE, cuda="cpu")
    text = (found.folder / "matrix.yaml").read_text()
    smoke = "python -c 'import img2gray, torch; assert torch.__version__ == \"2.16.0rc2+cpu\"'"
    (found.folder / "matrix.yaml").write_text(text.replace("img2gray}", f"img2gray, test: {json.dumps(smoke)}}}"))
    built = found.run("build-matrix", "--test")
    assert built.returncode == 0, built.stdout + built.stderr
    assert list(found.hashes()) == [f"torch2160rc2-cxx11-cpu-{ARCH}-linux"]
