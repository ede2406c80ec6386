"""Frameworks whose wheels are compiled against the oldest release and serve all newer ones."""

from __future__ import annotations

import subprocess
import sys
from importlib import resources

import pytest
from packaging.specifiers import SpecifierSet

from wheelsmith.base.errors import MatrixMistakesError, NoEnvironmentError
from wheelsmith.engine import Exit, ExitReason, Limits
from wheelsmith.frameworks import LoaderInputs, framework, frameworks, local_version_of, read_local_version
from wheelsmith.frameworks.jax import jax_releases
from wheelsmith.frameworks.tensorflow import tensorflow_releases
from wheelsmith.model import Cell
from wheelsmith.pipeline.failures import command_failed
from wheelsmith.plan.feasibility import NotBuildableError
from wheelsmith.plan.kernel import _stable_abi
from wheelsmith.plan.project import _oldest_environment
from wheelsmith.plan.recipe.build_toml import parse_build_toml

BUILD_TOML = """
[general]
name = "scale"
version = 1
edition = 5
license = "MIT"
backends = ["cpu", "cuda"]

[{framework}]
src = ["binding.cpp"]
{more}
"""
FUNCTIONS = 'functions = ["Scale"]'


def spec(name, more=FUNCTIONS):
    return parse_build_toml(BUILD_TOML.format(framework=name, more=more))


def cell(name, release, toolkit=None):
    return Cell(framework=name, release=release, toolkit=toolkit, arch="x86_64")


@pytest.mark.parametrize(
    ("of", "more", "floor"),
    [
        (cell("jax", "0.12"), FUNCTIONS, "0.5"),
        (cell("jax", "0.12", "12.8"), FUNCTIONS, "0.5"),
        # The first plugin of JAX for CUDA 13 is 0.7.2.
        (cell("jax", "0.12", "13.0"), FUNCTIONS, "0.7"),
        (cell("jax", "0.12", "13.0"), f'{FUNCTIONS}\nstable-abi = "0.10"', "0.10"),
        (cell("mindspore", "2.10"), FUNCTIONS, "2.7"),
        (cell("mindspore", "2.10"), f'{FUNCTIONS}\nstable-abi = "2.9"', "2.9"),
        (cell("tensorflow", "2.21"), "", None),
        (cell("tensorflow", "2.21"), 'stable-abi = "2.12"', "2.12"),
        (cell("tvm-ffi", "0.1"), "", None),
    ],
)
def test_a_wheel_is_compiled_against_its_oldest_release(of, more, floor):
    assert _stable_abi(of, spec(of.framework, more)) == floor


@pytest.mark.parametrize(
    ("of", "reason"),
    [
        (cell("jax", "0.5", "13.0"), "JAX's first plugin for CUDA 13 is 0.7.2"),
        (cell("mindspore", "2.10", "12.6"), "MindSpore 2.10 runs operators on NVIDIA GPUs with CUDA 11 only"),
        (
            cell("tensorflow", "2.21", "13.0"),
            "TensorFlow 2.21 was built with CUDA 12.5; a kernel needs the same major version",
        ),
    ],
)
def test_an_impossible_combination_has_its_reason(of, reason):
    assert framework(of.framework).why_impossible(of, any_minor=False) == reason


@pytest.mark.parametrize(
    ("of", "requirements"),
    [
        (cell("jax", "0.12"), ("jax>=0.5", "jaxlib>=0.5")),
        (cell("jax", "0.12", "12.8"), ("jax>=0.5", "jaxlib>=0.5", "jax-cuda12-plugin>=0.5")),
        (cell("jax", "0.12", "13.0"), ("jax>=0.5", "jaxlib>=0.5", "jax-cuda13-plugin>=0.7.2")),
        (cell("mindspore", "2.10"), ("mindspore>=0.5",)),
        (cell("torch", "2.14"), ("torch>=0.5",)),
    ],
)
def test_a_wheel_requires_its_oldest_release(of, requirements):
    assert framework(of.framework).stable_requirements("0.5", of.compute) == requirements


@pytest.mark.parametrize("name", sorted(frameworks()))
def test_the_name_of_a_stable_abi_is_read_again(name):
    local = local_version_of(cell(name, "1.0", "13.0"), stable_abi=True)
    read = read_local_version(local)
    assert (read.framework, read.stable, read.compute, read.own) == (name, True, "cu130", True)
    assert read.framework_part == framework(name).stable_part


@pytest.mark.parametrize("name", ["jax", "mindspore"])
@pytest.mark.parametrize(
    ("more", "mistake"),
    [
        ("", "functions is missing or empty"),
        ('functions = ["two words"]', "'two words' is not the name of a C function"),
        ('functions = ["class"]', "'class' is not the name of a C function"),
        (f'{FUNCTIONS}\nminver = "2.0"', "unknown key 'minver'"),
    ],
)
def test_mistakes_in_a_framework_section_are_reported(name, more, mistake):
    with pytest.raises(MatrixMistakesError) as caught:
        spec(name, more)
    assert mistake in str(caught.value.mistakes[0])


@pytest.mark.parametrize(
    ("of", "requires", "there", "release"),
    [
        (cell("jax", "0.10"), ("jax",), {"jaxlib==0.5.0", "jaxlib==0.10.0"}, "0.5"),
        # No jaxlib before 0.7 has a wheel for this Python.
        (cell("jax", "0.10"), ("jax",), {"jaxlib==0.7.0", "jaxlib==0.10.0"}, "0.7"),
        (cell("tensorflow", "2.21"), ("tensorflow",), {"tensorflow==2.21.0"}, "2.21"),
        (cell("tensorflow", "2.21"), ("tensorflow-cpu",), {"tensorflow-cpu==2.21.0"}, "2.21"),
        (cell("jax", "0.6"), ("jax",), {"jaxlib==0.7.0"}, None),
    ],
)
def test_a_project_is_compiled_with_the_oldest_release_that_it_accepts(of, requires, there, release):
    def resolve(requirements, python, arch, preferred):
        if requirements[0] not in there:
            raise NoEnvironmentError(f"no {requirements[0]}")
        return requirements

    if release is None:
        with pytest.raises(NotBuildableError) as caught:
            _oldest_environment(of, "3.14", requires, resolve)
        assert str(caught.value) == "there is no build environment with jax 0.6 for Python 3.14: no jaxlib==0.6.0"
    else:
        assert _oldest_environment(of, "3.14", requires, resolve)[0] == release


@pytest.mark.parametrize("name", ["jax", "tensorflow", "mindspore"])
def test_the_loader_is_valid_python(name):
    inputs = LoaderInputs(
        package="scale",
        namespace="_scale_cpu_0123456789",
        backend="cpu",
        release="2.21",
        floor="0.5" if name != "tensorflow" else None,
        functions=("Scale", "ScaleBackward"),
    )
    text = framework(name).files(inputs)["scale/_ops.py"]
    compile(text, "_ops.py", "exec")
    assert "_scale_cpu_0123456789.so" in text


def test_names_of_operators_begin_with_a_capital_letter():
    defines = framework("tensorflow").defines("_my_scale_cpu_0123456789", "cpu", None)
    assert defines[0] == "-DTENSORFLOW_EXTENSION_NAME=MyScaleCpu0123456789"


CXX = "_ZN10tensorflow15OpKernelContext21CtxFailureWithWarningEPKciRKN4absl12{}6StatusE"


@pytest.mark.parametrize(
    ("symbol", "allowed", "lacking"),
    [
        (CXX.format("lts_20250814"), "==2.21.*", ()),
        (CXX.format("lts_20250127"), "==2.21.*", ("2.21.0",)),
        (CXX.format("lts_20230802"), ">=2.18,<2.21", ("2.20.0",)),
        ("TF_NewKernelBuilder", ">=2.12", ()),
        ("TF_AddNVariant", ">=2.17,<2.20", ("2.19.0",)),
    ],
)
def test_symbols_of_tensorflow_belong_to_releases(symbol, allowed, lacking):
    (exports,) = framework("tensorflow").exports()
    assert exports.has(symbol)
    assert exports.versions_without(symbol, SpecifierSet(allowed)) == lacking


@pytest.mark.parametrize("symbol", ["_ZN5scale7forwardEv", "TF_Nothing", "printf"])
def test_other_symbols_are_not_those_of_tensorflow(symbol):
    (exports,) = framework("tensorflow").exports()
    assert not exports.has(symbol)


def test_a_later_release_has_no_older_interface():
    ffi = [tuple(map(int, release.ffi.split("."))) for release in jax_releases().values()]
    assert ffi == sorted(ffi)
    abseil = [release.abseil for release in tensorflow_releases().values()]
    assert abseil == sorted(abseil)


# --- the check of JAX's handlers ----------------------------------------------------------------------------

# A handler that answers as one that was compiled with the headers of some version of XLA's FFI.
HANDLER = """
#include <stddef.h>
struct Version { size_t size; void *extensions; int major, minor; };
struct Metadata { size_t size; struct Version version; };
struct Extension { size_t size; int type; void *next; struct Metadata *metadata; };
struct Frame { size_t size; struct Extension *extension; };
void *Scale(struct Frame *frame) {
#ifdef MINOR
  frame->extension->metadata->version.major = 0;
  frame->extension->metadata->version.minor = MINOR;
#endif
  return ERROR;
}
"""


@pytest.mark.parametrize(
    ("defines", "function", "said"),
    [
        (["-DMINOR=1", "-DERROR=0"], "Scale", None),
        (["-DMINOR=5", "-DERROR=0"], "Scale", "Scale was compiled with headers of XLA FFI 0.5"),
        (["-DMINOR=1", "-DERROR=frame"], "Scale", "Scale is not a handler of XLA"),
        # A plain function does not know the frame.
        (["-DERROR=0"], "Scale", "Scale is not a handler of XLA"),
        (["-DMINOR=1", "-DERROR=0"], "Other", "the library does not export Other"),
    ],
)
def test_each_handler_is_asked_for_its_version(tmp_path, defines, function, said):
    (tmp_path / "handler.c").write_text(HANDLER)
    subprocess.run(["gcc", "-shared", "-fPIC", *defines, "-o", "h.so", "handler.c"], cwd=tmp_path, check=True)
    script = resources.files("wheelsmith.frameworks") / "check_jax_handlers.py"
    answer = subprocess.run(
        [sys.executable, str(script), str(tmp_path / "h.so"), "done", "0.1", function],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert (answer.returncode == 0) == (said is None), answer.stderr
    assert (tmp_path / "done").exists() == (said is None)
    assert (said or "") in answer.stderr


def test_a_missing_function_has_a_remedy():
    said = ("/opt/cxx/bin/ld: required symbol `Scale' not defined", "collect2: error: ld returned 1 exit status")
    failed = command_failed("build", "the build", Exit(reason=ExitReason.EXITED, code=1, seconds=1), Limits(), said)
    assert failed.failure.remedy.startswith('define Scale as an extern "C" function, or for JAX with')
