"""Calls of compilers as build systems make them, and the steps that they are."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wheelsmith.model import StepKind
from wheelsmith.plan.recipe.compiler_call import compiler_call, without_debug_information
from wheelsmith.plan.recipe.phases import NotSplittableError

NVCC = "/opt/cuda/bin/nvcc"


def call(text, program="g++"):
    return compiler_call(program, tuple(text.split()), nvcc=NVCC)


def test_a_call_of_setuptools():
    made = call("-fPIC -g -O2 -Wall -I/usr/include/py -DX=1 -c csrc/a.cpp -o build/temp/csrc/a.o -O3 -std=c++17")
    assert made.step.kind is StepKind.CXX
    assert made.step.argv == (
        *("g++", "-fPIC", "-g", "-O2", "-Wall", "-I/usr/include/py", "-DX=1", "-O3", "-std=c++17"),
        *("-c", "csrc/a.cpp", "-o", "build/obj/a.cpp.o"),
    )
    assert (made.source, made.output, made.dependency_options) == ("csrc/a.cpp", "build/temp/csrc/a.o", ())


def test_only_debug_information_of_the_host_is_left_out():
    made = without_debug_information(call("-fno-g -g -O2 -g2 -I-g -g0 -c a.cpp -o a.o"))
    assert made.step.argv[1:-4] == ("-fno-g", "-O2", "-I-g", "-g0")
    cuda = call("-g -c a.cu -o a.o", "nvcc")
    assert without_debug_information(cuda) == cuda


def test_a_call_of_torchs_ninja_file():
    made = call(
        "--generate-dependencies-with-compile --dependency-output /b/a.o.d -I/opt/torch/include -D__CUDA_NO_HALF2__ "
        "--expt-relaxed-constexpr --compiler-options -fPIC -O3 --threads 4 -gencode arch=compute_90,code=sm_90 "
        "-ccbin gcc -std=c++17 -objtemp -c /work/src/a.cu -o /b/a.o",
        "nvcc",
    )
    assert made.step.argv == (
        *(NVCC, "-ccbin", "gcc", "-I/opt/torch/include", "-D__CUDA_NO_HALF2__", "--expt-relaxed-constexpr"),
        *("-Xcompiler", "-fPIC", "-O3", "-gencode", "arch=compute_90,code=sm_90", "-std=c++17", "-objtemp"),
        *("-c", "/work/src/a.cu", "-o", "build/obj/a.cu.o"),
    )
    assert made.dependency_options == ("-MD", "-MF", "/b/a.o.d", "-MQ", "/b/a.o")


@pytest.mark.parametrize("quoted", ["-fPIC", "'-fPIC'", '"-fPIC"'])
def test_a_call_of_torch_without_ninja(quoted):
    """It quotes for the shell that nvcc pastes its commands together for."""
    for words in (f"--compiler-options {quoted}", f"-Xcompiler={quoted}"):
        made = call(f"-Iinclude -c a.cu -o a.o {words} -O3 -gencode=arch=compute_90,code=sm_90 -ccbin gcc", "nvcc")
        assert made.step.argv[3:6] == ("-Iinclude", "-Xcompiler", "-fPIC")
    with pytest.raises(NotSplittableError):
        call(f"-c a.cu -o a.o -Xcompiler {quoted[:-1]}-wrapper,sh{quoted[-1]}", "nvcc")


@pytest.mark.parametrize("value", ["-fPIC,-O2", "-fPIC -O2", "\"-fPIC\",'-O2'", ",-fPIC,,-O2,", '-fP""IC -O2'])
def test_options_for_the_host_are_split_as_nvcc_splits_them(value):
    for words in (("-Xcompiler", value), (f"--compiler-options={value}",)):
        made = compiler_call("nvcc", ("-c", "a.cu", "-o", "a.o", *words), nvcc=NVCC)
        assert made.step.argv[3:7] == ("-Xcompiler", "-fPIC", "-Xcompiler", "-O2")
    with pytest.raises(NotSplittableError):
        compiler_call("nvcc", ("-c", "a.cu", "-o", "a.o", "-Xcompiler", f"{value} -Werror,-O1"), nvcc=NVCC)


def test_a_call_of_cmake():
    made = call(
        "-forward-unknown-to-host-compiler -DA -isystem /opt/cuda/include -O3 -DNDEBUG -std=c++17 "
        "--generate-code=arch=compute_90,code=[compute_90,sm_90] -Xcompiler=-fPIC "
        "-MD -MT o/a.cu.o -MF o/a.cu.o.d -x cu -c /work/src/a.cu -o o/a.cu.o",
        "nvcc",
    )
    assert made.dependency_options == ("-MD", "-MT", "o/a.cu.o", "-MF", "o/a.cu.o.d")
    assert made.step.argv[-7:-4] == ("-x", "cu", "-objtemp")


def test_a_listing_without_names_has_those_of_the_compiler():
    assert call("-MMD -c a.cpp -o o/a.o").dependency_options == ("-MMD", "-MF", "o/a.d", "-MQ", "o/a.o")
    assert call("-MF x.d -c a.cpp -o o/a.o").dependency_options == ()


@pytest.mark.parametrize("output", [".", "..", "/", "a/", ""])
def test_a_listing_of_an_output_that_is_no_file_is_an_answer_too(output):
    made = compiler_call("g++", ("-MD", "-c", "a.cpp", "-o", output), nvcc=None)
    assert made.dependency_options[0] == "-MD"


def test_c_is_compiled_as_c():
    assert call("-c a.c -o a.o", "gcc").step.argv == ("gcc", "-xc", "-c", "a.c", "-o", "build/obj/a.c.o")
    assert call("-c a.cc -o a.o", "gcc").step.argv == ("gcc", "-c", "a.cc", "-o", "build/obj/a.cc.o")

    assert call("-c a.c -o a.o", "g++").step.argv == ("g++", "-c", "a.c", "-o", "build/obj/a.c.o")


@pytest.mark.parametrize(
    "option",
    [
        *("-fsyntax-only", "-fstack-usage", "-fopt-info-vec=file", "-fsanitize=address"),
        *("-fdiagnostics-format=sarif-file", "-Werror", "-Werror=misleading-indentation"),
    ],
)
@pytest.mark.parametrize("program", ["gcc", "nvcc"])
def test_what_needs_the_source_or_makes_more_than_an_object_is_the_compilers(option, program):
    suffix, before = (".cu", "-Xcompiler -O2,") if program == "nvcc" else (".c", "")
    with pytest.raises(NotSplittableError):
        call(f"{before}{option} -c a{suffix} -o a.o", program)
    call(f"{before}-Werror=format-security -c a{suffix} -o a.o", program)


@pytest.mark.parametrize("words", [("-c", "a\0.c", "-o", "a.o"), ("-c", "a\udcff.c", "-o", "a.o")])
def test_a_name_that_is_no_text_is_left_to_the_compiler(words):
    with pytest.raises(NotSplittableError):
        compiler_call("gcc", words, nvcc=None)


def test_an_option_after_the_source_is_not_put_before_it():
    with pytest.raises(NotSplittableError):
        call("-c a.cpp -xc -o a.o")


@pytest.mark.parametrize(
    "text",
    [
        *("", "--version", "-E a.cpp -o a.ii", "a.o b.o -shared -o x.so", "-c a.cpp b.cpp -o x.o", "-c a.cpp"),
        *("-c a.cpp -o /dev/null", "-c a.s -o a.o", "-c a.cu -o a.o", "-c a.cpp -o a.o -o b.o", "-c @a.cpp -o a.o"),
        *("-wrapper sh -c a.cpp -o a.o", "-fplugin=x -c a.cpp -o a.o", "-c a.cpp -o", "-c a.cpp -o a.o -I"),
        *("-B. -c a.cpp -o a.o", "-c a.cpp -o a.o -I @x", "-c a.cpp -o @a", "-g3 -c a.c -o b"),
        *("-c - -o a.o", "-save-temps -c a.cpp -o a.o", "-S a.cpp -o a.s", "-flto -c a.cpp -o a.o"),
    ],
)
def test_what_is_no_plain_compilation_is_left_to_the_compiler(text):
    with pytest.raises(NotSplittableError):
        call(text)


@pytest.mark.parametrize(
    "text",
    [
        *("-c a.cpp -o a.o", "-dc a.cu -o a.o", "-c a.cu -o a.o -rdc=true", "-c a.cu -o a.o -ccbin clang++"),
        *("-c a.cu -o a.o -Xcompiler -wrapper,sh", "-c a.cu -o a.o -Xcompiler=-fplugin=x", "-c a.cu -o a.o -G"),
        *("-c a.cu -o a.o --options-file x", "-c a.cu -o a.o --compiler-bindir=/x/g++", "-c a.cu -o a.o -Xcompiler"),
        *("-dlink a.o -o b.o", "-c a.cu -o a.o --keep", "-ptx a.cu -o a.ptx", "-c a.cu -o a.o -t"),
    ],
)
def test_nor_one_of_nvcc(text):
    with pytest.raises(NotSplittableError):
        call(text, "nvcc")


WORDS = st.lists(
    st.sampled_from(["-c", "-o", "-I", "a.cpp", "a.cu", "-MF", "-MD", "-x", "cu", "-t", "-ccbin", "@f", "-Xcompiler"])
    | st.text(max_size=8),
    max_size=8,
).map(tuple)


@given(st.sampled_from(["gcc", "g++", "nvcc", "sh"]), WORDS)
def test_any_words_are_a_step_or_refused(program, words):
    try:
        made = compiler_call(program, words, nvcc=NVCC)
    except NotSplittableError:
        return
    assert made.step.argv[-4] == "-c"
    assert not any(word.startswith("@") for word in made.step.argv)
    assert made.output in words or any(word.endswith(f"={made.output}") for word in words)
