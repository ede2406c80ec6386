"""Pinned compilers need none of the machine's, and what they make needs no newer C library than the policy has."""

import ctypes
import os
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path
from threading import Event

import pytest
import wants
from factory import Factory
from kernels import matrix, tiny_kernel

from wheelsmith.base.files import default_cache
from wheelsmith.engine import Command, Limits, Mount
from wheelsmith.engine.bwrap import Bubblewrap
from wheelsmith.model import PINNED, ignore
from wheelsmith.platforms import cxx_toolchain
from wheelsmith.toolchain import Toolchains
from wheelsmith.toolchain.cxx.install import find_programs
from wheelsmith.toolchain.cxx.libraries import is_newer
from wheelsmith.wheel.check import check_wheel

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.network,
    pytest.mark.xdist_group("pinned compilers"),
    pytest.mark.skipif(platform.machine() != "x86_64", reason="pins of compilers are for x86_64"),
]
PROJECTS = Path(__file__).parent / "projects"
VERSION = re.compile(r"@([A-Z]+_[\d.]+)")
# What a newer libstdc++ has, and what there must be but one of in a process.
BORDER = """\
#include <condition_variable>
#include <exception>
#include <filesystem>
#include <iostream>
#include <locale>
#include <memory>
#include <memory_resource>
#include <random>
#include <shared_mutex>
#include <sstream>
#include <stdexcept>
#include <thread>
#include <vector>
struct own : std::runtime_error { using std::runtime_error::runtime_error; };
static thread_local int calls = 0;
static std::shared_mutex mutex;
extern "C" {
void throw_own() { throw own("own"); }
void throw_path() { (void)std::filesystem::file_size("/there/is/none"); }
std::exception_ptr *keep(void (*thrower)()) {
  try { thrower(); } catch (...) { return new std::exception_ptr(std::current_exception()); }
  return nullptr;
}
int caught(void (*thrower)()) {
  try { thrower(); }
  catch (const std::filesystem::filesystem_error &error) { return error.code().value(); }
  catch (const std::runtime_error &error) { return 1000; }
  catch (...) { return -1; }
  return 0;
}
int rethrown(std::exception_ptr *kept) {
  try { std::rethrow_exception(*kept); }
  catch (const std::exception &error) { return 2000; }
  return 0;
}
void *cout() { return &std::cout; }
const void *number_format() { return &std::use_facet<std::numpunct<char>>(std::locale()); }
int print(const char *text) { std::cout << text << std::flush; return calls; }
int threads(int number) {
  std::vector<std::thread> running; int sum = 0;
  for (int n = 0; n < number; n++)
    running.emplace_back([&] { calls++; std::unique_lock lock(mutex); sum += calls; });
  for (auto &each : running) each.join();
  return sum;
}
int entries(const char *folder) {
  int found = 0;
  for (auto &each : std::filesystem::directory_iterator(folder)) found += each.is_regular_file();
  return found;
}
double parsed(const char *text) { double value = 0; std::istringstream(text) >> value; return value; }
int from_pool() {
  std::pmr::monotonic_buffer_resource pool;
  return std::pmr::vector<int>(100, 1, &pool)[99];
}
int random_bits() { return std::random_device()() != std::random_device()(); }
}
"""


@pytest.fixture(scope="module")
def toolchain():
    """Return the compilers' folder."""
    return Toolchains(default_cache(), ignore).prepare(cxx_toolchain(PINNED, "2_28", "x86_64", "x86_64").prefix)


@pytest.fixture
def compile_library(tmp_path, toolchain):
    """Return a function that makes a shared library, by the pinned compilers with no other program, or by others."""

    def made(name, source, *options, cxx=toolchain / "bin" / "g++", path=""):
        (tmp_path / f"{name}.cpp").write_text(source)
        command = [cxx, "-std=c++20", "-O2", "-fPIC", "-shared", f"{name}.cpp", "-o", f"{name}.so", *options]
        answer = subprocess.run(command, cwd=tmp_path, env={"PATH": path}, capture_output=True, text=True, check=False)
        assert answer.returncode == 0, answer.stderr[-3000:]
        return tmp_path / f"{name}.so"

    return made


def needed_versions(toolchain, library):
    told = subprocess.run(
        [toolchain / "bin" / "nm", "-D", "--undefined-only", "--with-symbol-versions", library],
        capture_output=True,
        text=True,
        check=True,
    )
    return set(VERSION.findall(told.stdout))


def newer_than_allowed(toolchain, library):
    newest = cxx_toolchain(PINNED, "2_28", "x86_64", "x86_64").policy.newest
    return {version for version in needed_versions(toolchain, library) if is_newer(version, newest)}


def test_all_that_is_newer_in_libstdcxx_can_be_linked_with_and_needs_nothing_newer(toolchain, compile_library):
    everything = ("-Wl,-z,defs", "-Wl,--whole-archive", "-lstdc++_nonshared", "-Wl,--no-whole-archive", "-lpthread")
    library = compile_library("everything", "", *everything)
    assert {"GLIBC_2.2.5", "GLIBCXX_3.4"} <= needed_versions(toolchain, library)
    assert newer_than_allowed(toolchain, library) == set()


def test_what_only_a_newer_c_library_has_cannot_be_linked_with(toolchain, tmp_path):
    (tmp_path / "new.c").write_text("int pidfd_open(int, unsigned);\nint own(void) { return pidfd_open(1, 0); }\n")
    command = [toolchain / "bin" / "gcc", "-fPIC", "-shared", "-Wl,-z,defs", "new.c", "-o", "new.so"]
    answer = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "undefined reference to `pidfd_open'" in answer.stderr


def test_the_newest_version_that_is_allowed_is_linked_with(toolchain, compile_library):
    """There is one of glibc 2.29, too."""
    source = '#include <cmath>\nextern "C" double own(double x) { return std::exp(x); }'
    library = compile_library("math", source)
    assert "GLIBC_2.2.5" in needed_versions(toolchain, library)
    assert newer_than_allowed(toolchain, library) == set()


@pytest.mark.release("compilers run many times; the wheels that they make are tested in the quick tier")
def test_exceptions_streams_files_threads_and_locale_cross_the_border(toolchain, compile_library, tmp_path):
    """Beside a library that the machine's own compiler made, and the machine's newer libstdc++."""
    pinned = ctypes.CDLL(str(compile_library("pinned", BORDER, "-lpthread")))
    other = ctypes.CDLL(str(compile_library("other", BORDER, "-lpthread", cxx="g++", path=os.environ["PATH"])))
    assert newer_than_allowed(toolchain, tmp_path / "pinned.so") == set()
    for here, there in ((pinned, other), (other, pinned)):
        assert here.caught(there.throw_own) == 1000
        assert here.caught(there.throw_path) == 2  # ENOENT
        there.keep.restype = ctypes.c_void_p
        assert here.rethrown(ctypes.c_void_p(there.keep(there.throw_path))) == 2000
        here.parsed.restype = ctypes.c_double
        assert here.parsed(b"2.5") == 2.5
        assert here.threads(8) == 8
        assert here.entries(str(tmp_path).encode()) == 4
        assert here.from_pool() == 1
        assert here.random_bits() == 1
    for there_is_one in ("cout", "number_format"):
        places = [getattr(library, there_is_one) for library in (pinned, other)]
        for place in places:
            place.restype = ctypes.c_void_p
        assert places[0]() == places[1]()


def test_no_link_leads_out(toolchain):
    for path in toolchain.rglob("*"):
        if path.is_symlink():
            assert path.resolve(strict=True).is_relative_to(toolchain), path


@pytest.mark.release("compilers run many times; the wheels that they make are tested in the quick tier")
def test_the_bytes_are_the_same_wherever_it_lies(toolchain, compile_library, tmp_path):
    other = shutil.copytree(toolchain, tmp_path / "elsewhere" / "and deeper", symlinks=True)
    made = {compile_library("same", BORDER, cxx=place / "bin" / "g++").read_bytes() for place in (toolchain, other)}
    assert len(made) == 1


SPEAKING = """\
#include <cmath>
#include <filesystem>
#include <iostream>
int tiny_answer() {
  std::cout << std::exp(std::filesystem::current_path().string().size()) << std::endl;
  return 42;
}
"""


@pytest.mark.release("builds a kernel three times")
def test_a_kernel_is_the_same_wheel_in_and_out_of_a_sandbox(tmp_path):
    factory = Factory.at(tmp_path)
    tiny_kernel(tmp_path / "k", **{"tiny.cpp": SPEAKING})
    matrix(tmp_path, "k", more="toolchain: pinned\n")
    wheels = []
    for engine in ("bwrap", "local"):
        answer = factory.run("build-matrix", "--engine", engine, "--out", engine, "--force", "--no-reuse")
        assert answer.returncode == 0, answer.stderr
        wheels += (tmp_path / engine / "wheels").iterdir()
    assert [wheel.name.rpartition("-")[2] for wheel in wheels] == ["manylinux_2_28_x86_64.whl"] * 2
    assert wheels[0].read_bytes() == wheels[1].read_bytes()
    assert check_wheel(wheels[0]).ok


@pytest.mark.release("an environment with a whole torch")
def test_a_projects_calls_of_compilers_are_of_the_pinned_ones(tmp_path):
    factory = Factory.at(tmp_path)
    shutil.copytree(PROJECTS / "setuptools", tmp_path / "k")
    python = f"{sys.version_info[0]}.{sys.version_info[1]}"
    (tmp_path / "matrix.yaml").write_text(
        f"kernel: {{path: k}}\naxes: {{torch: [2.13], cuda: [cpu, 13.0], python: [{python}]}}\ntoolchain: pinned\n"
        'env: {CAPABILITIES: "{capabilities}"}\nrules:\n- {where: {cuda: "13.0"}, set: {gpu-archs: [9.0]}}\n'
    )
    answer = factory.run("build-matrix", "--engine", "bwrap")
    assert answer.returncode == 0, answer.stderr
    wheels = sorted((tmp_path / "dist" / "wheels").iterdir())
    assert [wheel.name.rpartition("-")[2] for wheel in wheels] == ["manylinux_2_28_x86_64.whl"] * 2
    for wheel in wheels:
        assert check_wheel(wheel).ok


def test_their_programs_run_with_nothing_of_the_machine(toolchain):
    """Not even with its C library: each stands behind a script, which starts it with their own."""
    (loader,) = toolchain.glob("runtime/lib/*/ld-linux-*.so.2")
    libraries = f"{loader.parent}:{next(toolchain.glob('usr/lib/*/libgmp.so.*')).parent}"
    moved = [name for name in find_programs(toolchain) if name.endswith(".bin")]
    assert {Path(name).name for name in moved} >= {"cc1plus.bin", "collect2.bin", "x86_64-linux-gnu-ld.bfd.bin"}
    for name in moved:
        command = [loader, "--inhibit-cache", "--library-path", libraries, "--list", toolchain / name]
        told = subprocess.run(command, env={}, capture_output=True, text=True, check=True).stdout
        found = [Path(line.split(" => ")[1].split()[0]) for line in told.splitlines() if " => " in line]
        assert any(path.name == "libc.so.6" for path in found), name
        assert [path for path in found if not path.resolve().is_relative_to(toolchain)] == []


OTHERS = pytest.mark.release("the same by other options")


@pytest.mark.parametrize(
    "words",
    [
        pytest.param([], marks=OTHERS),
        [
            "-I/usr/include",
            "-isystem",
            "/usr/include/x86_64-linux-gnu/",
            "-I",
            "/usr/include",
            "-idirafter/usr/include",
        ],
        pytest.param(["-L/usr/lib/x86_64-linux-gnu", "-L", "/lib/x86_64-linux-gnu/", "-L/usr/lib"], marks=OTHERS),
        ["/usr/lib/x86_64-linux-gnu/libm.so", "/usr/lib/x86_64-linux-gnu/librt.a", "/lib/x86_64-linux-gnu/libdl.a"],
        pytest.param(
            ["/usr/lib/x86_64-linux-gnu/libm.so.6", "/usr/lib/x86_64-linux-gnu/libdl.so.2", "-I/usr/include/"],
            marks=OTHERS,
        ),
    ],
)
def test_nothing_of_the_machine_is_read_though_a_build_names_its_folders(toolchain, tmp_path, words):
    """As CPython's setup.py does, and CMake for what it found by itself."""
    (tmp_path / "own folder").mkdir()
    (tmp_path / "own folder" / "own.h").write_text("#define OWN 4\n")
    (tmp_path / "main.cpp").write_text(f'#include "own.h"\n{BORDER}int main() {{ return threads(OWN); }}\n')
    kept = ['-DTEXT="a b"', "-I", "own folder", "-pthread", "-L", ".", "-std=c++20", "-MD", "-Wl,--trace"]
    command = [toolchain / "bin/g++", *words, *kept, "main.cpp", *words, "-o", "main"]
    told = subprocess.run(command, cwd=tmp_path, env={}, capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stderr
    read = (tmp_path / "main.d").read_text().replace("\\\n", " ").replace("\\ ", "_").split()[2:]
    linked = [line for line in told.stdout.split() if line.startswith("/")]
    places = {Path(word).resolve() for word in (*read, *linked) if word.startswith("/")}
    assert len(places) > 100
    assert {path for path in places if not path.is_relative_to(toolchain) and not path.name.startswith("cc")} == set()
    assert subprocess.run([tmp_path / "main"], check=False).returncode == 4
    assert newer_than_allowed(toolchain, tmp_path / "main") == set()


def test_a_library_that_only_the_machine_has_is_not_linked_with(toolchain, tmp_path):
    (tmp_path / "main.c").write_text("int main(void) { return 0; }\n")
    command = [toolchain / "bin" / "gcc", "main.c", "/usr/lib/x86_64-linux-gnu/libonly-here.so", "-o", "main"]
    told = subprocess.run(command, cwd=tmp_path, env={}, capture_output=True, text=True, check=False)
    assert "cannot find -lonly-here" in told.stderr


def test_values_of_other_options_are_left_as_they_are(toolchain, tmp_path):
    (tmp_path / "main.c").write_text("int main(void) { return LIBRARY[0] != '/'; }\n")
    value = 'LIBRARY="/usr/lib/libq.so"'
    command = [toolchain / "bin" / "gcc", "-I/usr/include", "-D", value, "-MD", "-MT", "/usr/lib/libq.so", "-MF", "a.d"]
    subprocess.run([*command, "main.c", "-Xlinker", "-L/usr/lib", "-o", "main"], cwd=tmp_path, env={}, check=True)
    assert (tmp_path / "a.d").read_text().startswith("/usr/lib/libq.so: main.c")
    assert subprocess.run([tmp_path / "main"], check=False).returncode == 0


@pytest.mark.parametrize("program", ["./g++", "../bin/g++", "../../{name}/bin/g++"])
def test_it_may_be_called_by_a_relative_path(toolchain, program):
    command = [program.format(name=toolchain.name), "-dumpversion"]
    assert subprocess.run(command, cwd=toolchain / "bin", capture_output=True, text=True, check=True).stdout == "12\n"


TIMED = """\
#include <bits/stdc++.h>
using namespace std::chrono_literals;
int main() {
  std::timed_mutex one; std::shared_timed_mutex two; std::mutex three; std::condition_variable four;
  std::unique_lock<std::mutex> held(three);
  return one.try_lock_for(1ms) + two.try_lock_shared_for(1ms) + (four.wait_for(held, 1ms) == std::cv_status::timeout);
}
"""


@pytest.mark.release("compilers run many times; the wheels that they make are tested in the quick tier")
def test_headers_ask_for_no_call_that_the_policys_c_library_lacks(toolchain, tmp_path):
    """As timed waits did, which glibc has had by another name since 2.30: the compiler itself was made beside 2.36."""
    (tmp_path / "main.cpp").write_text(TIMED)
    command = [toolchain / "bin" / "g++", "-std=c++20", "main.cpp", "-o", "main", "-pthread"]
    subprocess.run(command, cwd=tmp_path, env={}, check=True)
    assert subprocess.run([tmp_path / "main"], check=False).returncode == 3


@pytest.mark.release("compilers run many times; the wheels that they make are tested in the quick tier")
def test_a_wheel_that_needs_what_only_a_newer_c_library_has_is_refused(tmp_path):
    """The linker leaves a symbol that it does not find in a shared library without a version."""
    factory = Factory.at(tmp_path)
    call = 'extern "C" int pidfd_open(int, unsigned);\n#include <cstdio>\n'
    call += 'int tiny_answer() { return std::puts("42") + pidfd_open(1, 0); }\n'
    tiny_kernel(tmp_path / "k", **{"tiny.cpp": call})
    matrix(tmp_path, "k")
    answer = factory.run("build-matrix", "--engine", "bwrap")
    assert answer.returncode == 1
    assert "the tag is manylinux_2_28_x86_64" in answer.stderr
    assert "pidfd_open exists since GLIBC_2.36" in answer.stderr


LOOKING = """\
import os, subprocess
for folder in ("/usr/include", "/usr/lib/gcc", "/usr/lib/x86_64-linux-gnu/pkgconfig", "/usr/share/pkgconfig"):
    names = os.listdir(folder) if os.path.isdir(folder) else []
    print("seen", [name for name in names if not name.startswith(("python", "x86_64"))])
open("a.cpp", "w").write("int own;")
print("compiled", subprocess.run(["/usr/bin/g++", "-c", "a.cpp"], capture_output=True).returncode == 0)
"""


@pytest.mark.parametrize("brings", [True, False])
def test_a_build_sees_nothing_of_the_machine_to_compile_or_to_link_with(tmp_path, brings):
    """But for the headers of its Python; a build that brings no compilers sees all of it."""
    wants.program("g++")
    (tmp_path / "work").mkdir()
    command = Command(
        name="looking",
        argv=("python3", "-c", LOOKING),
        mounts=(Mount(source=tmp_path / "work", target="/work", writable=True),),
        env={},
        workdir="/work",
        limits=Limits(seconds=60.0),
        brings_compilers=brings,
    )
    lines = []
    assert Bubblewrap().run(command, lines.append, Event()).ok, lines
    assert lines[-1] == f"compiled {not brings}"
    assert (lines[:-1] == ["seen []"] * 4) == brings


@pytest.mark.release("other compilers of 47 MB")
def test_a_wheel_for_aarch64_keeps_to_the_policy(tmp_path):
    factory = Factory.at(tmp_path)
    tiny_kernel(tmp_path / "k", **{"tiny.cpp": SPEAKING})
    matrix(tmp_path, "k", more="toolchain: pinned\n")
    text = (tmp_path / "matrix.yaml").read_text()
    (tmp_path / "matrix.yaml").write_text(text.replace("axes: {", "axes: {arch: [aarch64], "))
    answer = factory.run("build-matrix", "--engine", "bwrap")
    assert answer.returncode == 0, answer.stderr
    (wheel,) = (tmp_path / "dist" / "wheels").iterdir()
    assert wheel.name.endswith("-manylinux_2_28_aarch64.whl")
    assert check_wheel(wheel).ok


NEWER = '#include <unistd.h>\nextern "C" int {call}();\nint main() {{ return {call}() == 0; }}\n'


@pytest.mark.release("another C library of 7 MB")
def test_a_newer_policy_has_what_it_allows_and_nothing_more(tmp_path):
    """_Fork is there from 2.34 on; what came with 2.35 and 2.36 the linker does not find."""
    newer = Toolchains(default_cache(), ignore).prepare(cxx_toolchain(PINNED, "2_34", "x86_64", "x86_64").prefix)

    def links(call):
        (tmp_path / "main.cpp").write_text(NEWER.format(call=call))
        command = [newer / "bin" / "g++", "main.cpp", "-o", "main"]
        return subprocess.run(command, cwd=tmp_path, env={}, capture_output=True, check=False).returncode == 0

    calls = ("gettid", "_Fork", "epoll_pwait2", "pidfd_open")
    assert [call for call in calls if links(call)] == ["gettid", "_Fork"]
    (tmp_path / "timed.cpp").write_text(TIMED)
    command = [newer / "bin" / "g++", "-std=c++20", "timed.cpp", "-o", "timed", "-pthread"]
    subprocess.run(command, cwd=tmp_path, env={}, check=True)
    assert subprocess.run([tmp_path / "timed"], check=False).returncode == 3
