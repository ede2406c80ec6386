"""Libraries and symbols of a wheel's ELF files are looked up as the loader does."""

import pytest
from forge_elf import WEAK, Library, Symbol
from wheels import make_wheel

from wheelsmith.wheel.bundled_libraries import installed_folder
from wheelsmith.wheel.check import check_wheel
from wheelsmith.wheel.install_layout import install_path
from wheelsmith.wheel.manylinux import implies_tag, lowest_satisfied_policy, newest_policy, promises_versions

RULES = {
    *("elf", "platform-tag", "libraries", "architecture", "search-path", "suffix", "abi3", "python-symbols"),
    *("symbols", "torch-ops"),
}
OLDEST = {"x86_64": "GLIBC_2.2.5", "aarch64": "GLIBC_2.17"}
ERROR = "_ZTIN3c105ErrorE"  # of libc10, in every release of torch
BOTH = pytest.mark.parametrize("machine", ["x86_64", "aarch64"])


def complaints(
    folder, *files, requires=("torch==2.11.*",), version="1.0+cu130.torch2.11", tag="cp39-abi3-{}", more=None
):
    """Check a wheel with these libraries: ``(name, Library)``; give rule → message of what is wrong."""
    tag = tag.format(f"manylinux_2_28_{files[0][1].arch}")
    contents = {name: library.build() for name, library in files} | (more or {})
    report = check_wheel(make_wheel(folder, "kernel", version, requires=requires, files=contents, tag=tag))
    return {found.rule: found.message for found in report.findings if not found.ok and found.rule in RULES}


def undefined(*names, weak=False):
    """Return undefined symbols, ``name`` or ``name@VERSION@library``."""
    parts = [name.partition("@") for name in names]
    versions = [tuple(reversed(rest.split("@"))) if rest else None for _, _, rest in parts]
    pairs = zip(parts, versions, strict=True)
    return [Symbol(name=part[0], version=version, bind=WEAK if weak else 1, kind=0) for part, version in pairs]


def torch_extension(machine="x86_64", symbols=(), needed=("libtorch_cpu.so", "libc10.so"), **fields):
    first = undefined(f"malloc@{OLDEST[machine]}@libc.so.6", ERROR, "PyModuleDef_Init")
    exports = [Symbol(name="PyInit__k")]
    return Library(arch=machine, needed=[*needed, "libc.so.6"], imports=[*first, *symbols], exports=exports, **fields)


@BOTH
@pytest.mark.parametrize(
    ("symbols", "rule", "match"),
    [
        (undefined("_ZN3c1012is_not_thereEv"), "symbols", "torch 2.11 does not export"),
        (undefined("absent@GLIBC_2.17@libc.so.6"), "symbols", "in version GLIBC_2.17"),
        (undefined("malloc@GLIBC_2.28@libc.so.6"), "symbols", "malloc in version GLIBC_2.28"),
        (undefined("__libc_single_threaded"), "platform-tag", "manylinux_2_34"),
    ],
)
def test_a_symbol_that_is_not_there(machine, symbols, rule, match, tmp_path):
    wrong = complaints(tmp_path, ("kernel/_k.abi3.so", torch_extension(machine, symbols)))
    assert match in wrong.pop(rule)
    assert set(wrong) <= {"python-symbols"}


@pytest.mark.parametrize(("torch", "named"), [("2.6", "98df74fd"), ("2.9", "a49a47f9")])
def test_openmp_that_torch_has_under_another_name(torch, named, tmp_path):
    """On arm64 a kernel that links libgomp is told how to do without, and finds torch's own then."""

    def made(*needed, symbols):
        elf = torch_extension("aarch64", symbols, needed=("libtorch_cpu.so", "libc10.so", *needed))
        version = f"1.0+cu126.torch{torch}"
        requires = (f"torch=={torch}.*",)
        tag = "cp39-abi3-manylinux_2_28_aarch64"
        files = {"kernel/_k.abi3.so": elf.build()}
        found = check_wheel(make_wheel(tmp_path, "kernel", version, requires=requires, files=files, tag=tag)).findings
        return {finding.rule: finding.message for finding in found if not finding.ok}

    linked = made("libgomp.so.1", symbols=undefined("GOMP_parallel@GOMP_4.0@libgomp.so.1"))["libraries"]
    assert f"not in torch {torch} ({torch} has it as libgomp-{named}.so.1.0.0: do not link with libgomp.so.1)" in linked
    assert {"libraries", "symbols"}.isdisjoint(made(symbols=undefined("GOMP_parallel")))


@BOTH
def test_a_symbol_of_torch_without_a_library_that_brings_it(machine, tmp_path):
    elf = torch_extension(machine, needed=())
    assert "but no library that it needs exports it" in complaints(tmp_path, ("kernel/_k.abi3.so", elf))["symbols"]
    # libtorch_cpu.so brings libc10.so along.
    assert complaints(tmp_path, ("kernel/_k.abi3.so", torch_extension(machine, needed=("libtorch_cpu.so",)))) == {}


@pytest.mark.parametrize(
    ("library", "package"),
    [("libnppc.so.13", "nvidia-npp"), ("libcufftw.so.12", "nvidia-cufft")],
)
def test_a_library_of_cudas_that_torch_does_not_load(library, package, tmp_path):
    elf = torch_extension("x86_64", needed=("libc10.so", library))

    def told(*more, torch="torch==2.11.*", **changes):
        return complaints(tmp_path, ("kernel/_k.abi3.so", elf), requires=(torch, *more), **changes).get("libraries", "")

    assert f"{library}: a CUDA library that torch 2.11 does not load; require {package}" in told()
    assert "that torch 2.10, 2.11, 2.12" in told(torch="torch>=2.10", version="1.0+cu130")
    for brought in (f"{package}>=1", f"{package}-cu13", "cuda-toolkit[all]==13.*"):
        assert told(brought) == ""
    assert "does not load" in told("nvidia-nvfatbin", f"{package}x")
    assert "does not load" not in complaints(
        tmp_path, ("kernel/_k.abi3.so", elf), requires=(), version="1.0+cu130"
    ).get("libraries", "")


def test_what_a_torch_has_that_is_not_known_cannot_be_proven(tmp_path):
    elf = torch_extension("x86_64", undefined("_ZN3c1012of_old_timesEv", "_ZN2at4_ops3old4callERKNS_6TensorE"))
    wrong = complaints(tmp_path, ("kernel/_k.abi3.so", elf), requires=("torch==2.4.0",), version="1.0")
    said = f"kernel/_k.abi3.so needs {ERROR} and 2 more symbols from torch, but the wheel requires an"
    assert wrong == {"symbols": f"{said} unknown release of torch"}
    wrong = complaints(tmp_path, ("kernel/_k.abi3.so", elf), requires=("torch>=2.4.0",), version="1.0")
    assert "does not export _ZN3c1012of_old_timesEv" in wrong["symbols"]


def test_where_files_are_installed():
    assert install_path("kernel/_k.so").full_path == "site-packages/kernel/_k.so"
    assert install_path("k-1.data/platlib/kernel/_k.so").full_path == "site-packages/kernel/_k.so"
    assert install_path("k-1.data/scripts/tool").full_path == "prefix/bin/tool"
    assert installed_folder("k-1.data/scripts/tool", "$ORIGIN/../lib") == "prefix/lib"
    assert installed_folder("kernel/_k.so", "$ORIGIN/../torch/lib") == "site-packages/torch/lib"
    assert installed_folder("kernel/_k.so", "$ORIGIN/../../lib") is None


def test_platform_tags():
    assert lowest_satisfied_policy({"GLIBC_2.2.5"}, "x86_64") == "manylinux_2_5_x86_64"
    assert lowest_satisfied_policy({"GLIBC_2.17"}, "aarch64") == "manylinux_2_17_aarch64"
    assert lowest_satisfied_policy({"GLIBC_2.32", "GLIBCXX_3.4.30"}, "x86_64") == "manylinux_2_35_x86_64"
    assert lowest_satisfied_policy({"GLIBC_9.99"}, "x86_64") == "linux_x86_64"
    assert lowest_satisfied_policy({"OWN_1.0"}, "x86_64") == "manylinux_2_5_x86_64"
    assert implies_tag("manylinux2014_x86_64", "manylinux_2_17_x86_64")
    assert not implies_tag("manylinux2014_x86_64", "manylinux_2_24_x86_64")
    assert not implies_tag("manylinux_2_28_x86_64", "manylinux_2_28_aarch64")


@pytest.mark.parametrize(
    ("tag", "versions", "kept"),
    [
        ("manylinux_2_25_x86_64", {"GLIBC_2.25", "GLIBCXX_3.4.21"}, True),
        ("manylinux_2_30_x86_64", {"GLIBC_2.30", "GLIBC_2.2.5"}, True),
        ("manylinux_2_25_x86_64", {"GLIBC_2.26"}, False),
        ("manylinux_2_25_x86_64", {"GLIBC_PRIVATE"}, False),
        ("manylinux2014_x86_64", {"GLIBC_2.18"}, False),
    ],
)
def test_a_tag_between_two_policies_promises_the_glibc_that_it_names(tag, versions, kept):
    assert promises_versions(tag, versions, "x86_64") is kept
    assert not implies_tag("manylinux_2_28_x86_64", "linux_x86_64")
    assert implies_tag("linux_x86_64", "manylinux_2_34_x86_64")
    assert newest_policy("manylinux_2_29_x86_64").name == "manylinux_2_28"
    assert newest_policy("linux_x86_64") is None
