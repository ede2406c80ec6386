"""What a Hub repo has built becomes wheels that pip installs and Python calls, without the Hub's library."""

import json
import os
import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest
from build_folders import lay_out, lay_out_old, package_of, write
from factory import ROOT, Factory
from kernels import matrix, stable_kernel, tvm_kernel
from loopback import serving
from loopback_hub import Hub, serve

from wheelsmith.wheel.check import check_wheel

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.network,
    pytest.mark.release("compiles three kernels first; quick tests repack folders with nothing compiled"),
]

TVM_MATRIX = 'kernel: {path: twice}\naxes: {tvm-ffi: ["0.1"], cuda: [cpu]}\n'
CALL_AFFINE = """
import sys, torch, affine
torch.testing.assert_close(affine.affine(torch.ones(3), 2.0, 1.0), torch.full((3,), 3.0))
assert "kernels" not in sys.modules
"""
CALL_TWICE = """
import numpy, tvm_ffi, twice
x = numpy.arange(5, dtype="float32")
out = numpy.empty_like(x)
twice.twice(tvm_ffi.from_dlpack(out), tvm_ffi.from_dlpack(x))
assert (out == 2 * x).all(), out
"""


def build(factory: Factory, out: str) -> dict[str, Path]:
    """Build the matrix that lies there; gives the wheels by their versions."""
    answer = factory.run("build-matrix", "--engine", "bwrap", "--out", out)
    assert answer.returncode == 0, answer.stderr
    return {wheel.name.split("-")[1]: wheel for wheel in (factory.folder / out / "wheels").glob("*.whl")}


@pytest.fixture(scope="module")
def repos(built, tmp_path_factory):
    """Three repos as kernel-builder leaves them: for one torch, for torch's stable ABI, and an old one for tvm-ffi."""
    factory = Factory.at(tmp_path_factory.mktemp("builders"))
    repos = factory.folder / "org"
    for wheel in (built.folder / "first" / "wheels").glob("*.whl"):
        compute, torch = wheel.name.split("-")[1].removeprefix("1+").split(".torch")
        module, files = package_of(wheel)
        lay_out(repos / "img2gray", f"torch{torch.replace('.', '')}-cxx11-{compute}-x86_64-linux", module, files)
    write(repos / "img2gray", {"LICENSE": b"text\n", "README.md": b"---\nlicense: apache-2.0\n---\n# Gray\n"})
    lay_out(repos / "img2gray", "torch213-cxx11-rocm71-x86_64-linux", "img2gray", {"__init__.py": b""})

    stable_kernel(factory.folder / "affine")
    matrix(factory.folder, "affine", torch="2.13", cuda="cpu")
    stable = build(factory, "dist-affine")["1+cpu.torchstable"]
    lay_out(repos / "affine", "torch-stable-abi210-cpu-x86_64-linux", *package_of(stable))

    tvm_kernel(factory.folder / "twice")
    (factory.folder / "matrix.yaml").write_text(TVM_MATRIX)
    lay_out_old(
        repos / "twice", "tvm-ffi01-cpu-x86_64-linux", *package_of(build(factory, "dist-twice")["1+cpu.tvmffi0.1"])
    )
    return repos


@pytest.fixture(scope="module")
def shop(repos, tmp_path_factory):
    """One index of what the three repos of a Hub have built."""
    factory = Factory.at(tmp_path_factory.mktemp("repack"))
    with serve(Hub()) as hub:
        for repo in repos.iterdir():
            hub.add_folder(f"org/{repo.name}", repo)
        for name, more in (("img2gray", ()), ("affine", ()), ("twice", ("--version", "3"))):
            answer = factory.run(
                *("repack", f"hub:org/{name}", "--engine", "bwrap", "--out", f"dist-{name}", *more),
                **hub.environment(factory.folder / "hf"),
            )
            assert answer.returncode == 0, answer.stderr
    published = factory.run(
        "publish", "all", *(word for name in ("img2gray", "affine", "twice") for word in ("--from", f"dist-{name}"))
    )
    assert published.returncode == 0, published.stderr
    return factory


@pytest.fixture(scope="module")
def url(shop):
    with serving(shop.folder / "all") as url:
        yield url


def install(python: Path, *argv: str) -> None:
    env = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_FIND", "PYTHON"))}
    command = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *argv]
    answer = subprocess.run(command, env=env, capture_output=True, text=True)
    assert answer.returncode == 0, answer.stderr


def call(python: Path, code: str) -> None:
    answer = subprocess.run([python, "-c", code], capture_output=True, text=True)
    assert answer.returncode == 0, answer.stderr


def test_each_variant_has_a_wheel_that_tells_the_truth(shop, repos):
    wheels = {wheel.name: wheel for wheel in shop.folder.glob("dist-*/wheels/*.whl")}
    assert sorted("-".join(name.split("-")[:2]) for name in wheels) == [
        "affine-1+cpu.torchstable",
        *(f"img2gray-1+{compute}.torch2.{minor}" for compute in ("cpu", "cu130") for minor in (11, 13)),
        "twice-3+cpu.tvmffi0.1",
    ]
    for wheel in wheels.values():
        report = check_wheel(wheel)
        assert report.ok, report
    variants = json.loads((shop.folder / "dist-img2gray/results.json").read_text())["variants"]
    assert variants["torch213-cxx11-rocm71-x86_64-linux"]["status"] == "excluded"
    assert [each["status"] for each in variants.values()].count("repacked") == 4


def test_the_binary_is_the_one_that_the_repo_has(shop, repos):
    (wheel,) = shop.folder.glob("dist-img2gray/wheels/*+cu130.torch2.13-*.whl")
    folder = repos / "img2gray/build/torch213-cxx11-cu130-x86_64-linux"
    (library,) = folder.glob("*.so")
    with zipfile.ZipFile(wheel) as archive:
        assert archive.read(f"img2gray/{library.name}") == library.read_bytes()
        metadata = archive.read("img2gray-1+cu130.torch2.13.dist-info/METADATA").decode()
    assert "Version: 1+cu130.torch2.13\n" in metadata
    assert "Requires-Dist: torch==2.13.*\n" in metadata
    assert metadata.endswith("\n# Gray\n")


def test_capabilities_are_those_of_the_binary(shop, built):
    state = json.loads((shop.folder / "all/_state/img2gray.json").read_text())
    found = {entry["filename"].split("-")[1]: entry["gpu_archs"] for entry in state["entries"]}
    planned = {cell["version"]: cell["gpu_archs"] for cell in built.results("first").values()}
    assert found == planned


def test_pip_installs_them_from_the_index_and_python_calls_them(shop, url, torch_python, tmp_path):
    """A whole torch is installed for it; of the Hub, and of its library, there is nothing."""
    # What torch requires, which a new environment's own setuptools may be too old for.
    install(torch_python, "setuptools>=77.0.3,<82")
    # torch is there, and satisfies what they require: with --no-deps nobody would know.
    install(torch_python, "--index-url", f"{url}/cpu/", "img2gray==1+cpu.torch2.13", "affine")
    call(torch_python, CALL_AFFINE)
    tests = shutil.copytree(ROOT / "examples/img2gray/tests", tmp_path / "tests")
    answer = subprocess.run(
        [torch_python, "-m", "pytest", "-q", "-p", "no:cacheprovider", tests],
        env={name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")},
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert answer.returncode == 0, answer.stdout[-3000:]
    assert " passed" in answer.stdout
    install(torch_python, "apache-tvm-ffi==0.1.*")
    install(torch_python, "--index-url", f"{url}/cpu/", "twice")
    call(torch_python, CALL_TWICE)
