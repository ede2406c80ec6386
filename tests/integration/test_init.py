"""wheelsmith init: a first matrix.yaml that can be planned as it is."""

import json
import re
import sys
import tarfile
from dataclasses import replace

import pytest
import wants
from factory import Factory
from git_repos import MODULE, GitRepo, modules, serve_git
from kernels import cuda_kernel, pure_kernel, tiny_kernel, tvm_kernel, write
from loopback_hub import Hub, serve

from wheelsmith.base.errors import NoEnvironmentError
from wheelsmith.engine import this_machine
from wheelsmith.engine.bwrap import Bubblewrap
from wheelsmith.engine.local import Local
from wheelsmith.frameworks import torch_releases
from wheelsmith.matrix.load import load_matrix, parse_matrix
from wheelsmith.model import LockedWheel
from wheelsmith.toolchain import Toolchains


@pytest.fixture
def factory(tmp_path):
    return Factory.at(tmp_path)


@pytest.mark.parametrize("make", [tiny_kernel, cuda_kernel, pure_kernel, tvm_kernel])
def test_what_it_writes_can_be_planned(make, factory):
    make(factory.folder / "k")
    written = factory.run_in_process("init", "k")
    assert written.returncode == 0, written.stderr
    planned = factory.run_in_process("plan", "--json")
    assert planned.returncode == 0, planned.stdout + planned.stderr
    plan = json.loads(planned.stdout)
    assert plan["excluded"] == []
    assert f", {len(plan['plans'])} combinations; " in written.stderr


def test_the_source_is_fetched_once(factory):
    """It asks for what a plan asks for, and no more."""
    asked = []
    with serve(Hub()) as hub:
        hub.add_folder("org/tiny", tiny_kernel(factory.folder / "k"))
        for argv in (("init", "hub:org/tiny@main"), ("plan",)):
            answer = factory.run(*argv, **hub.environment(factory.folder / argv[0]))
            assert answer.returncode == 0, answer.stderr
            asked.append(sorted(hub.requests[sum(map(len, asked)) :]))
    assert asked[0] == asked[1]


@pytest.mark.parametrize(
    ("source", "name"), [(".", "My-thing"), ("../cast_1.0", "cast-1-0"), ("../x/k_v-v1.0rc1.tar.gz", "k-v")]
)
def test_a_project_that_does_not_say_its_name_is_called_after_its_place(source, name, factory, monkeypatch):
    torch = (LockedWheel(name="torch", version="2.13.0", sha256="0" * 64),)
    monkeypatch.setattr(Toolchains, "lock", lambda *_, **__: torch)
    (factory.folder / "My_thing").mkdir()
    project = factory.folder / "My_thing" / source
    if project.suffix == ".gz":
        project.parent.mkdir()
        with tarfile.open(project, "w:gz") as archive:
            archive.addfile(tarfile.TarInfo("setup.py"))
    else:
        write(project, {"setup.py": ""})
    answer = factory.run_in_process("init", source, "--matrix", "My_thing/matrix.yaml")
    assert answer.returncode == 0, answer.stderr
    assert load_matrix(factory.folder / "My_thing/matrix.yaml").kernel.distribution == name


SETUP = """
from setuptools import setup
import torch
from torch.utils.cpp_extension import CUDA_HOME, BuildExtension, CppExtension, CUDAExtension

assert torch.__version__.split(".")[0] == "2" and torch.cuda.is_available()
exec(open("rings/_version.py").read())
setup(
    name="rings" + "-ops",
    version=__version__,
    packages=["rings"],
    ext_modules=[CUDAExtension(name="rings._ext", sources=["rings/ext.cu"], extra_compile_args={"nvcc": ["-O3"]})],
    cmdclass={"build_ext": BuildExtension.with_options(no_python_abi_suffix=True)},
)
"""


def test_a_projects_own_build_system_says_name_and_version(factory):
    wants.program("bwrap")
    version = {"rings/_version.py": '__version__ = "3.0." + str(2)\n'}
    write(factory.folder / "p", {"setup.py": SETUP, "rings/ext.cu": "", "rings/__init__.py": "", **version})
    answer = factory.run_in_process("init", "p")
    assert answer.returncode == 0, answer.stderr
    assert answer.stderr.count("resolving") == 1
    matrix = load_matrix(factory.folder / "matrix.yaml")
    assert (matrix.kernel.distribution, matrix.version) == ("rings-ops", "3.0.2")
    assert len(matrix.computes) == 1
    assert matrix.computes[0].startswith("cu")
    assert re.search(r"^info: torch 2\.\d+(, not | is the newest)", answer.stderr, re.MULTILINE)


def test_why_a_build_system_says_no_name_is_in_its_own_words(factory):
    wants.program("bwrap")
    write(factory.folder / "p", {"setup.py": SETUP, "rings/ext.cu": "", "rings/__init__.py": ""})
    answer = factory.run_in_process("init", "p")
    said = "warning: name and version are guesses: its build system does not say them without torch: FileNotFoundError"
    assert said in answer.stderr


MISTAKEN = """
import os, urllib.request
import pybind11, torch
from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CUDAExtension
if not os.getenv("RINGS_FORCE_BUILD"):
    urllib.request.urlretrieve("https://example.invalid/rings.whl", "rings.whl")
if not torch.cuda.is_available():
    raise RuntimeError("no GPU")
extension = CUDAExtension("rings._ext", ["rings/ext.cu", "rings/lost.cu"], extra_compile_args=["-std=c++17"])
setup(name="rings", version="3", ext_modules=[extension], cmdclass={"build_ext": BuildExtension})
"""


def test_the_settings_that_a_setup_py_needs_are_in_the_file(factory):
    write(factory.folder / "p", {"setup.py": MISTAKEN, "rings/ext.cu": "", "rings/__init__.py": ""})
    answer = factory.run_in_process("init", "p")
    assert answer.returncode == 0, answer.stderr
    text = (factory.folder / "matrix.yaml").read_text()
    matrix = parse_matrix(text)
    assert matrix.project.env == {"RINGS_FORCE_BUILD": "1"}
    assert matrix.project.build_requires == ("pybind11",)
    assert matrix.project.cxx_standard == "torch"
    # setup.py may have another answer where there is no GPU, so the user decides.
    (line,) = re.findall(r"^# (before-build: .*)    # (.*)$", text, re.MULTILINE)
    assert line[1] == "setup.py:8 asks for a GPU (is_available), but no build sees a GPU"
    assert "is_available" in parse_matrix(text.replace(f"# {line[0]}", line[0])).project.before_build
    assert [name for name in ("FORCE_BUILD", "pybind11", "C++17") if name in answer.stderr] == []
    assert "warning: setup.py names rings/lost.cu; the source lacks rings/lost.cu" in answer.stderr


def lock_all(answers):
    """Answer for the index: (Python, release of torch) → why there is no environment."""

    def lock_all(self, requests, *, refresh=False):
        torch = [each.requirements[0].removeprefix("torch==") for each in requests]
        found = [answers.get((each.python, release[:4])) for each, release in zip(requests, torch, strict=True)]
        return [
            NoEnvironmentError(why) if why else (LockedWheel(name="torch", version=release, sha256="0" * 64),)
            for why, release in zip(found, torch, strict=True)
        ]

    return lock_all


def test_the_newest_torch_is_one_for_all_pythons_that_are_asked_for(factory, monkeypatch):
    newest, other, third = [*reversed(torch_releases())][:3]
    here = f"{sys.version_info[0]}.{sys.version_info[1]}"
    machine = this_machine()
    pythons = dict.fromkeys(("3.10", here), machine.pythons[here])
    for engine in (Bubblewrap, Local):
        monkeypatch.setattr(engine, "build_host", lambda *_: replace(machine, pythons=pythons))
    reasons = {(here, newest): "too new", ("3.10", other): "too old"}
    monkeypatch.setattr(Toolchains, "lock_all", lock_all(reasons))
    write(factory.folder / "p", {"setup.py": "import torch\nsetup(name='p', version='1')", "p.cu": ""})
    answer = factory.run_in_process("init", "p", "--python", f"3.10,{here}")
    assert answer.returncode == 0, answer.stderr
    matrix = load_matrix(factory.folder / "matrix.yaml")
    assert (matrix.releases, matrix.python) == ((third,), ("3.10", here))
    assert f"info: torch {third}, not {other}: there is no build environment with torch {other}" in answer.stderr
    assert "for Python 3.10: too old" in answer.stderr


def test_of_a_hub_repo_the_newest_version_is_taken(factory):
    with serve(Hub()) as hub:
        repo = hub.add_folder("org/tiny", tiny_kernel(factory.folder / "k"))
        repo.kind = "models"  # as older ones are
        repo.branches |= dict.fromkeys(("v2", "v10", "v3-rc"), repo.branches["main"])
        answer = factory.run("init", "hub:org/tiny", **hub.environment(factory.folder / "hf"))
        assert answer.returncode == 0, answer.stderr
    assert load_matrix(factory.folder / "matrix.yaml").kernel.revision == "v10"


def test_a_kernels_bounds_are_kept(factory):
    toml = (cuda_kernel(factory.folder / "k") / "build.toml").read_text()
    bounds = toml.replace("[torch]\n", '[torch]\nminver = "2.9"\nmaxver = "2.11"\n')
    (factory.folder / "k/build.toml").write_text(bounds)
    assert factory.run_in_process("init", "k").returncode == 0
    matrix = load_matrix(factory.folder / "matrix.yaml")
    assert matrix.releases == ("2.10", "2.11")
    assert matrix.computes == ("cu130",)


def test_a_kernel_of_another_projects_name_gets_one_of_its_own(factory):
    toml = (tiny_kernel(factory.folder / "k") / "build.toml").read_text()
    (factory.folder / "k/build.toml").write_text(toml.replace('name = "tiny"', 'name = "einops"'))
    (factory.folder / "k/torch-ext/tiny").rename(factory.folder / "k/torch-ext/einops")
    assert factory.run_in_process("init", "k").returncode == 0
    kernel = load_matrix(factory.folder / "matrix.yaml").kernel
    assert (kernel.distribution, kernel.module) == ("einops-kernel", "einops_kernel")
    assert factory.run_in_process("plan").returncode == 0


def test_in_the_kernels_own_folder(factory):
    tiny_kernel(factory.folder)
    answer = factory.run_in_process("init")
    assert answer.returncode == 0, answer.stderr
    assert "matrix.yaml: tiny @" in answer.stderr


def test_in_a_repository_a_gitignore_is_offered(factory):
    (factory.folder / "repo/.git").mkdir(parents=True)
    tiny_kernel(factory.folder / "repo/k")
    argv = ("init", ".", "--matrix", "repo/k/matrix.yaml", "--force")
    ignores = factory.folder / "repo/k/.gitignore"
    lines = "dist/ wheelsmith.vendor/ wheelsmith.shards.json"
    assert f"wrote repo/k/.gitignore: {lines}\n" in factory.run_in_process(*argv).stderr
    assert ignores.read_text().split() == lines.split()
    assert ".gitignore:" not in factory.run_in_process(*argv).stderr
    ignores.write_text("*.o\n/dist\n")
    assert (
        "add to repo/k/.gitignore: wheelsmith.vendor/ wheelsmith.shards.json\n" in factory.run_in_process(*argv).stderr
    )
    assert ignores.read_text() == "*.o\n/dist\n"


def test_outside_of_a_repository_no_gitignore_is_written(factory):
    tiny_kernel(factory.folder)
    assert factory.run_in_process("init").returncode == 0
    assert not (factory.folder / ".gitignore").exists()


def test_one_that_is_there_stays(factory):
    tiny_kernel(factory.folder / "k")
    (factory.folder / "matrix.yaml").write_text("mine")
    answer = factory.run_in_process("init", "k")
    assert answer.returncode == 2
    assert "--force" in answer.stderr
    assert (factory.folder / "matrix.yaml").read_text() == "mine"
    assert factory.run_in_process("init", "k", "--force").returncode == 0


def test_a_kernel_of_which_nothing_can_be_built_is_told(factory):
    toml = (tiny_kernel(factory.folder / "k") / "build.toml").read_text()
    (factory.folder / "k/build.toml").write_text(re.sub(r"backends = .*", 'backends = ["rocm"]', toml))
    answer = factory.run_in_process("init", "k")
    assert answer.returncode == 2, answer.stderr
    assert "this machine can build no wheel of it" in answer.stderr
    assert not (factory.folder / "matrix.yaml").exists()


@pytest.mark.parametrize(
    ("words", "named", "written"),
    [("none", (), "submodules: false"), ("here", ("here",), "submodules: [here]")],
)
def test_submodules_can_be_left_out(words, named, written, factory):
    """One of them cannot be had."""
    inner, repo = (GitRepo.make(factory.folder / "served/org" / name) for name in ("inner", "repo"))
    kernel = tiny_kernel(factory.folder / "k")
    files = {str(path.relative_to(kernel)): path.read_text() for path in kernel.rglob("*") if path.is_file()}
    files[".gitmodules"] = modules(here="here ../inner", gone="gone ../gone")
    repo.commit({**files, "here": (MODULE, inner.commit({"a": "b"})), "gone": (MODULE, "1" * 40)})
    with serve_git(factory.folder / "served") as server:
        source = f"git+{server.url_of(repo)}@main"
        refused = factory.run_in_process("init", source)
        assert refused.returncode == 4
        assert "submodule gone" in refused.stderr
        assert "--submodules" in refused.stderr
        answer = factory.run_in_process("init", source, "--submodules", words)
        assert answer.returncode == 0, answer.stderr
        assert written in (factory.folder / "matrix.yaml").read_text()
        assert load_matrix(factory.folder / "matrix.yaml").kernel.submodules == named
        assert factory.run_in_process("plan").returncode == 0


@pytest.mark.parametrize(
    ("source", "words", "why"),
    [
        ("k", "none", "only a git repository has submodules"),
        ("git+https://host.invalid/a/b@main", "../x", "--submodules: "),
        ("git+https://host.invalid/a/b@main", "", "--submodules: "),
    ],
)
def test_what_are_no_submodules_is_told(source, words, why, factory):
    tiny_kernel(factory.folder / "k")
    answer = factory.run_in_process("init", source, "--submodules", words)
    assert answer.returncode == 2, answer.stderr
    assert why in answer.stderr
