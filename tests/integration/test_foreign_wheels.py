"""Wheels that something else made get the roots and the cells that they serve; answers keep their project."""

import json
from pathlib import Path

import pytest
from command_line import run_command
from kernels import NOARCH_TOML, matrix, pure_kernel
from wheels import make_wheel, offer

from wheelsmith.frameworks import torch_releases
from wheelsmith.index.publish.verify import verify
from wheelsmith.index.publish.writer import Index
from wheelsmith.index.storage.folder import Folder
from wheelsmith.platforms import cuda_toolkits

pytestmark = pytest.mark.usefixtures("in_process_worker")

NOW = "2026-01-02T03:04:05Z"
ABI3 = "cp39-abi3-manylinux_2_28_x86_64"
CU130 = {minor for minor, release in torch_releases().items() if "13.0" in release.cuda}
CU132 = {minor for minor, release in torch_releases().items() if "13.2" in release.cuda}
EVERY = {f"cu{cuda.replace('.', '')}" for release in torch_releases().values() for cuda in release.cuda}


def newer(torches, floor):
    return {torch for torch in torches if tuple(map(int, torch.split("."))) >= floor}


# Version, METADATA's requirement, tag → the compute platforms and the torches that it serves.
SERVED = {
    "stable ABI": ("2+cu130", "torch>=2.10", ABI3, {"cu130"}, newer(CU130, (2, 10))),
    "stable ABI of a CUDA that few torches have": ("2+cu132", "torch>=2.10", ABI3, {"cu132"}, newer(CU132, (2, 10))),
    "one torch by METADATA": ("2+cu132", "torch==2.12.*", ABI3, {"cu132"}, {"2.12"}),
    "one patch release": ("2+cu130", "torch==2.12.1", ABI3, {"cu130"}, {"2.12"}),
    "one patch release, by its text": ("2+cu130", "torch===2.12.1", ABI3, {"cu130"}, {"2.12"}),
    "a patch between others": ("2+cu130", "torch>2.12.1,<2.12.3", ABI3, {"cu130"}, {"2.12"}),
    "one build of torch": ("2+cu130", "torch==2.11.0+cu130", ABI3, {"cu130"}, {"2.11"}),
    "a torch of its own": ("2+cu130", "torch==2.11.1+nv26.4", ABI3, {"cu130"}, {"2.11"}),
    "one build of torch, for the platform too": ("2", "torch==2.11.0+cu130", ABI3, {"cu130"}, {"2.11"}),
    "nothing compiled, for one build": ("2", "torch==2.11.0+cpu", "py3-none-any", {"cpu"}, {"2.11"}),
    "any torch": ("2+cu132", None, ABI3, {"cu132"}, CU132),
    "one torch by its version": ("2+cu130.torch2.11", "torch==2.11.*", ABI3, {"cu130"}, {"2.11"}),
    "the CPU": ("2+cpu", "torch>=2.13", ABI3, {"cpu"}, newer(torch_releases(), (2, 13))),
    "another project's spelling": ("2+cu13torch2.11cxx11abiTRUE", "torch==2.11.*", ABI3, {"cu130"}, {"2.11"}),
    "pytorch3d's": ("2+pt2.12cu126", "torch==2.12.*", ABI3, {"cu126"}, {"2.12"}),
    "nothing compiled": ("2", "torch>=2.13", "py3-none-any", None, newer(torch_releases(), (2, 13))),
    "nothing compiled, for any torch": ("2", None, "py3-none-any", EVERY | {"cpu"}, set(torch_releases())),
    "nothing compiled, for one platform": ("2+cu130", "torch>=2.10", "py3-none-any", {"cu130"}, newer(CU130, (2, 10))),
    "compiled for nobody knows what": ("2", "torch>=2.10", ABI3, set(), set()),
    "another version of its own": ("2+git.abc", "torch>=2.10", ABI3, set(), set()),
    "two platforms": ("2+cu126.cu130", "torch>=2.10", ABI3, set(), set()),
    "another system": ("2+cpu", "torch>=2.10", "cp39-abi3-win_amd64", set(), set()),
}


@pytest.mark.parametrize("name", SERVED)
def test_a_wheel_is_listed_for_what_it_serves(name, tmp_path, monkeypatch, capsys):
    version, requires, tag, computes, torches = SERVED[name]
    path = make_wheel(tmp_path, "kernel", version, requires=(requires,) if requires else (), tag=tag)
    given = offer(path)
    assert {served.release for served in given.entry.cells} == torches
    if computes is not None:
        assert {served.compute for served in given.entry.cells} == computes
    if tag == ABI3:
        assert {served.arch for served in given.entry.cells} <= {"x86_64"}
    answer = run_command(monkeypatch, capsys, "index", "add", str(tmp_path / "index"), str(path))
    assert answer.code == 0
    roots = {served.compute for served in given.entry.cells}
    assert answer.err.splitlines()[0] == f"+ {path.name}: {', '.join(['simple', *sorted(roots)])}"
    for root in ("simple", *roots):
        assert path.name.replace("+", "%2B") in (tmp_path / "index" / root / "kernel" / "index.html").read_text()
    catalogue = json.loads((tmp_path / "index" / "projects" / "kernel" / "catalogue.json").read_text())
    assert len(catalogue["wheels"][0].get("cells", ())) == len(given.entry.cells)
    assert verify(Folder(tmp_path / "index")) == ()


def test_a_wheel_for_one_python_says_so(tmp_path):
    (one,) = offer(make_wheel(tmp_path, "k", "1+cpu.torch2.9", tag="cp312-cp312-linux_x86_64")).entry.cells
    (all_,) = offer(make_wheel(tmp_path, "k", "1+cpu.torch2.9", tag=ABI3)).entry.cells
    assert (one.python, all_.python) == ("3.12", None)


def test_the_abi_of_an_old_torch_is_that_torchs(tmp_path):
    (old,) = offer(make_wheel(tmp_path, "k", "1+cpu.torch2.6", tag="cp39-abi3-linux_x86_64")).entry.cells
    assert old.cxx11_abi is torch_releases()["2.6"].cxx11_abi["x86_64"] is False


LINUX = "sys_platform == 'linux'"
# METADATA's lines, and the releases of torch that a wheel for CUDA 13.0 serves.
LINES = {
    "two lines": (("torch>=2.10", "torch<2.12"), {"2.10", "2.11"}),
    "a marker": ((f"torch>=2.12; {LINUX}",), newer(CU130, (2, 12))),
    "one beside a marker": (("torch>=2.10", f"torch<2.12; {LINUX}"), {"2.10", "2.11"}),
    "for another system": (("torch>=2.12; sys_platform == 'win32'",), CU130),
    "for an extra": (("torch>=2.12; extra == 'fast'",), CU130),
    "by the Python": (
        ("torch>=2.10; python_version < '3.10'", "torch>=2.12; python_version >= '3.10'"),
        newer(CU130, (2, 12)),
    ),
}


@pytest.mark.parametrize("name", LINES)
def test_every_line_for_torch_counts(name, tmp_path):
    lines, torches = LINES[name]
    entry = offer(make_wheel(tmp_path, "kernel", "2+cu130", requires=lines, tag=ABI3)).entry
    assert {served.release for served in entry.cells} == torches
    assert entry.requires == ()


REFUSED = {
    "a pin that holds on one system": (f"torch>=2.12; {LINUX}", "the version names torch 2.11"),
    "what nobody can follow": ("torch==2.11.*; python_version ~= 'x'", "does not require torch"),
    "what nobody can read": ("torch>=$(id)", "Requires-Dist 'torch>=$(id)' cannot be read"),
    "another package's": ("einops>=2.*", "Requires-Dist 'einops>=2.*' cannot be read"),
}


@pytest.mark.parametrize("way", ["index add", "publish"])
@pytest.mark.parametrize("name", REFUSED)
def test_a_wheel_that_requires_otherwise_is_refused(name, way, tmp_path, monkeypatch, capsys):
    requires, why = REFUSED[name]
    path = make_wheel(tmp_path / "from", "kernel", "2+cu130.torch2.11", requires=(requires,), tag=ABI3)
    given = ("publish", "--from", str(path.parent)) if way == "publish" else ("index", "add")
    more = (str(path),) if way == "index add" else ()
    answer = run_command(monkeypatch, capsys, *given, str(tmp_path / "index"), *more)
    assert answer.code == 2
    assert why in answer.err
    assert "Traceback" not in answer.err
    assert not (tmp_path / "index").exists()


def test_wheels_of_one_version_that_require_different_things_are_named(tmp_path, monkeypatch, capsys):
    requires = {"x86_64": ("torch==2.11.*", "numpy"), "aarch64": ("torch==2.11.*",)}
    for arch, lines in requires.items():
        make_wheel(tmp_path / arch, "kernel", "2+cu130", requires=lines, tag=f"cp39-abi3-manylinux_2_28_{arch}")
        make_wheel(tmp_path / arch, "kernel", "1+cu130", requires=("torch",), tag=f"cp39-abi3-manylinux_2_28_{arch}")
    told = "note: kernel 2+cu130: only some of its wheels require numpy; uv locks what one wheel says"
    wheels = {arch: [str(path) for path in sorted((tmp_path / arch).iterdir())] for arch in requires}
    index = str(tmp_path / "index")
    assert "note:" not in run_command(monkeypatch, capsys, "index", "add", index, *wheels["x86_64"]).err
    answer = run_command(monkeypatch, capsys, "index", "add", index, *wheels["aarch64"])
    assert (answer.code, answer.err.count("note:"), answer.err.count(told)) == (0, 1, 1)
    both = (f"--from={tmp_path / arch}" for arch in requires)
    answer = run_command(monkeypatch, capsys, "publish", *both, str(tmp_path / "other"), "--json", "--dry-run")
    assert (answer.code, answer.err.count("note:"), answer.err.count(told)) == (0, 1, 1)


@pytest.mark.parametrize("options", [("--dry-run",), ()], ids=["dry run", "for good"])
def test_what_is_not_done_is_not_told_as_done(options, tmp_path, monkeypatch, capsys):
    path = make_wheel(tmp_path, "kernel", "2")
    answer = run_command(monkeypatch, capsys, "index", "add", str(tmp_path / "index"), str(path), *options)
    assert answer.err.splitlines()[-1].startswith("1 wheel would be added" if options else "1 wheel added")
    assert (tmp_path / "index").exists() == (not options)


def test_a_run_says_what_it_left_out_of_a_kernel_with_an_underscore(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WHEELSMITH_CACHE", str(tmp_path / "cache"))
    files = {"build.toml": NOARCH_TOML.replace('"pure"', '"add-constant"'), "torch-ext/add_constant/__init__.py": ""}
    pure_kernel(tmp_path / "k", **files)
    rule = "rules: [{exclude: {torch: 2.13}, reason: they are old}]\n"
    path = matrix(tmp_path, "k", more=rule, torch="2.12, 2.13")
    path.write_text(path.read_text().replace("path: k", "path: k, distribution: add_constant"))
    argv = ("build-matrix", "--engine", "local", "--progress", "plain")
    assert run_command(monkeypatch, capsys, *argv).code == 0
    for file in ("catalogue.json", "index.html"):
        assert "they are old" in Path("dist/index/projects/add-constant", file).read_text()


@pytest.mark.parametrize("way", ["index add", "publish a folder", "publish an index"])
def test_a_lie_beyond_names_and_torch_is_left_to_check(way, tmp_path, monkeypatch, capsys):
    """As docs/reference/checks.md says of wheels that build-matrix did not make."""
    path = make_wheel(tmp_path / "from", "kernel", "1+cu130.torch2.11", requires=("torch==2.11.*",), tag=ABI3)
    index = str(tmp_path / "index")
    assert run_command(monkeypatch, capsys, "check", str(path)).code == 1
    assert "purity" in run_command(monkeypatch, capsys, "check", str(path)).out
    if way == "publish an index":
        Index(Folder(tmp_path / "made")).add([offer(path)], upload_time=NOW)
        given = ("publish", index, "--from", str(tmp_path / "made"))
    else:
        given = (
            ("index", "add", index, str(path)) if way == "index add" else ("publish", index, "--from", str(path.parent))
        )
    assert run_command(monkeypatch, capsys, *given).code == 0
    assert verify(Folder(tmp_path / "index")) == ()


TVM = "apache-tvm-ffi==0.1.*"
KNOWN = {f"cu{cuda.replace('.', '')}" for cuda in cuda_toolkits()}
# Version, METADATA's lines, tag → the framework, and the compute platforms, that a wheel serves.
CALLED = {
    "as its version says": ("2+cu130.tvmffi0.1", (TVM,), "py3-none-manylinux_2_28_x86_64", "tvm-ffi", {"cu130"}),
    "as its version says, whatever is beside it": (
        *("2+cpu.tvmffi0.1", (TVM, "torch"), "py3-none-manylinux_2_28_x86_64"),
        *("tvm-ffi", {"cpu"}),
    ),
    "torch's, with help": ("2+cpu.torch2.11", (TVM, "torch==2.11.*"), ABI3, "torch", {"cpu"}),
    "as it requires": ("2+cpu", (TVM,), "py3-none-manylinux_2_28_x86_64", "tvm-ffi", {"cpu"}),
    "as it requires, for a CUDA": ("2+cu132", (TVM,), "py3-none-manylinux_2_28_x86_64", "tvm-ffi", {"cu132"}),
    "in a spelling of somebody else": ("2+cpu.tvmffi01", (TVM,), "py3-none-linux_x86_64", "tvm-ffi", {"cpu"}),
    "some patch of it": ("2+cpu.tvmffi0.1.9", (TVM,), "py3-none-linux_x86_64", "tvm-ffi", {"cpu"}),
    "nothing compiled": ("2", (TVM,), "py3-none-any", "tvm-ffi", KNOWN | {"cpu"}),
    "a minor that is not known": ("2+cpu", ("apache-tvm-ffi==0.7.*",), "py3-none-linux_x86_64", None, set()),
    "either of the two": ("2+cpu", (TVM, "torch==2.11.*"), ABI3, "torch", {"cpu"}),
}


@pytest.mark.parametrize("name", CALLED)
def test_a_wheel_is_for_the_framework_that_it_requires(name, tmp_path):
    version, requires, tag, framework, computes = CALLED[name]
    cells = offer(make_wheel(tmp_path, "kernel", version, requires=requires, tag=tag)).entry.cells
    assert {served.framework for served in cells} == ({framework} if framework else set())
    assert {served.compute for served in cells} == computes
    assert {served.release for served in cells} <= {"0.1", "2.11"}


@pytest.mark.parametrize("requires", ["apache-tvm-ffi>=0.1", "apache-tvm-ffi==0.2.*"])
def test_a_wheel_for_another_tvm_ffi_than_it_requires_is_refused(requires, tmp_path, monkeypatch, capsys):
    path = make_wheel(tmp_path, "kernel", "2+cpu.tvmffi0.1", requires=(requires,), tag="py3-none-linux_x86_64")
    answer = run_command(monkeypatch, capsys, "index", "add", str(tmp_path / "index"), str(path))
    assert answer.code == 2
    assert f"the version names tvm-ffi 0.1, but Requires-Dist has {requires}" in answer.err
