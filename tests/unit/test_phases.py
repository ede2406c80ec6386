import re
import shlex
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wheelsmith.model import Step, StepKind
from wheelsmith.pipeline.jobs import group_phases
from wheelsmith.plan.recipe.phases import (
    NotSplittableError,
    PhaseKind,
    check_splittable,
    depends_on_machine,
    device_phases,
    dry_run,
    host_phases,
    single_phase,
)

DATA = Path(__file__).parent / "data"
OBJECT = "build/obj/add.cu.o"


def nvcc(*flags: str) -> Step:
    argv = ("/opt/cuda/bin/nvcc", "-ccbin", "g++", "-std=c++17", "-O3", *flags, "-objtemp")
    return Step(kind=StepKind.NVCC, output=OBJECT, inputs=(), argv=(*argv, "-c", "/work/src/add.cu", "-o", OBJECT))


def gxx(*flags: str, source: str = "/work/src/a.cpp") -> Step:
    output = "build/obj/a.cpp.o"
    return Step(kind=StepKind.CXX, output=output, inputs=(), argv=("g++", *flags, "-c", source, "-o", output))


def printed(name: str) -> str:
    return (DATA / f"nvcc-13.0-{name}.txt").read_text()


def test_a_host_step_is_preprocessed_then_compiled():
    text, compile_ = host_phases(gxx("-std=c++17", "-O3", "-DX=1", "-I", "/work/src", "-I/a", "-isystem", "/opt/torch"))
    assert text.argv == (
        *("g++", "-std=c++17", "-O3", "-DX=1", "-I", "/work/src", "-I/a", "-isystem", "/opt/torch"),
        *("-E", "/work/src/a.cpp", "-o", "build/obj/a.cpp.o.ii"),
    )
    # What is preprocessed needs no macros and no folders: whoever has the text has all of them.
    assert compile_.argv == ("g++", "-std=c++17", "-O3", "-c", "build/obj/a.cpp.o.ii", "-o", "build/obj/a.cpp.o")
    assert compile_.reads == {"build/obj/a.cpp.o.ii": "build/obj/a.cpp.o.ii"}


def test_c_stays_c():
    text, compile_ = host_phases(gxx("-xc", "-O3", source="/work/src/a.c"))
    assert "-xc" in text.argv
    assert compile_.argv[-5:] == ("-xcpp-output", "-c", "build/obj/a.cpp.o.i", "-o", "build/obj/a.cpp.o")


def test_nvccs_own_phases():
    phases = device_phases(nvcc(), printed("two-capabilities"))
    assert [phase.name for phase in phases] == [
        *("preprocess", "cudafe++", "preprocess 80", "cicc 80", "ptxas 80"),
        *("preprocess 90a", "cicc 90a", "ptxas 90a", "fatbinary", "g++"),
    ]
    made = dict.fromkeys(name for phase in phases for name in phase.writes)
    assert all(name in made for phase in phases for name in phase.reads.values())
    assert phases[-1].writes == (OBJECT,)
    # The host's code includes what the last capability's cicc wrote for it.
    assert phases[-1].reads[f"{OBJECT}.cudafe1.stub.c"] == f"{OBJECT}.compute_90a.cudafe1.stub.c"
    assert not any("$" in word for phase in phases for word in phase.argv)


@pytest.mark.parametrize("cuda", ["13.0", "13.2", "13.3", "13.5"])
def test_every_toolkit_is_taken_apart(cuda):
    text = (DATA / f"nvcc-{cuda}-two-capabilities.txt").read_text()
    assert [phase.kind for phase in device_phases(nvcc(), text)].count(PhaseKind.CICC) == 2


def test_a_capability_more_changes_nothing_for_the_others():
    one = {phase.name: phase for phase in device_phases(nvcc(), printed("one-capability"))}
    two = {phase.name: phase for phase in device_phases(nvcc(), printed("two-capabilities"))}
    for name in ("cudafe++", "cicc 80", "ptxas 80"):
        assert one[name] == two[name]
    for name in ("fatbinary", "g++"):
        assert one[name].argv != two[name].argv


@pytest.mark.parametrize(
    "line",
    [
        "nvcc fatal   : Unknown option",
        '#$ sh -c "cat /etc/passwd"',
        "#$ nvlink a.o -o b.o",
        '#$ g++ -c -x c++ "evil.cpp" -o "build/obj/add.cu.o"',
        '#$ g++ -E "a.cu" -o "/etc/passwd"',
        "#$ ptxas -arch=sm_80",
        "#$ 'unbalanced",
    ],
)
def test_what_is_not_known_is_not_taken_apart(line):
    with pytest.raises(NotSplittableError):
        device_phases(nvcc(), f"{line}\n{printed('one-capability')}")


def test_a_capability_that_is_a_path_is_not_taken():
    """Names of files are made from it."""
    text = printed("one-capability").replace("-arch compute_80", "-arch compute_../../../../tmp/x")
    assert text != printed("one-capability")
    with pytest.raises(NotSplittableError, match="unexpected name of a capability"):
        device_phases(nvcc(), text)


@given(data=st.data())
def test_a_dry_run_without_one_of_its_lines_is_not_taken(data):
    lines = [line for line in printed("one-capability").splitlines() if not re.match(r"#\$ (rm |[A-Z_]+=)", line)]
    del lines[data.draw(st.integers(0, len(lines) - 1))]
    with pytest.raises(NotSplittableError):
        device_phases(nvcc(), "\n".join(lines))


TAME = [
    *("-O3", "-Ofast", "-DNDEBUG", "-DX=a b", "-UX", "-fPIC", "-fno-gnu-unique", "-fopenmp", "-mavx512f"),
    *("-march=native", "-Wall", "-Wno-psabi", "-w", "-pthread", "--expt-relaxed-constexpr", "--use_fast_math"),
    *("-lineinfo", "-gencode=arch=compute_90a,code=sm_90a", "-maxrregcount=64", "--ptxas-options=-v"),
]
WILD = [
    *("-finput-charset=latin1", "-fmodules-ts", "-fpreprocessed", "-wrapper", "-B/work/src"),
    *("-fplugin=/work/src/x.so", "-fplugin-arg-x-y=z", "-specs=/work/src/s", "@/work/src/flags", "-Wl,-rpath,/x"),
    *("-Wp,-I/x", "-Wa,-a=/work/x", "-fprofile-use=/work/src/p", "-fdump-tree-all", "-include", "-imacros"),
    *("-save-temps", "-M", "-MD", "-o", "/work/src/other.cpp", "-ccbin=evil", "--options-file", "-optf", "-dlto"),
    *("-rdc=true", "-x", "-fuse-ld=/x/ld", "-run", "--keep", "-Xlinker", "", "-fsanitize-blacklist=/x"),
    *("-fcompare-debug=-x"),
]


@pytest.mark.parametrize("flag", TAME)
def test_usual_options_are_tame(flag):
    check_splittable(gxx(flag))
    check_splittable(nvcc(flag))


@pytest.mark.parametrize("flag", WILD)
def test_options_that_run_or_read_things_are_not(flag):
    with pytest.raises(NotSplittableError):
        check_splittable(gxx(flag))
    with pytest.raises(NotSplittableError):
        check_splittable(nvcc(flag))


@pytest.mark.parametrize(
    "words",
    [
        *(("-Xcompiler", value) for value in ("-fPIC,-wrapper,sh", "-B/x", "a.cpp", "-include,x.h")),
        *(("-Xptxas", value) for value in ("--options-file=x", "@x")),
        ("-Xcudafe", "--pch"),
        ("--compiler-options=-fpic,-wrapper,sh",),
        ("-Xcompiler",),
    ],
)
def test_options_in_options_are_looked_at_too(words):
    with pytest.raises(NotSplittableError):
        check_splittable(nvcc(*words))


# What nvcc's commands, which a shell runs, have of a value: tried with `nvcc --dryrun` of CUDA 13.0.
HARMFUL = ["-wrapper sh,-c,x", "-fplugin=x.so", "-specs=x", "@x", "-B/x", "-no-integrated-cpp", "-Wa,@x", "-Wp,@x"]
SPLITS = ["-DX=1 {}", "-DX=1,{}", "-O2\t{}", '"-DX=1" "{}"', "'{}'", "-DX=1\\ {}", "-DX=1 $x{}", "-DX=1;{}"]


@pytest.mark.parametrize("harmful", HARMFUL)
@pytest.mark.parametrize("split", SPLITS)
def test_a_value_is_split_before_it_is_looked_at(split, harmful):
    value = split.format(harmful)
    for words in (("-Xcompiler", value), (f"--compiler-options={value}",)):
        with pytest.raises(NotSplittableError):
            check_splittable(nvcc(*words))


@pytest.mark.parametrize(
    "words",
    [
        # nvcc writes the parts of these as words of their own, without their quotes.
        *(("-DX=1,@x",), ("-D", "X=1,@x"), ("-isystem", "/a,@x"), ("-isystem", '"@x"'), ("-include", "'@x'")),
        # It writes these as they are, in double quotes: a backslash before its own quote ends them too late.
        *(("-I/x\\", '-I" -wrapper sh "'), ('-DX=a\\\\" -wrapper x "b',), ("-DX=$(x)",), ("-DX=`x`",), ("-I/$x",)),
        # It passes these on to the shell.
        *(("-ffile-prefix-map=a -wrapper sh",), ("-ffile-prefix-map=a;x",), ('-DX="',), ("-Xcompiler", "-DX=a>b")),
        ("-Xcompiler", "-DX=1", "-Xcompiler", '"-DY= -wrapper sh"'),
    ],
)
def test_nor_is_one_taken_that_a_shell_would_change(words):
    with pytest.raises(NotSplittableError):
        check_splittable(nvcc("--forward-unknown-to-host-compiler", *words))


@pytest.mark.parametrize(
    "words",
    [
        *(("-Xcompiler", value) for value in ("-fPIC,-O2", "-fPIC -O2", "'-fPIC'", "-DX=/a/b@c:1")),
        *(('-DX="a b"',), ("-DX=(1)",), ("-DX='a'",), ("-I/a b",), ("-ffile-prefix-map=/a@b=/c",)),
    ],
)
def test_usual_values_are_taken(words):
    check_splittable(nvcc(*words))


@pytest.mark.parametrize("make", [gxx, nvcc])
@pytest.mark.parametrize("option", ["-D", "-I", "-Xptxas"])
@pytest.mark.parametrize("value", ["@src/options", "X=1\n#$ sh evil.sh", None])
def test_the_value_of_an_option_is_looked_at_too(make, option, value):
    """g++ puts a file's words in the place of @file wherever that stands; nvcc would print a new line as it is."""
    with pytest.raises(NotSplittableError):
        check_splittable(make(option) if value is None else make(option, value))


@pytest.mark.parametrize("words", [("-ccbin",), ("-ccbin", "g++"), ("-ccbin", "-fplugin=x")])
def test_another_host_compiler_makes_a_step_whole(words):
    with pytest.raises(NotSplittableError):
        check_splittable(gxx(*words))
    with pytest.raises(NotSplittableError):
        check_splittable(nvcc(*words))


def test_code_for_this_very_machine_is_not_kept():
    assert depends_on_machine(gxx("-march=native"))
    assert depends_on_machine(nvcc("-Xcompiler", "-fPIC,-mtune=native"))
    assert depends_on_machine(nvcc("-Xcompiler", "-march=native,-O3"))
    assert depends_on_machine(nvcc("--compiler-options=-mcpu=native,-fopenmp"))
    assert depends_on_machine(gxx("-mcpu=native+crypto"))
    assert not depends_on_machine(gxx("-march=x86-64-v3"))
    assert not depends_on_machine(gxx("-DMAIL=me@example", "-I/work/src"))


@pytest.mark.parametrize("value", ['-march=nat""ive', "-march='native'", "-march=nat\\ive", "-m'arch='na\"tive\""])
@pytest.mark.parametrize("split", ["{}", "-O2,{}", "-O2 {}", "-O2\t{}", '"-O2",{}'])
def test_quotes_do_not_hide_that_code_is_for_this_machine(split, value):
    value = split.format(value)
    for words in (("-Xcompiler", value), (f"--compiler-options={value}",), (f"-Xcompiler={value}",), (value,)):
        assert depends_on_machine(nvcc(*words))


@pytest.mark.parametrize(
    "words",
    [("-Wa,-march=native",), ("-Wp,-O2,-march=native",), ("-Wa,@x",), ("-Wl,@x",), ("-Wp,-DX,@x",)],
)
def test_nor_do_lists_of_options(words):
    assert depends_on_machine(gxx(*words))
    assert depends_on_machine(nvcc(*words))


@pytest.mark.parametrize(
    "words",
    [
        *(("-arch", "native"), ("-arch=native",), ("-Xcompiler", "-march=$x"), ("-Xcompiler", "-march=nativ{e..e}")),
        *(("-Xcompiler", "-O2 `x`"), ("-Xcompiler", '"-O2'), ("-Xcompiler", "-march=x86-64 @x")),
    ],
)
def test_what_a_shell_may_make_of_a_value_is_not_kept(words):
    assert depends_on_machine(nvcc(*words))


@given(st.lists(st.sampled_from(["-march=", "nat", "ive", '"', "'", " ", ",", "-O2", "\\"]), max_size=9).map("".join))
def test_whatever_a_shell_makes_native_of_is_for_this_machine(value):
    """Python's splitter stands for the shell, after nvcc took the commas away."""
    try:
        words = shlex.split(value.replace(",", " "))
    except ValueError:
        return
    if "-march=native" in words:
        assert depends_on_machine(nvcc("-Xcompiler", value))


@pytest.mark.parametrize(
    "words",
    [("@src/options",), ("-Xcompiler", "-fPIC,@src/options"), ("--options-file=src/options",), ("-optf", "src/o")],
)
def test_what_a_file_of_options_may_ask_for_is_not_kept(words):
    """-march=native may stand in it."""
    assert depends_on_machine(nvcc(*words))


def test_in_a_sandbox_that_starts_slowly_phases_run_together():
    phases = device_phases(nvcc(), printed("two-capabilities"))
    texts, compile_ = group_phases(phases, together=True)
    assert [phase.kind for phase in texts.phases] == [PhaseKind.PREPROCESS] * 3
    assert set(compile_.reads.values()) == set(texts.writes)
    assert compile_.writes == (OBJECT,)
    assert not compile_.reads_anything
    (only,) = group_phases(single_phase(nvcc()), together=True)
    assert only.reads_anything
    assert len(group_phases(phases, together=False)) == len(phases)


def test_threads_are_of_whole_calls_alone():
    for flags in (("--threads=4",), ("--threads", "4"), ("-t", "2"), ("-t=2",)):
        step = nvcc(*flags)
        check_splittable(step)
        assert dry_run(step) == dry_run(nvcc())
    with pytest.raises(NotSplittableError):
        check_splittable(nvcc("--threads", "-ccbin"))
