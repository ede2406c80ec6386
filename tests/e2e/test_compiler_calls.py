"""What a project's build system compiles: once, as tasks of the run, and answered for by nothing that it could change.

Scripts stand for build systems. That real ones are answered so, test_projects and test_complete_toolkits show.
"""

import json
import platform
import re
import subprocess
from dataclasses import replace

import pytest
from compiler_calls import Calls

from wheelsmith.base.files import default_cache
from wheelsmith.engine import Limits
from wheelsmith.pipeline.compiler_ipc import RefusedError
from wheelsmith.pipeline.tasks import MIB
from wheelsmith.platforms import cuda_prefix, cuda_toolkits

pytestmark = pytest.mark.e2e
# It includes what nobody declared, uses what only preprocessing knows, and is large enough to be worth a sandbox.
ONE = '#include <map>\n#include "own.h"\nint one(int x) { std::map<int, int> m{{1, OWN}}; return m[x] + __LINE__; }\n'
TWO = "#include <stdio.h>\nint two(int x) { return x + sizeof(FILE) + GIVEN; }\n"
FILES = {"one.cpp": ONE, "own.h": "#define OWN 7\n", "two.c": TWO, "kernel.cu": ""}
BUILD = (
    "set -e; g++ -O2 -g -Wall -I. -MMD -c one.cpp -o one.o; gcc -DGIVEN=3 -c two.c -o two.o; "
    "g++ -shared one.o two.o -o both.so"
)
HOST = ["preprocess", "g++"]


@pytest.fixture
def calls(tmp_path):
    return Calls(folder=tmp_path, cache=default_cache())


def shared(made):
    return [(kind, reused) for kind, reused in made.kinds if kind not in {"preprocess", "whole"}]


def test_what_is_compiled_is_what_the_compiler_makes(calls, tmp_path):
    made = calls.run(BUILD, FILES)
    assert made.exit.code == 0, made.lines
    assert made.kinds == [(kind, False) for kind in (*HOST, *HOST)]
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    directly = "g++ -O2 -I. -c one.cpp -o one.o; gcc -DGIVEN=3 -c two.c -o two.o"
    subprocess.run(["sh", "-ec", directly], cwd=tmp_path, check=True)
    assert made.read("two.o") == (tmp_path / "two.o").read_bytes()
    # Debug information alone tells where it was compiled.
    for place, object_ in (("ours", made.read("one.o")), ("theirs", (tmp_path / "one.o").read_bytes())):
        (tmp_path / place).write_bytes(object_)
        subprocess.run(["strip", "-g", "-R", ".comment", str(tmp_path / place)], check=True)
    dumps = [
        subprocess.run(["objdump", "-dr", tmp_path / p], check=True, capture_output=True, text=True).stdout
        for p in ("ours", "theirs")
    ]
    assert dumps[0].replace("ours", "") == dumps[1].replace("theirs", "")
    assert re.fullmatch(r"one\.o: one\.cpp own\.h\s*", made.read("one.d").decode())


def test_nothing_is_compiled_twice(calls):
    first, again = calls.run(BUILD, FILES), calls.run(BUILD, FILES)
    assert [reused for _, reused in shared(first)] == [False, False]
    assert [reused for _, reused in shared(again)] == [True, True]
    assert again.read("both.so") == first.read("both.so")
    # What a header says, or a macro, is in the text; where it is built, and how the object is called, is not.
    other = calls.run(BUILD, FILES | {"own.h": "#define OWN 8\n"})
    assert [reused for _, reused in shared(other)] == [False, True]
    moved = calls.run(f"mkdir /tmp/b; cp * /tmp/b; cd /tmp/b; {BUILD.replace('two.o', 'b.o')}; mv b.o /work/src", FILES)
    assert shared(moved) == [("g++", False), ("g++", True)]  # debug information names the folder
    assert moved.read("b.o") == first.read("two.o")


def test_two_builds_at_once_compile_it_once(calls):
    made = calls.run_all([(BUILD, FILES)] * 3)
    assert all(each.exit.code == 0 for each in made), [each.lines for each in made]
    assert sorted(reused for each in made for _, reused in shared(each)) == [False] * 2 + [True] * 4
    assert len({each.read("both.so") for each in made}) == 1


@pytest.mark.parametrize(
    ("command", "kinds"),
    [("g++ -c where.cpp", HOST), ("g++ -flto -c where.cpp", ["whole"]), ("g++ -shared where.cpp", [])],
)
def test_pythons_headers_have_one_name_wherever_they_are(command, kinds, calls):
    """Assertions in them tell where they are, and would name a folder of whoever builds."""
    header = 'const char *where() { return "<" __FILE__ ">"; }\n'
    told = "export WHEELSMITH_PYTHON_HEADERS=/tmp/a; ln -s /work/src /tmp/a; "
    files = {"where.cpp": "#include <where.h>\n", "where.h": header}
    made = calls.run(f"{told} {command} -I/tmp/a -o made", files)
    assert made.exit.code == 0, made.lines
    assert [kind for kind, _ in made.kinds] == kinds
    assert b"/tmp/a" not in made.read("made")
    if "-flto" not in command:
        assert b"</opt/python/include/where.h>" in made.read("made")


@pytest.mark.parametrize(
    "words",
    [
        '-wrapper sh,-c,\'echo evil; exec "$0" "$@"\'',
        "-B. -no-integrated-cpp",
        "@options",
        "-flto",
    ],
)
def test_what_may_run_or_read_more_is_the_compilers_own(words, calls):
    files = FILES | {"options": "-wrapper sh,-c,true", "own.specs": ""}
    made = calls.run(f"g++ {words} -c one.cpp -o one.o; true", files)
    assert made.kinds == [("whole", False)]


def test_a_file_of_options_is_read_where_it_lies(calls):
    made = calls.run("g++ @options", FILES | {"options": "-I. -O2 -c one.cpp '-o' one.o"})
    assert [kind for kind, _ in made.kinds] == HOST
    assert made.exit.code == 0


def test_questions_are_answered_at_once(calls):
    made = calls.run("g++ --version; gcc -dumpmachine; gcc -E two.c | wc -l; g++ -M one.cpp -I. | head -1", FILES)
    assert made.kinds == []
    assert made.exit.code == 0
    assert made.lines[0].startswith("g++ (")


def test_a_mistake_is_told_by_the_compiler_itself(calls):
    """With what it says of macros, which a preprocessed text has lost; and what follows is compiled all the same."""
    wrong = "#define BAD undeclared\nint f() { return BAD; }\n"
    made = calls.run(
        "g++ -c w.cpp -o w.o; echo code $?; g++ -c m.cpp -o m.o; echo code $?; gcc -c two.c -o t.o; echo $?",
        FILES | {"w.cpp": wrong, "m.cpp": '#include "missing.h"\n'},
    )
    text = "\n".join(made.lines)
    assert text.count("code 1") == 2
    assert "in expansion of macro" in text
    assert "missing.h: No such file" in text
    assert not (made.work / "src" / "w.o").exists()


def test_warnings_reach_who_called(calls):
    """CMake asks compilers for an option by whether they warn; also where the object was made before."""
    warned = "int f() { int unused; return 0; }\n"
    for _ in range(2):
        made = calls.run("g++ -Wall -c w.cpp -o w.o 2>&1 | grep -c Wunused", {"w.cpp": warned})
        assert made.lines == ["1"]


def test_an_object_goes_where_it_is_wanted(calls):
    script = "mkdir -p a/b; g++ -I. -c one.cpp -o a/b/x.o; cd a; g++ -I.. -c ../one.cpp -o y.o; {}"
    made = calls.run(script.format("g++ -I.. -c ../one.cpp -o no/x.o"), FILES)
    assert made.exit.code
    assert made.read("a/b/x.o")
    assert made.read("a/y.o")


@pytest.mark.parametrize("option", ["-g", "-g2"])
def test_debug_information_that_a_linker_removes_is_not_made(option, calls):
    build = f"{BUILD.replace('-g', option)} -Xlinker --build-id=none"
    whole = calls.run(build, FILES)
    assert b".debug_info" in whole.read("one.o")
    stripped = replace(calls, linker_options="-Xlinker -s").run(f"{build} -Xlinker -s", FILES)
    assert [kind for kind, _ in stripped.kinds] == [*HOST, *HOST]
    assert b".debug_info" not in stripped.read("one.o")
    directly = whole.work / "src" / "both.so"
    subprocess.run(["strip", directly], check=True)
    linked = whole.work / "ours.so"
    linked.write_bytes(stripped.read("both.so"))
    subprocess.run(["strip", linked], check=True)
    assert directly.read_bytes() == linked.read_bytes()


@pytest.mark.release("runs many builds")
def test_more_builds_than_cores_and_memory_come_to_an_end(tmp_path):
    """What waits holds no core; and of what it holds of memory, none keeps what it waits for from running."""
    calls = Calls(folder=tmp_path, cache=default_cache(), cores=1, memory=200 * MIB)
    made = calls.run_all([(BUILD, FILES | {"own.h": f"#define OWN {n}\n"}) for n in range(4)])
    assert [each.exit.code for each in made] == [0] * 4
    assert all(each.error is None for each in made)


def test_what_a_cell_has_no_memory_for_fails_the_build(tmp_path):
    """By the same words as a kernel's, and not by whether its build system goes on."""
    hungry = (
        "struct A { int v[4000000]; constexpr A() : v() { for (int i = 0; i < 4000000; ++i) v[i] = i; } };\n"
        "constexpr A a;\nint f(int i) { return a.v[i]; }\n"
    )
    calls = Calls(folder=tmp_path, cache=default_cache(), limits=Limits(seconds=60, memory=96 * MIB))
    options = "-fconstexpr-ops-limit=900000000 -fconstexpr-loop-limit=9000000"
    (made,) = calls.run_all([(f"g++ {options} -c big.cpp -o big.o; true", {"big.cpp": hungry})])
    assert "out of memory: the limit is 96 MiB" in str(made.error)


def test_a_build_that_is_over_waits_for_nothing(calls):
    """It leaves calls behind that nobody makes any more."""
    made = calls.run("g++ -I. -c one.cpp -o one.o & sleep 0.2; kill -9 $!; gcc -c two.c -o x.o & exit 3", FILES)
    assert made.exit.code == 3


def test_device_code_is_compiled_in_phases_too(calls):
    """One capability more costs its own phases, and those that join all of them."""
    toolkit = cuda_prefix(cuda_toolkits()["13.0"], platform.machine(), platform.machine())
    source = "__global__ void twice(float *x) { x[threadIdx.x] *= 2; }\nvoid run(float *x) { twice<<<1, 32>>>(x); }\n"
    stand_in = '#!/bin/sh\nexec python3 -IS $WHEELSMITH_LAUNCHER "$0" "$@"\n'
    files = {"kernel.cu": source, "bin/nvcc": stand_in}
    script = (
        "PATH=/work/src/bin:$PATH:/opt/cuda/bin nvcc --generate-dependencies-with-compile --dependency-output k.d "
        "--expt-relaxed-constexpr --compiler-options -fPIC -ccbin gcc --threads 2 {} -c kernel.cu -o out/kernel.o"
    )
    one, two = "-gencode arch=compute_80,code=sm_80", "-gencode=arch=compute_90,code=sm_90"
    files["out/nothing"] = ""
    first = calls.run(script.format(one), files, toolkit=toolkit)
    assert first.exit.code == 0, first.lines
    assert not any(reused for _, reused in first.kinds)
    more = calls.run(script.format(f"{one} {two}"), files, toolkit=toolkit)
    done = [kind for kind, reused in shared(more) if not reused]
    assert sorted(done) == ["cicc", "fatbinary", "g++", "ptxas"]
    assert more.read("k.d").startswith(b"out/kernel.o: kernel.cu")
    assert more.read("out/kernel.o").startswith(b"\x7fELF")


@pytest.mark.release("compiles device code twice")
def test_device_code_that_is_local_to_a_source_has_the_names_that_nvcc_gives_it(calls):
    """After where the source lies: two of one name, in two folders, are linked with each other."""
    toolkit = cuda_prefix(cuda_toolkits()["13.0"], platform.machine(), platform.machine())
    source = "namespace { __global__ void own(float *x) { *x = 1; } }\nvoid run(float *x) { own<<<1, 1>>>(x); }\n"
    stand_in = '#!/bin/sh\nexec python3 -IS $WHEELSMITH_LAUNCHER "$0" "$@"\n'
    compiles = "-gencode arch=compute_80,code=sm_80 -c k.cu -o"
    script = (
        f"export PATH=/work/src/bin:$PATH:/opt/cuda/bin; set -e; cd a; nvcc {compiles} ours.o; "
        f"WHEELSMITH_LAUNCHED=1 /opt/cuda/bin/nvcc -objtemp {compiles} its.o; "
        "for o in ours its; do nm $o.o | cut -c18- | sort > $o; done; cmp ours its"
    )
    made = calls.run(script, {"bin/nvcc": stand_in, "a/k.cu": source}, toolkit=toolkit)
    assert made.exit.code == 0, made.lines
    assert ("cicc", False) in made.kinds


# --- attacks ----------------------------------------------------------------------------------------------------


HONEST = '{"program": "g++", "words": ["-I.", "-O2", "-c", "one.cpp", "-o", "one.o"]}'
ASK = (
    "import json, os, sys, time, pathlib\n"
    "own = pathlib.Path('/work/calls/mine'); own.mkdir()\n"
    "def say(name, text): (own / 'half').write_text(text); (own / 'half').rename(own / name)\n"
    "def hear(n):\n"
    "    while not (own / f'answer-{n}').exists(): time.sleep(0.01)\n"
    "    return json.loads((own / f'answer-{n}').read_text())\n"
)


def test_a_text_that_was_forged_answers_for_itself_alone(calls):
    """A build may hand over any text as one.cpp's; who has the true one gets what that comes to."""
    forged = ASK + (
        f"say('request', {HONEST!r})\n"
        "hear(0); (own / 'text-0').write_text('int one(int x) { return 666; }\\n'); say('done-0', '{\"code\": 0}')\n"
        "hear(1); os.rename(own / 'object', '/work/src/forged.o')\n"
    )
    evil = calls.run("python3 evil.py", FILES | {"evil.py": forged})
    assert evil.exit.code == 0, evil.lines
    assert shared(evil) == [("g++", False)]
    honest = calls.run("g++ -I. -O2 -c one.cpp -o one.o", FILES)
    assert shared(honest) == [("g++", False)]
    assert honest.read("one.o") != evil.read("forged.o")


@pytest.mark.parametrize(
    "text",
    [
        *("os.symlink('/etc/passwd', own / 'text-0')", "os.mkfifo(own / 'text-0')", "os.mkdir(own / 'text-0')"),
        *("os.link(__file__, own / 'text-0')", "pass"),
        "open(own / 'text-0', 'w').truncate(2 << 30)",
    ],
)
def test_a_text_that_is_no_file_is_not_read(text, calls):
    """The compiler is told to do it itself."""
    script = ASK + f"say('request', {HONEST!r})\nhear(0); {text}; say('done-0', '{{\"code\": 0}}')\nprint(hear(1))\n"
    made = calls.run("python3 evil.py", FILES | {"evil.py": script})
    assert made.lines == ["{}"]
    assert made.kinds[-1:] == [] or made.kinds[-1][0] == "whole"


DEEP, SHELL = "[" * 100_000, '{"program": "/bin/sh", "words": ["-c", "x", "-o", "y"]}'


@pytest.mark.parametrize(
    "request_",
    [
        {"places": {"k.cu": "/work/src/" + "a/" * 30_000 + "k.cu"}},
        {"places": {"k.cu": "/work/src/" + "a" * 300 + ".cu"}},
        {"places": {"k.cu": "/work/src/\0.cu"}},
        {"places": {"k.cu": "/work/src/\ud800.cu"}},
        {"words": ["-c", "/work/src/" + "a/" * 30_000 + "k.cu", "-o", "k.o"]},
    ],
    ids=["deep", "long", "NUL", "surrogate", "deep without a place"],
)
def test_a_request_that_no_compiler_makes_fails_its_build_alone(request_, calls):
    """With the reason; another build goes on meanwhile."""
    toolkit = cuda_prefix(cuda_toolkits()["13.0"], platform.machine(), platform.machine())
    said = {"program": "nvcc", "words": ["-c", "k.cu", "-o", "k.o"], **request_}
    script = ASK + f"say('request', {json.dumps(said)!r})\nhear(0); time.sleep(60)\n"
    files = FILES | {"evil.py": script, "k.cu": "void f() {}\n"}
    evil, honest = calls.run_all([("python3 evil.py", files), (BUILD, FILES)], toolkit=toolkit)
    assert isinstance(evil.error, RefusedError)
    assert re.search("a path that is too long|contains NUL or a lone surrogate", str(evil.error))
    assert honest.exit.code == 0


@pytest.mark.parametrize("name", ["answer-0", "answer-1", "object"])
def test_a_folder_in_the_place_of_an_answer_fails_its_build_alone(name, calls):
    script = ASK + (
        f"os.mkdir(own / {name!r}); say('request', {HONEST!r})\n"
        "try: os.system(' '.join(hear(0)['commands'][0])); say('done-0', '{\"code\": 0}')\n"
        "finally: time.sleep(60)\n"
    )
    evil, honest = calls.run_all([("python3 evil.py", FILES | {"evil.py": script}), (BUILD, FILES)])
    assert str(evil.error) == "the answer to a compiler call cannot be written: Is a directory"
    assert honest.exit.code == 0


@pytest.mark.parametrize(
    "evil",
    [
        "rm -rf /work/calls; ln -s /etc /work/calls",
        "mv /work/calls /work/gone",
    ],
)
def test_a_build_that_takes_the_folder_away_fails(evil, calls):
    (made,) = calls.run_all([(f"{evil}; sleep 60", FILES)])
    assert "replaced its calls folder" in str(made.error)


def test_an_answer_is_not_written_through_a_link(calls):
    """Wheelsmith writes as whoever runs it: what it writes to must be in the folder that it holds."""
    script = ASK + (
        "for name in ('answer-0', 'answer-1', 'answer-0~', 'answer-1~', 'object'):\n"
        "    os.symlink('/work/src/two.c', own / name)\n"
        f"say('request', {HONEST!r})\n"
        "while (own / 'answer-0').is_symlink(): time.sleep(0.01)\n"
        "os.system(' '.join(hear(0)['commands'][0])); say('done-0', '{\"code\": 0}')\n"
        "while (own / 'answer-1').is_symlink(): time.sleep(0.01)\n"
        "print((own / 'object').is_symlink())\n"
    )
    made = calls.run("python3 evil.py", FILES | {"evil.py": script})
    assert made.lines == ["False"]
    assert made.read("two.c").decode() == TWO


@pytest.mark.release("waits for time limits")
def test_calls_that_nobody_ends_hold_the_build_alone(tmp_path):
    """They hold cores until the build's own time is over; others come to their turn."""
    calls = Calls(folder=tmp_path, cache=default_cache(), limits=Limits(seconds=20, memory=2048 * MIB))
    script = ASK + f"say('request', {HONEST!r})\nhear(0); time.sleep(60)\n"
    evil, honest = calls.run_all([("python3 evil.py", FILES | {"evil.py": script}), (BUILD, FILES)])
    assert str(evil.error) == "the build ran longer than 20s"
    assert honest.exit.code == 0


def test_a_call_that_was_killed_holds_nothing(tmp_path):
    """Whoever calls may be out of patience; what comes after it has the one core."""
    calls = Calls(folder=tmp_path, cache=default_cache(), cores=1)
    script = ASK + f"import shutil\nsay('request', {HONEST!r})\nhear(0); shutil.rmtree(own)\n"
    made = calls.run("python3 evil.py; g++ -I. -c one.cpp -o one.o", FILES | {"evil.py": script})
    assert made.exit.code == 0
    assert [kind for kind, _ in made.kinds] == HOST


def test_texts_are_kept_no_longer_than_they_are_needed(tmp_path):
    """What does not compile must not stay."""
    calls = Calls(folder=tmp_path, cache=default_cache())
    calls.limits = replace(calls.limits, disk=24 * MIB)
    script = (
        "import shutil\n"
        + ASK.replace("own = pathlib.Path('/work/calls/mine')", "own = pathlib.Path('/work/calls', sys.argv[1])")
        + (
            f"say('request', {HONEST!r})\nhear(0)\n"
            "(own / 'text-0').write_text('not C' + '\\n' * (int(sys.argv[2]) << 20))\n"
            "say('done-0', '{\"code\": 0}'); print(hear(1)); shutil.rmtree(own)\n"
        )
    )
    made = calls.run("for n in 1 2 3 4; do python3 evil.py $n 10; done", FILES | {"evil.py": script})
    assert made.lines == ["{}"] * 4
    # What is no longer kept counts no longer: each was tried.
    assert [kind for kind, _ in made.kinds].count("preprocess") == 4
    assert not [path for path in made.work.parent.glob("calls/**/*") if path.is_file()]


def test_names_of_a_build_do_nothing_to_a_terminal_or_a_log(calls):
    """Bytes that are no text among them."""
    script = (
        "import os\nfor name in (b'a\\x1b[2J.c', b'a\\xff.c', b'a\\n.c'):\n"
        "    open(name, 'w').write('int f;'); os.spawnvp(0, 'gcc', ['gcc', '-c', name, '-o', name + b'.o'])\n"
        "    print(os.path.exists(name + b'.o'))\n"
    )
    made = calls.run("python3 names.py", {"names.py": script})
    assert made.lines == ["True"] * 3
    assert made.exit.code == 0
    assert all(step.step.isprintable() for step in made.steps)
