"""What stands where a compiler is called: what it asks, and what it does with the answer."""

import json
import os
import signal
import subprocess

import pytest

from wheelsmith.engine.backend import launcher
from wheelsmith.toolchain.build_tools import compiler_proxy_script

REAL = '#!/bin/sh\necho "the compiler itself: $*"\n'
END = {"code": 0, "output": "", "lines": []}


@pytest.fixture
def called(tmp_path, monkeypatch):
    """Return a caller of a stand-in, which gives what was asked; its answer is the one that is given."""
    monkeypatch.chdir(tmp_path)
    for name in ("gcc", "nvcc"):
        for folder, text in (("launch", compiler_proxy_script().read_text()), ("bin", REAL)):
            (tmp_path / folder).mkdir(exist_ok=True)
            (tmp_path / folder / name).write_text(text)
            (tmp_path / folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/launch:{tmp_path}/bin:{os.environ['PATH']}")
    monkeypatch.setenv("WHEELSMITH_LAUNCH", str(tmp_path))
    asked = {}

    def call(program, *words, answer=END):
        monkeypatch.delenv("WHEELSMITH_LAUNCHED", raising=False)

        def read(path):
            asked.update(json.loads((path.parent / "request").read_text()))
            (path.parent / "object").write_text("made")
            return answer

        monkeypatch.setattr(launcher, "_read_json", read)
        code = launcher.launch(str(tmp_path / "launch" / program), list(words))
        return asked | {"code": code}

    before = signal.getsignal(signal.SIGTERM)
    yield call
    signal.signal(signal.SIGTERM, before)


def test_a_file_of_options_is_read_where_it_says_the_same_to_all(called, tmp_path):
    (tmp_path / "plain").write_text("-DA='1 2' \"-DB\"")
    assert called("gcc", "-c", "@plain", "-o", "x")["words"] == ["-c", "-DA=1 2", "-DB", "-o", "x"]
    (tmp_path / "list").write_text("-I a\n-I b")
    assert called("nvcc", "-c", "-optf", "list", "-o", "x")["words"] == ["-c", "-I", "a", "-I", "b", "-o", "x"]


@pytest.mark.parametrize("text", [r'-DA="a\bc"', r"-DB='x\'y'", "-DA='", "-DA \v", "x " * (1 << 20)])
def test_one_that_may_say_something_else_is_left_to_the_compiler(text, called, tmp_path):
    (tmp_path / "odd").write_text(text)
    assert called("gcc", "-c", "@odd", "-o", "x")["words"] == ["-c", "@odd", "-o", "x"]


@pytest.mark.parametrize("text", ["# -c", "'-DA=1'", "-DA,B"])
def test_so_is_one_of_nvcc(text, called, tmp_path):
    (tmp_path / "odd").write_text(text)
    assert called("nvcc", "-c", "--options-file", "odd", "-o", "x")["words"] == [
        *("-c", "--options-file", "odd", "-o", "x")
    ]


@pytest.mark.parametrize(
    ("program", "name"),
    [("gcc", "COMPILER_PATH"), ("nvcc", "NVCC_CCBIN"), ("nvcc", "PTXAS_FLAGS"), ("nvcc", "DEPENDENCIES_OUTPUT")],
)
def test_a_compiler_that_the_environment_makes_another_is_left_alone(program, name, called, monkeypatch):
    assert called(program, "-c", "a", "-o", "x")["program"] == program
    monkeypatch.setenv(name, "x")
    assert called(program, "-c", "a", "-o", "x")["program"].endswith(f"/launch/{program}")


def test_options_of_the_environment_that_end_in_a_quote_are_nvccs_to_read(called, monkeypatch):
    monkeypatch.setenv("NVCC_APPEND_FLAGS", "'-DA")
    assert called("nvcc", "-c", "a.cu", "-o", "x")["words"][-1] == "@"


def test_a_call_that_is_too_long_to_be_told_is_the_compilers(called):
    asked = called("gcc", "-c", *[f"-I/a/long/path/{n}" for n in range(10_000)], "-o", "x")
    assert asked["words"] == ["-c"]
    assert asked["program"].endswith("/launch/gcc")


def test_where_device_code_lies_is_told(called, tmp_path):
    assert called("nvcc", "-c", "a.cu", "-o", "x")["places"] == {"a.cu": os.path.realpath(tmp_path / "a.cu")}


MADE = {"code": 0, "output": "x.o", "lines": []}


def test_an_object_takes_the_place_of_what_other_names_have_too(called, tmp_path):
    """As an assembler does it: trees of links may share their objects."""
    (tmp_path / "other").write_text("old")
    os.link(tmp_path / "other", tmp_path / "x.o")
    called("gcc", "-c", "a", "-o", "x.o", answer=MADE)
    (tmp_path / "y.o").symlink_to("other")
    called("gcc", "-c", "a", "-o", "y.o", answer=MADE | {"output": "y.o"})
    assert [(tmp_path / name).read_text() for name in ("other", "x.o", "y.o")] == ["old", "made", "made"]


def test_the_compiler_says_why_an_object_cannot_be_where_it_is_wanted(called, capfd):
    assert called("gcc", "-c", "a", "-o", "no/x.o", answer=MADE | {"output": "no/x.o"})["code"] == 0
    assert capfd.readouterr().out == "the compiler itself: -c a -o no/x.o\n"


def test_without_the_variable_it_is_the_next_compiler_on_path(called, tmp_path, capfd):
    """Build systems may give a compiler an environment of its own."""
    environment = {"PATH": os.environ["PATH"]}
    subprocess.run(["gcc", "-c", "a b"], env=environment, check=True)
    assert capfd.readouterr().out == "the compiler itself: -c a b\n"
    (tmp_path / "bin" / "gcc").unlink()
    alone = subprocess.run(["gcc"], env={"PATH": f"{tmp_path}/launch"}, check=False, capture_output=True, text=True)
    assert (alone.returncode, alone.stderr) == (127, "wheelsmith: gcc is not on PATH\n")


def test_nvcc_is_the_one_beside_it(called, tmp_path, capfd):
    (tmp_path / "bin" / "nvcc").rename(tmp_path / "launch" / "nvcc.bin")
    subprocess.run(["nvcc", "x"], env={"PATH": os.environ["PATH"]}, check=True)
    assert capfd.readouterr().out == "the compiler itself: x\n"


RAISED = [
    (["-std=c++17"], ["-std=c++20"]),
    (["--std=c++17"], ["--std=c++20"]),
    (["-std", "c++14"], ["-std", "c++20"]),
    (["--std", "gnu++17"], ["--std", "gnu++20"]),
    (["-std=gnu++1z"], ["-std=gnu++20"]),
    (["-Xcompiler", "-O3,-std=c++11"], ["-Xcompiler", "-O3,-std=c++20"]),
    (["--compiler-options=-std=gnu++98"], ["--compiler-options=-std=gnu++20"]),
    (["@options"], ["-O2", "-std=c++20"]),
    (["-std=c++20"], ["-std=c++20"]),
    (["-std=c++2a"], ["-std=c++2a"]),
    (["-std=c++23"], ["-std=c++23"]),
    (["-DSHOWN=-std=c++17", "-std=c++20"], ["-DSHOWN=-std=c++17", "-std=c++20"]),
]


@pytest.mark.parametrize(("given", "passed"), RAISED)
@pytest.mark.parametrize("program", ["gcc", "nvcc"])
def test_an_older_standard_is_raised(program, given, passed, called, tmp_path, monkeypatch, capfd):
    monkeypatch.setenv("WHEELSMITH_CXX_STANDARD", "20")
    (tmp_path / "options").write_text("-O2 -std=c++17")
    if program == "nvcc":
        given = [each for word in given for each in (["-optf", "options"] if word == "@options" else [word])]
    assert called(program, *given, "-c", "a.cpp", "-o", "x")["words"] == [*passed, "-c", "a.cpp", "-o", "x"]
    # The original call, too.
    monkeypatch.setenv("WHEELSMITH_LAUNCHER", launcher.__file__)
    environment = os.environ | {"WHEELSMITH_LAUNCHED": "1"}
    subprocess.run([program, *given, "-c", "a.cpp", "-o", "x"], env=environment, check=True)
    assert capfd.readouterr().out == f"the compiler itself: {' '.join(passed)} -c a.cpp -o x\n"


def test_one_that_is_not_named_is_the_compilers_and_may_be_too_old(called, monkeypatch):
    """CMake leaves out a standard that is the compiler's default."""
    assert called("gcc", "-c", "a.cpp", "-o", "x")["words"] == ["-c", "a.cpp", "-o", "x"]
    monkeypatch.setenv("WHEELSMITH_CXX_STANDARD", "20")
    assert called("gcc", "-c", "a.cpp", "-o", "x")["words"] == ["-std=gnu++20", "-c", "a.cpp", "-o", "x"]
    assert called("nvcc", "-c", "a.cu", "-o", "x")["words"] == ["-std=c++20", "-c", "a.cu", "-o", "x"]
    assert called("gcc", "-c", "a.c", "-o", "x")["words"] == ["-c", "a.c", "-o", "x"]
    assert called("gcc", "a.o", "-o", "x")["words"] == ["a.o", "-o", "x"]


def test_nvccs_variables_name_a_standard_too(called, monkeypatch):
    monkeypatch.setenv("WHEELSMITH_CXX_STANDARD", "20")
    monkeypatch.setenv("NVCC_APPEND_FLAGS", "-O2 --std=c++17")
    assert called("nvcc", "-c", "a.cu", "-o", "x")["words"][-2:] == ["-O2", "--std=c++20"]
