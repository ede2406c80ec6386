"""One kernel for JAX, TensorFlow and MindSpore: built, installed beside several releases, and called."""

from __future__ import annotations

import os
import shutil
import subprocess
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
from factory import Factory, example
from kept_objects import objects_kept

from wheelsmith.wheel.check import check_wheel

pytestmark = [pytest.mark.e2e, pytest.mark.network, pytest.mark.xdist_group("other-frameworks")]
TESTS = Path(__file__).parent.parent.parent / "examples" / "swiglu" / "tests"
COMPILES = pytest.mark.release("compiles a kernel for three frameworks and installs each of them")


def kernel(folder):
    factory = example(folder)
    return replace(factory, folder=folder / "examples" / "swiglu")


def build(request, folder, only):
    """Build some of the wheels of examples/swiglu."""
    factory = kernel(folder)
    with objects_kept(request.config, folder.name.rstrip("0123456789"), factory):
        answer = factory.run("build-matrix", "--engine", "bwrap", "--progress", "plain", "--only", only)
        assert answer.returncode == 0, answer.stderr
    return factory


@pytest.fixture(scope="module")
def for_jax(request, tmp_path_factory):
    return build(request, tmp_path_factory.mktemp("swiglu-jax"), "swiglu-jax/*-cpu-*")


@pytest.fixture(scope="module")
def for_others(request, tmp_path_factory):
    return build(request, tmp_path_factory.mktemp("swiglu-others"), "swiglu-{tensorflow,mindspore}/*")


def find_python(minor):
    found = subprocess.run(
        ["uv", "python", "find", "--no-python-downloads", minor], capture_output=True, text=True, check=False
    )
    if found.returncode:
        pytest.skip(f"there is no Python {minor} here")
    return found.stdout.strip()


def install(factory, folder, wheel, *requirements, python="3.11", options=()):
    """Install a wheel of the factory into a new environment, and return its Python."""
    subprocess.run(["uv", "venv", "-q", "--python", find_python(python), folder], check=True)
    found = [*("uv", "pip", "install", "-q", "--python", folder, "--find-links", factory.folder / "dist/wheels")]
    subprocess.run([*found, *options, wheel, *requirements], check=True)
    return folder / "bin/python"


def run_tests(python, name):
    answer = subprocess.run(
        [python, "-m", "pytest", "-q", "-c", os.devnull, "-p", "no:cacheprovider", TESTS / name],
        env={"PATH": os.environ["PATH"], "JAX_PLATFORMS": "cpu", "TF_CPP_MIN_LOG_LEVEL": "3", "HOME": str(TESTS)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 0, answer.stdout + answer.stderr


def import_fails(python, module):
    answer = subprocess.run([python, "-c", f"import {module}"], capture_output=True, text=True, check=False)
    assert answer.returncode == 1
    return answer.stderr.splitlines()[-1]


def test_one_wheel_serves_every_jax(for_jax):
    (wheel,) = (for_jax.folder / "dist/wheels").glob("*.whl")
    assert wheel.name.startswith("swiglu_jax-1+cpu.jaxstable-py3-none-manylinux")
    assert check_wheel(wheel).ok


@pytest.mark.parametrize("jaxlib", ["0.5.0", pytest.param("0.8.1", marks=COMPILES), "0.10.2"])
def test_jax_calls_it(for_jax, tmp_path, jaxlib):
    python = install(for_jax, tmp_path / "env", "swiglu-jax==1+cpu.jaxstable", f"jaxlib=={jaxlib}", "pytest")
    run_tests(python, "test_jax.py")


@COMPILES
def test_the_newest_jax_calls_it(for_jax, tmp_path):
    needs = ("swiglu-jax==1+cpu.jaxstable", "jaxlib==0.12.0.1", "pytest")
    run_tests(install(for_jax, tmp_path / "env", *needs, python="3.12"), "test_jax.py")


def test_an_older_jaxlib_is_refused_when_it_is_imported(for_jax, tmp_path):
    subprocess.run(["uv", "venv", "-q", "--python", find_python("3.11"), tmp_path / "env"], check=True)
    into = ("uv", "pip", "install", "-q", "--python", tmp_path / "env")
    subprocess.run([*into, "jax==0.4.35", "jaxlib==0.4.35"], check=True)
    wheels = for_jax.folder / "dist/wheels"
    subprocess.run([*into, "--no-deps", "--find-links", wheels, "swiglu-jax==1+cpu.jaxstable"], check=True)
    python = tmp_path / "env/bin/python"
    said = import_fails(python, "swiglu_jax")
    assert said == "ImportError: this build of swiglu_jax needs jaxlib 0.5 or newer, not 0.4.35"
    # JAX itself still works after the failure.
    code = "import contextlib\nwith contextlib.suppress(ImportError): import swiglu_jax\nimport jax; jax.numpy.ones(2)"
    subprocess.run([python, "-c", code], check=True)


def test_headers_of_a_newer_xla_fail_the_build(for_jax, tmp_path):
    factory = kernel(tmp_path)
    target = factory.folder / "csrc/xla/ffi/api"
    target.mkdir(parents=True)
    for header in (for_jax.cache / "prefix").glob("jax-0.5.0-*/include/xla/ffi/api/*.h"):
        text = header.read_text().replace("#define XLA_FFI_API_MINOR 1", "#define XLA_FFI_API_MINOR 9")
        (target / header.name).write_text(text)
    answer = factory.run("build-matrix", "--engine", "bwrap", "--progress", "plain", "--only", "swiglu-jax/*-cpu-*")
    assert answer.returncode != 0
    assert "SwigluForward was compiled with headers of XLA FFI 0.9" in answer.stderr + answer.stdout


@COMPILES
@pytest.mark.parametrize("minor", ["2.20", "2.21"])
def test_tensorflow_calls_the_wheel_of_its_minor(for_others, tmp_path, minor):
    options = ("--no-deps",)
    python = install(for_others, tmp_path / "env", f"tensorflow-cpu=={minor}.*", "pytest")
    into = ("uv", "pip", "install", "-q", "--python", tmp_path / "env", *options)
    wheels = for_others.folder / "dist/wheels"
    subprocess.run([*into, "--find-links", wheels, f"swiglu-tensorflow==1+cpu.tensorflow{minor}"], check=True)
    run_tests(python, "test_tensorflow.py")
    other = "2.21" if minor == "2.20" else "2.20"
    subprocess.run([*into, "--find-links", wheels, f"swiglu-tensorflow==1+cpu.tensorflow{other}"], check=True)
    said = import_fails(python, "swiglu_tensorflow")
    assert said.startswith(f"ImportError: this build of swiglu_tensorflow needs TensorFlow {other}, not {minor}.")


@COMPILES
@pytest.mark.parametrize("release", ["2.7.0", "2.10.0"])
def test_mindspore_calls_it_in_both_modes(for_others, tmp_path, release):
    needs = ("swiglu-mindspore==1+cpu.mindsporestable", f"mindspore=={release}", "numpy<2", "pytest")
    run_tests(install(for_others, tmp_path / "env", *needs), "test_mindspore.py")


# --- projects with their own build system ---------------------------------------------------------------------

MATRIX = """
kernels:
  scale-ffi:
    path: jax
    axes: {jax: ["0.5", "0.10"]}
    test: |
      python3 -c "import jax; from scale import scale; assert jax.jit(lambda x: scale(x, 3))(jax.numpy.ones(2))[1] == 3"
  zero-out:
    path: tensorflow
    axes: {tensorflow: [2.21]}
axes:
  cuda: [cpu]
  python: [3.11]
"""


@COMPILES
def test_projects_are_built_by_their_own_build_systems(tmp_path):
    find_python("3.11")
    factory = Factory.at(tmp_path)
    for name in ("jax", "tensorflow"):
        shutil.copytree(Path(__file__).parent / "projects" / name, tmp_path / name)
    (tmp_path / "matrix.yaml").write_text(MATRIX)
    answer = factory.run("build-matrix", "--engine", "bwrap", "--progress", "plain")
    assert answer.returncode == 0, answer.stderr
    # Compiled with jaxlib 0.5.0, for 0.10 too.
    (for_jax,) = (tmp_path / "dist/wheels").glob("scale_ffi-1.0+cpu.jaxstable-py3-none-*.whl")
    (for_tensorflow,) = (tmp_path / "dist/wheels").glob("zero_out-1.0+cpu.tensorflow2.21-py3-none-*.whl")
    assert requirements_of(for_jax) == ["jax>=0.5", "jaxlib>=0.5"]
    assert requirements_of(for_tensorflow) == ["tensorflow==2.21.*,>=2.18"]
    python = install(factory, tmp_path / "env", "tensorflow-cpu==2.21.*")
    subprocess.run(["uv", "pip", "install", "-q", "--no-deps", "--python", python, for_tensorflow], check=True)
    called = "from zero_out import zero_out; assert zero_out([5, 2]).numpy().tolist() == [5, 0]"
    subprocess.run([python, "-c", called], check=True)


def requirements_of(wheel):
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith("/METADATA"))
        lines = archive.read(name).decode().splitlines()
    return [line.removeprefix("Requires-Dist: ") for line in lines if line.startswith("Requires-Dist: ")]
