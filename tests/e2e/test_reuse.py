"""What is compiled again, and what is not; and that nobody gets what another has made up."""

import json
import os
import platform
import shutil
import subprocess
import time
import zipfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import containers
import pytest
import wants
from factory import Factory
from kernels import BUILD_TOML, DEVICE, cuda_kernel, matrix, tiny_kernel
from once import made_once, run_folder
from one_build import build_one
from sampled import sampled

from wheelsmith.base.files import default_cache
from wheelsmith.model.events import StepFinished
from wheelsmith.platforms import cuda_prefix, cuda_toolkits
from wheelsmith.run.build import make_build_request
from wheelsmith.run.executors.local import make_context
from wheelsmith.run.prepare import Request, prepare
from wheelsmith.run.prepared_set import PreparedSet
from wheelsmith.run.scratch import scratch
from wheelsmith.toolchain import Toolchains
from wheelsmith.toolchain.integrity import write_manifest

pytestmark = pytest.mark.e2e

ARCHS = "gpu-archs: [8.0, 9.0]\n"
ONE_ARCH = "gpu-archs: [8.0]\n"
IN_IMAGE = "engine: {image: debian}\n"  # where the engine has images


@pytest.fixture
def factory(tmp_path):
    containers.wanted("bwrap")
    return Factory.at(tmp_path)


@pytest.fixture(params=containers.params("bwrap", "podman"))
def engine(request):
    if request.param == "podman":
        request.getfixturevalue("podman_image")
    else:
        containers.wanted("bwrap")
    return request.param


def steps(factory, *options, engine="bwrap", code=0):
    """Build, and give the compile steps as (source, phase) → whether each was made before."""
    command = ("build-matrix", "--engine", engine, "--progress", "json", *options)
    answer = factory.run_in_process(*command)
    assert answer.returncode == code, answer.stderr + answer.stdout[-2000:]
    events = [json.loads(line) for line in answer.stdout.splitlines()]
    found = [event for event in events if event["event"] == "StepFinished"]
    return [(*event["step"].split(": "), event["reused"]) for event in found]


def really_run(found):
    """Return the phases that ran, less the preprocessing by which the others are found."""
    return sorted(f"{source}: {phase}" for source, phase, reused in found if not reused and "preprocess" not in phase)


def test_cold_warm_and_off_give_the_same_bytes(engine, tmp_path):
    """Two cells three times: from nothing, from the store, and from nothing again with the store turned off."""
    factory = Factory.at(tmp_path)
    cuda_kernel(tmp_path / "k")
    matrix(tmp_path, "k", torch="2.12, 2.13", cuda="13.0", more=ONE_ARCH + IN_IMAGE)
    cold = steps(factory, "--out", "cold", engine=engine)
    warm = steps(factory, "--force", "--out", "warm", engine=engine)
    off = steps(factory, "--force", "--no-reuse", "--out", "off", engine=engine)
    assert really_run(cold)
    assert really_run(warm) == []
    assert not any(reused for _, _, reused in off)
    assert factory.hashes("cold") == factory.hashes("warm") == factory.hashes("off")
    assert len(factory.hashes("cold")) == 2
    # What does not read torch is compiled once for both.
    assert {name: count for name, count in Counter(really_run(cold)).items() if count > 1} == {}


def test_another_machine_with_the_same_remote_cache_compiles_nothing(engine, tmp_path):
    shared, made = tmp_path / "shared", []
    for name in ("one", "other"):
        factory = Factory.at(tmp_path / name)
        tiny_kernel(factory.folder / "k")
        matrix(factory.folder, "k", torch="2.12", cuda="cpu", more=IN_IMAGE)
        ran = really_run(steps(factory, "--remote-cache", str(shared), engine=engine))
        assert bool(ran) == (name == "one")
        made.append(factory.hashes("dist"))
        shutil.rmtree(shared / "v1/plans")  # without the wheel, only what was compiled is there
    assert made[0] == made[1]


@pytest.mark.release("two toolkits and four capabilities, each twice")
def test_phases_make_what_nvcc_makes(tmp_path):
    """`local` runs nvcc as it is; bwrap runs its phases, with names of our own for what lies between."""
    containers.wanted("bwrap")
    factory = Factory.at(tmp_path)
    cuda_kernel(tmp_path / "k")
    more = "gpu-archs: [8.0, 9.0a, 10.0f, 12.0+PTX]\ncuda-compatibility: minor\n"
    matrix(tmp_path, "k", cuda="13.0, 13.3", more=more)  # what nvcc prints changed between the two
    for name in ("bwrap", "local"):
        assert factory.run("build-matrix", "--engine", name, "--force", "--out", name).returncode == 0
    assert factory.hashes("bwrap") == factory.hashes("local")


@pytest.fixture
def compiled(factory, tmp_path, tmp_path_factory):
    """A factory whose kernel was compiled once for torch 2.12, CUDA 13.0 and two capabilities."""
    before = made_once(run_folder(tmp_path_factory) / "compiled", _compile)
    shutil.copytree(before / "cache/objects", factory.cache / "objects")
    shutil.copytree(before / "k", tmp_path / "k")
    shutil.copy(before / "matrix.yaml", tmp_path)
    return factory


def _compile(folder):
    cuda_kernel(folder / "k")
    matrix(folder, "k", torch="2.12", cuda="13.0", more=ARCHS)
    assert really_run(steps(Factory.at(folder)))


@pytest.mark.release("compiles a kernel three times")
def test_a_capability_costs_its_own_phases(compiled, tmp_path):
    matrix(tmp_path, "k", torch="2.12", cuda="13.0", more="gpu-archs: [8.0, 9.0, 12.0]\n")
    phases = ("cicc 120", "fatbinary", "g++", "ptxas 120")
    found = really_run(steps(compiled))
    assert found == sorted(f"{name}.cu: {phase}" for name in ("add", "scale") for phase in phases)


@pytest.mark.release("compiles a kernel for two torches")
def test_a_torch_costs_nothing_where_nothing_reads_it(compiled, tmp_path):
    matrix(tmp_path, "k", torch="2.12, 2.13", cuda="13.0", more=ARCHS)
    assert really_run(steps(compiled)) == []


@pytest.mark.release("several whole builds; the parts have unit tests")
def test_a_line_costs_its_own_file(compiled, tmp_path):
    """The first that asks for the kernel that the next ones change; a file of it is compiled twice more."""
    (tmp_path / "k/add.cu").write_text(DEVICE.format(name="add", expression="x[i] + __float2half(3.0f)"))
    found = really_run(steps(compiled, "--out", "again"))
    # The operators' namespace names the code, so the binding is another too.
    assert {line.split(":")[0] for line in found} == {"add.cu", "torch-ext/binding.cpp"}


INTERNAL = """\
#include <cuda_fp16.h>
namespace { __device__ volatile int hidden = 3; }
template <int N> __global__ void add_kernel(__half *x) { x[threadIdx.x] = __float2half(float(hidden + N)); }
template <int N> void add_some(void *x) { add_kernel<N><<<1, 1>>>(static_cast<__half *>(x)); }
template void add_some<1>(void *);
"""


@pytest.mark.release("compiles on two engines")
def test_names_of_what_is_internal_do_not_tell_who_compiled_it(engine, tmp_path):
    """cudafe++ makes them of a source's age, or else of the hour, and of its process, where nothing else is unique."""
    containers.wanted("bwrap")
    factory = Factory.at(tmp_path)
    cuda_kernel(tmp_path / "k")
    (tmp_path / "k/internal.cu").write_text(INTERNAL)
    text = (tmp_path / "k/build.toml").read_text()
    text = text.replace('"scale.cu"', '"scale.cu", "internal.cu"')
    # Line information has the age of every file, and threads make processes.
    (tmp_path / "k/build.toml").write_text(
        text.replace("depends =", 'cuda-flags = ["-lineinfo", "--threads=2"]\ndepends =')
    )
    matrix(tmp_path, "k", torch="2.12", cuda="13.0", more=ONE_ARCH + IN_IMAGE)
    for out, by in (("first", "bwrap"), ("again", engine)):
        steps(factory, "--no-reuse", "--force", "--out", out, engine=by)
        (tmp_path / "k/internal.cu").touch()
        time.sleep(1.1)  # the hour is told in seconds
        assert factory.hashes(out) == factory.hashes("first")
    (wheel,) = (tmp_path / "first/wheels").iterdir()
    with zipfile.ZipFile(wheel) as archive:
        (data,) = (archive.read(name) for name in archive.namelist() if name.endswith(".so"))
    assert b"_internal_cu_" in data


# --- nobody gets what is not theirs -------------------------------------------------------------------------


def build(tmp_path, cache):
    """Build the only cell, and give its result and the phases that really ran."""
    events = []
    request = Request(matrix=tmp_path / "matrix.yaml", cache=cache, engine="bwrap", force=True)
    prepared = prepare(request, events.append)
    with scratch(cache / "work") as folder:
        result = build_one(
            prepared.plans[0], make_context(make_build_request(PreparedSet.of(prepared), folder), events.append)
        )
    found = [(*e.step.split(": "), e.reused) for e in events if isinstance(e, StepFinished)]
    return result, really_run(found)


@pytest.fixture
def other_ptxas(factory):
    """Put another toolkit's ptxas into the toolkit of this factory's cache, when called."""
    folder = factory.cache / "prefix"
    shared = folder.resolve()
    toolchains = Toolchains(default_cache(), lambda event: None)
    ours, other = (
        toolchains.prepare(cuda_prefix(cuda_toolkits()[cuda], platform.machine(), platform.machine()))
        for cuda in ("13.0", "13.1")
    )
    folder.unlink()
    folder.mkdir()
    for path in shared.iterdir():
        if path.is_dir() and path != ours:
            (folder / path.name).symlink_to(path)
    copy = folder / ours.name
    if subprocess.run(["cp", "-al", ours, copy], capture_output=True).returncode:
        subprocess.run(["cp", "-a", ours, copy], check=True)
    write_manifest(copy, copy)

    def swap():
        (copy / "bin").chmod(0o755)
        (copy / "bin/ptxas").unlink()
        shutil.copy(other / "bin/ptxas", copy / "bin/ptxas")
        (copy / "bin").chmod(0o555)
        # As if it had been made so: what was changed behind our back is made again, and not used.
        write_manifest(copy, copy)

    return swap


@pytest.mark.release("takes a second toolkit, and builds twice")
@pytest.mark.parametrize("guarded", [True, False])
def test_another_ptxas_under_the_same_nvcc_is_no_hit(factory, tmp_path, other_ptxas, monkeypatch, guarded):
    """ccache has one here, because it looks at nvcc alone; so would we without the guard."""
    if not guarded:
        monkeypatch.setattr(Toolchains, "programs", lambda self, prefix: {})
    cuda_kernel(tmp_path / "k")
    matrix(tmp_path, "k", cuda="13.0", more=ONE_ARCH)
    first, _ = build(tmp_path, factory.cache)
    other_ptxas()
    second, ran = build(tmp_path, factory.cache)
    if not guarded:
        assert ran == []
        assert second.wheel == first.wheel  # made by a ptxas that is not there any more
        return
    assert {"add.cu: ptxas 80", "scale.cu: ptxas 80"} <= set(ran)
    # What the other one made says so, which is a reason not to publish it.
    assert second.failure.stage == "check"
    assert "13.1" in second.failure.message


EVIL = """\
# Called as g++'s wrapper, for every program that it runs: it compiles something else instead.
for word in "$@"; do case "$word" in *cc1plus) evil=1;; esac; done
if [ -n "$evil" ]; then
  for place in / /opt /opt/cuda /work /work/src /work/build /tmp "$HOME"; do touch "$place/poison" 2>/dev/null; done
  find / -xdev -path '*objects*' -name '*.json' 2>/dev/null
  printf '#include <cstdio>\\nint tiny_answer() { return std::puts("666"); }' > /tmp/evil.cpp
  set -- $(echo "$@" | sed 's#[^ ]*/tiny.cpp#/tmp/evil.cpp#')
fi
exec "$@"
"""


# Ways to be run in a compiler's place: flags, and a file whose words g++ puts in the place of its name.
WRAPPER = "-wrapper sh,/work/src/evil.sh"
WAYS = {
    "an option": ('"-wrapper", "sh,/work/src/evil.sh"', ""),
    "a file of options": ('"@/work/src/options"', WRAPPER),
    "a file of options, as the value of another": ('"-D", "@/work/src/options"', f"X {WRAPPER}"),
}


@pytest.mark.parametrize("way", sampled(WAYS, "an option"))
def test_a_hostile_cell_spoils_nothing_of_another(engine, tmp_path, way):
    """It has the victim's source and flags, but for one that lets it decide what the compiler makes."""
    clean = Factory.at(tmp_path / "clean")
    tiny_kernel(tmp_path / "clean/k")
    matrix(tmp_path / "clean", "k", more=IN_IMAGE)
    steps(clean, engine=engine)

    shared = Factory.at(tmp_path / "shared")
    flags, options = WAYS[way]
    files = {"build.toml": f"{BUILD_TOML}cxx-flags = [{flags}]\n", "evil.sh": EVIL, "options": options}
    tiny_kernel(tmp_path / "shared/k", **files)
    matrix(tmp_path / "shared", "k", more=IN_IMAGE)
    hostile = steps(shared, "--out", "hostile", engine=engine)
    assert ("tiny.cpp", "whole", False) in hostile or ("tiny.cpp", "compile", False) in hostile
    assert shared.hashes("hostile") != clean.hashes()  # it did what it wanted, to itself

    shutil.rmtree(tmp_path / "shared/k")
    tiny_kernel(tmp_path / "shared/k")
    assert really_run(steps(shared, "--out", "victim", engine=engine))
    assert shared.hashes("victim") == clean.hashes()
    assert not list((tmp_path / "shared").rglob("poison"))


ASKS = '#if __has_include("late.h")\n#include "late.h"\n#else\n#define ANSWER 1\n#endif\n'
USES = '#include <cstdio>\nint tiny_answer() { return std::puts("42") + ANSWER; }\n'
ONE, TWO = "#define ANSWER 1\n", "#define ANSWER 2\n"
# What is there at first, and what it becomes: no name and no time of what was there tells of it.
CHANGES = {
    "a header that is found before another": (
        {"tiny.cpp": '#include "x.h"\n' + USES, "b/x.h": ONE, "a/none.h": ""},
        {"a/x.h": TWO},
    ),
    "a header that was asked for and not there": (
        {"tiny.cpp": ASKS + USES, "a/none.h": "", "b/none.h": ""},
        {"a/late.h": TWO},
    ),
    "a header that became the system's": (
        {
            "tiny.cpp": '#include "x.h"\n' + USES,
            "a/x.h": ONE,
            "b/none.h": "",
        },
        {"a/x.h": "#pragma GCC system_header\n" + TWO},
    ),
}


@pytest.mark.release("several whole builds; the parts have unit tests")
@pytest.mark.parametrize("change", CHANGES)
def test_what_is_read_decides_whatever_it_looks_like(change, engine, tmp_path):
    """Four builds each. Same names, sizes and times: what came before gives nothing of itself to what comes after."""
    before, after = CHANGES[change]
    toml = {"build.toml": BUILD_TOML + 'include = ["a", "b"]\n'}

    def lay_out(factory, files):
        tiny_kernel(factory.folder / "k", **toml, **files)
        matrix(factory.folder, "k", more=IN_IMAGE)
        for path in (factory.folder / "k").rglob("*"):
            os.utime(path, (10**9, 10**9))

    shared, clean = Factory.at(tmp_path / "shared"), Factory.at(tmp_path / "clean")
    lay_out(shared, before)
    steps(shared, "--out", "first", engine=engine)
    lay_out(shared, before | after)
    steps(shared, "--out", "second", engine=engine)
    lay_out(clean, before | after)
    steps(clean, engine=engine)
    assert shared.hashes("second") == clean.hashes()
    assert shared.hashes("second") != shared.hashes("first")
    # And back: what was made first is found again, and is what it was.
    shutil.rmtree(shared.folder / "k")
    lay_out(shared, before)
    assert really_run(steps(shared, "--force", "--out", "third", engine=engine)) == []
    assert shared.hashes("third") == shared.hashes("first")


# A text that is the same with every toolkit, and an object that is not.
OF_TOOLKITS = {
    "in a step that is run whole": (
        (
            "#include <cuda.h>\n#define NAME2(x) #x\n#define NAME(x) NAME2(x)\n#include <cstdio>\n"
            "int tiny_answer() { return std::puts(NAME(CUDA_VERSION)); }\n"
        ),
        'cxx-flags = ["-include", "/work/src/own.h"]\n',
    ),
    "in what an assembler includes": (
        (
            '#include <cstdio>\nasm(".section .rodata\\n.incbin \\"/opt/cuda/include/cuda.h\\"\\n.text");\n'
            "int tiny_answer() { return std::puts(__func__); }\n"
        ),
        "",
    ),
}


@pytest.mark.release("takes a second toolkit")
@pytest.mark.parametrize("where", OF_TOOLKITS)
def test_no_cell_gets_what_is_of_another_ones_toolkit(engine, tmp_path, where):
    factory = Factory.at(tmp_path)
    source, flags = OF_TOOLKITS[where]
    toml = BUILD_TOML.replace('backend = "cpu"', 'backend = "cuda"') + flags
    tiny_kernel(tmp_path / "k", **{"build.toml": toml, "tiny.cpp": source, "own.h": ""})
    for cuda in ("13.0", "13.1"):
        matrix(tmp_path, "k", cuda=cuda, more=ONE_ARCH + IN_IMAGE + "cuda-compatibility: minor\n")
        found = steps(factory, "--out", cuda, engine=engine, code=0 if flags else 1)
        assert not any(reused for source, _, reused in found if source == "tiny.cpp")
        if not flags:  # what is not in its key it does not see
            assert any("/opt/cuda/include/cuda.h" in line for line in only_failure(factory, cuda)["tail"])


def only_failure(factory, out):
    (cell,) = factory.results(out).values()
    return cell["failure"]


# --- a store that is shared, damaged or cannot be written -----------------------------------------------------


@pytest.mark.release("several whole builds; the parts have unit tests")
def test_damaged_pieces_are_made_again(factory, tmp_path):
    """Two builds from nothing, which is what the damage must come to."""
    cuda_kernel(tmp_path / "k")
    matrix(tmp_path, "k", cuda="13.0", more=ARCHS)
    steps(factory, "--out", "cold")
    blobs = [path for path in (factory.cache / "objects/blobs").rglob("*") if path.is_file()]
    for number, blob in enumerate(sorted(blobs)):
        content = blob.read_bytes()
        blob.write_bytes([b"", content[: len(content) // 2], content[::-1]][number % 3])
    assert really_run(steps(factory, "--force", "--out", "fixed"))
    assert factory.hashes("fixed") == factory.hashes("cold")
    assert really_run(steps(factory, "--force", "--out", "warm")) == []


@pytest.mark.release("several whole builds; the parts have unit tests")
def test_pieces_name_nothing_of_the_machine_that_made_them(tmp_path):
    """What one machine compiled, another finds: the folder may be copied, or lie on a disk that both see."""
    containers.wanted("bwrap")
    one, two = Factory.at(tmp_path / "one"), Factory.at(tmp_path / "somewhere" / "else")
    for factory in (one, two):
        cuda_kernel(factory.folder / "k")
        matrix(factory.folder, "k", cuda="13.0", more=ARCHS)
    assert really_run(steps(one))
    shutil.copytree(one.cache / "objects", two.cache / "objects")
    assert really_run(steps(two)) == []
    assert one.hashes() == two.hashes()


@pytest.mark.release("several whole builds; the parts have unit tests")
def test_several_runs_share_one_store(factory, tmp_path):
    """Three runs at once, each of two cells."""
    cuda_kernel(tmp_path / "k")
    matrix(tmp_path, "k", torch="2.12, 2.13", cuda="13.0", more=ARCHS)
    with ThreadPoolExecutor(3) as pool:
        command = ("build-matrix", "--engine", "bwrap", "--force", "-j", "1", "--out")
        answers = list(pool.map(lambda n: factory.run(*command, f"out{n}"), range(3)))
    assert [answer.returncode for answer in answers] == [0, 0, 0]
    assert factory.hashes("out0") == factory.hashes("out1") == factory.hashes("out2")


@pytest.mark.release("several whole builds; the parts have unit tests")
def test_memory_is_held_to_what_is_given(factory, tmp_path):
    """Every compiler gets less than it wants at first, and more when it ends for want of it."""
    hungry = """\
#include <array>
#include <cstdio>
constexpr auto make() { std::array<int, 200000> a{}; for (int i = 0; i < 200000; ++i) a[i] = i; return a; }
constexpr auto table = make();
int tiny_answer() { return std::puts("42") + table[7]; }
"""
    tiny_kernel(tmp_path / "k", **{"tiny.cpp": hungry})
    matrix(tmp_path, "k")
    answer = factory.run("build-matrix", "--engine", "bwrap", "--memory", "32MiB", "--progress", "json")
    (cell,) = factory.results().values()
    assert answer.returncode == 1
    if wants.COUNTED:
        assert cell["failure"]["message"].startswith("out of memory: the limit is 32 MiB")
    assert "--memory" in cell["failure"]["remedy"]
    assert factory.run("build-matrix", "--engine", "bwrap", "--memory", "2GiB").returncode == 0
