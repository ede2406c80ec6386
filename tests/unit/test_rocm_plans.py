"""Kernels for ROCm: their names, plans and reasons, and the GPUs of a machine."""

import json
from dataclasses import replace

import pytest
from command_line import run_command

from wheelsmith.engine import installed_compilers, with_installed_toolkit
from wheelsmith.engine.backend import survey
from wheelsmith.frameworks import framework, local_version_of, read_local_version
from wheelsmith.index.entries.entry import check_root
from wheelsmith.model import BuildHost, Cell, CellSettings, Excluded, SourceId, StepKind
from wheelsmith.model.build_host import ImageId, ToolkitHome, Toolset
from wheelsmith.plan.kernel import plan_kernel
from wheelsmith.plan.recipe.build_toml import parse_build_toml
from wheelsmith.plan.recipe.recipe import KernelSource
from wheelsmith.platforms import capability_order, check_capability, compute_name, platform_of, platforms, rocm

TOML = """
[general]
name = "twice"
version = 1
edition = 5
license = "MIT"
backends = ["cuda", "rocm"]

[torch]
src = ["torch-ext/binding.cpp"]
{torch}
[kernel.cuda]
backend = "cuda"
depends = ["torch"]
src = ["twice.cu"]

[kernel.rocm]
backend = "rocm"
depends = ["torch"]
src = ["twice.cu"]
rocm-archs = ["gfx90a", "gfx940", "gfx942", "gfx1100"]
hip-flags = ["-ffast-math"]
"""
SOURCE = KernelSource(
    id=SourceId(origin="path", revision=None, commit=None, tree="f" * 16),
    paths=("twice.cu", "torch-ext/binding.cpp", "torch-ext/twice/__init__.py"),
    readme=None,
    code="0123456789abcdef",
)
HOME = ToolkitHome(home="/opt/rocm-7.2.1", version="7.2", release="7.2.53211", digest="d" * 64)
GXX = Toolset(arch="x86_64", cxx="g++", version="g++ 12", digest="e" * 64)
HOST = BuildHost(image=None, machine="x86_64", python="3.11", toolsets=(GXX,), pythons={}, toolkits={"rocm": HOME})
CELL = Cell(release="2.13", platform="rocm", toolkit="7.2", arch="x86_64")


def plan(cell=CELL, host=HOST, torch=""):
    spec = parse_build_toml(TOML.format(torch=torch))
    return plan_kernel(cell, spec=spec, source=SOURCE, distribution=None, version=None, build_host=host)


def reason(**changes):
    made = plan(**changes)
    assert isinstance(made, Excluded), made
    return made.reason


def test_a_release_has_a_dot_in_versions_and_roots_and_none_in_names_of_cells():
    assert CELL.compute == "rocm7.2"
    assert CELL.id == "torch213-cxx11-rocm72-x86_64-linux"
    found = platform_of("rocm7.2")
    assert found == (platforms()["rocm"], "7.2")
    assert compute_name("rocm7.2") == "ROCm 7.2"
    check_root("rocm7.2")
    for name in ("rocm", "rocm72", "rocm7.2.1", "cu130"):
        assert platforms()["rocm"].version_of(name) is None


@pytest.mark.parametrize(
    ("local", "compute", "torch", "own"),
    [
        ("rocm7.2", "rocm7.2", None, True),
        ("rocm7.2.torch2.13", "rocm7.2", "2.13", True),
        ("rocm7.2.torchstable", "rocm7.2", None, True),
        ("torch2.13.rocm7.2", "rocm7.2", "2.13", False),
        ("rocm7.2.cu130", None, None, False),
    ],
)
def test_local_versions(local, compute, torch, own):
    found = read_local_version(local)
    assert (found.compute, found.torch, found.own) == (compute, torch, own)


def test_the_versions_of_its_wheels():
    assert local_version_of(CELL, stable_abi=False) == "rocm7.2.torch2.13"
    assert local_version_of(CELL, stable_abi=True) == "rocm7.2.torchstable"


def test_every_source_is_translated_and_the_compiler_of_the_machine_is_mounted():
    made = plan()
    assert (made.toolkit.kind, made.toolkit.version) == ("machine-rocm", "7.2.53211")
    assert made.toolkit not in made.prefixes
    assert made.headers.kind == "torch-rocm"
    assert made.headers != framework("torch").prefix(framework("torch").releases()["2.13"], "x86_64")
    steps = {step.source: step for step in made.recipe.steps if step.kind is StepKind.HIP}
    assert list(steps) == ["torch-ext/binding.cpp", "twice.cu"]
    for source, step in steps.items():
        assert step.argv[0] == "python3"
        assert step.argv[2:5] == ("/opt/torch/hipify", "/work/src", source)
        assert {"-DUSE_ROCM=1", "-DROCM_KERNEL", "-D__HIP_PLATFORM_AMD__=1"} <= set(step.argv)
    device = steps["twice.cu"]
    assert device.argv[5] == "/opt/rocm/lib/llvm/bin/clang++"
    assert [word for word in device.argv if word.startswith("--offload-arch")] == [
        "--offload-arch=gfx90a", "--offload-arch=gfx942", "--offload-arch=gfx1100"
    ]  # fmt: skip
    assert "-ffast-math" in device.argv
    # A fixed identifier of the source file, because the default differs from build to build.
    assert [word for word in plan().recipe.steps[1].argv if word.startswith("-cuid=")] == [
        word for word in device.argv if word.startswith("-cuid=")
    ]
    assert made.wheel.gpu_archs == ("gfx90a", "gfx942", "gfx1100")
    (link,) = (step for step in made.recipe.steps if step.kind is StepKind.LINK)
    assert {"-l:libamdhip64.so.7", "build/stubs/libtorch_hip.so", "build/stubs/libc10_hip.so"} <= set(link.argv)


def test_an_image_has_its_own_rocm():
    image = ImageId(name="amd", digest="sha256:" + "1" * 64)
    made = plan(host=replace(HOST, image=image))
    assert made.toolkit.kind == "image-rocm"
    assert any("/opt/rocm-7.2.1/lib/llvm/bin/clang++" in step.argv for step in made.recipe.steps)


def test_gpu_archs_of_a_matrix_for_several_platforms():
    settings = CellSettings(gpu_archs=("9.0", "gfx942"))
    assert plan(replace(CELL, settings=settings)).wheel.gpu_archs == ("gfx942",)
    cuda = Cell(release="2.13", toolkit="13.0", arch="x86_64", settings=settings)
    assert plan(cuda).wheel.gpu_archs == ("9.0",)
    with_none = plan(replace(CELL, settings=CellSettings(gpu_archs=("9.0",))))
    assert with_none.wheel.gpu_archs == ("gfx90a", "gfx942", "gfx1100")  # those of the sources


def test_reasons():
    without = replace(HOST, toolkits={})
    assert "this machine has no ROCm toolkit, but the cell needs ROCm 7.2: install it" in reason(host=without)
    assert reason(cell=replace(CELL, toolkit="7.1")).startswith(
        "this machine has ROCm 7.2 at /opt/rocm-7.2.1, but the cell needs ROCm 7.1"
    )
    unknown = replace(CELL, settings=CellSettings(gpu_archs=("gfx999",)))
    assert "gpu-archs in matrix.yaml contains gfx999, but ROCm 7.2 compiles only for gfx900" in reason(cell=unknown)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({}, None),
        ({"toolkit": "7.0"}, "torch 2.13 was built with ROCm 7.1 and 7.2; a kernel needs the same release"),
        (
            {"release": "2.6"},
            "wheelsmith does not know which ROCm torch 2.6 was built with; it knows ROCm for torch 2.10 to 2.13",
        ),
        ({"arch": "aarch64"}, "torch's builds for ROCm are for x86_64, not for aarch64"),
    ],
)
def test_torch_is_built_for_some_releases(changes, why):
    assert framework("torch").why_incompatible(replace(CELL, **changes), any_minor=False) == why


@pytest.mark.parametrize("text", ["gfx", "gfx9", "gfx90a:x+", "sm_90", "9.0"])
def test_architectures_are_checked(text):
    with pytest.raises(ValueError, match="is not an AMD GPU architecture such as gfx90a or gfx1100"):
        platforms()["rocm"].check_capability(text)


@pytest.mark.parametrize("text", ["GFX942", "gfx942+PTX"])
def test_what_is_meant_is_told(text):
    with pytest.raises(ValueError, match="is not an AMD GPU architecture: write gfx942"):
        check_capability(text)


def test_architectures_of_no_platform_get_the_form_of_one():
    for text, form in (("gfx99", "an AMD GPU architecture such as"), ("90", "a compute capability: write 9.0")):
        with pytest.raises(ValueError, match=f"^'{text}' is not {form}[^;]*$"):
            check_capability(text)


def test_architectures_have_an_order():
    mixed = ["gfx1100", "9.0", "gfx942", "8.0+PTX", "gfx90a"]
    assert sorted(mixed, key=capability_order) == ["8.0+PTX", "9.0", "gfx90a", "gfx942", "gfx1100"]


def lay_out_gpus(folder, monkeypatch, *nodes):
    for number, (name, properties) in enumerate(nodes):
        node = folder / "nodes" / str(number)
        node.mkdir(parents=True)
        (node / "name").write_text(name)
        (node / "properties").write_text("".join(f"{key} {value}\n" for key, value in properties.items()))
    (folder / "module").mkdir()
    (folder / "module" / "version").write_text("6.12.12\n")
    monkeypatch.setattr(rocm, "_KFD", folder / "nodes")
    monkeypatch.setattr(rocm, "_MODULE", folder / "module")
    return platforms()["rocm"].devices.driver()


def test_gpus_of_the_driver(tmp_path, monkeypatch):
    cpu = ("", {"cpu_cores_count": 64, "gfx_target_version": 0})
    navi = ("navi31\n", {"gfx_target_version": 110000, "unique_id": 0x12345678})
    found = lay_out_gpus(tmp_path, monkeypatch, cpu, navi, ("", {"gfx_target_version": 90010}))
    assert found.version == "6.12.12"
    assert [(gpu.name, gpu.capability, gpu.uuid) for gpu in found.gpus] == [
        ("navi31", "gfx1100", "GPU-0000000012345678"),
        ("gfx90a", "gfx90a", ""),
    ]


def test_a_driver_without_gpus_is_none(tmp_path, monkeypatch):
    assert lay_out_gpus(tmp_path, monkeypatch, ("", {"gfx_target_version": 0})) is None


def test_code_runs_on_its_own_architecture_only():
    devices = platforms()["rocm"].devices
    assert devices.best_code(("gfx90a", "gfx942"), "gfx942") == "gfx942"
    assert devices.best_code(("gfx90a", "gfx942"), "gfx1100") is None
    assert devices.best_code(("gfx90a:xnack-", "gfx942"), "gfx90a") == "gfx90a:xnack-"


@pytest.fixture
def rocm_folder(tmp_path, monkeypatch):
    """A ROCm that has no more than the files by which one is found."""
    monkeypatch.setenv("ROCM_PATH", str(tmp_path))
    header, clang = tmp_path / "include/hip/hip_version.h", tmp_path / "lib/llvm/bin/clang++"
    for path in (header, clang):
        path.parent.mkdir(parents=True)
    header.write_text("#define HIP_VERSION_MAJOR 7\n#define HIP_VERSION_MINOR 2\n#define HIP_VERSION_PATCH 53211\n")
    clang.write_text("one")
    installed_compilers._find_toolkit.cache_clear()
    yield tmp_path
    installed_compilers._find_toolkit.cache_clear()


def test_the_toolkit_of_a_machine_is_added(rocm_folder):
    bare = replace(HOST, toolkits={})
    found = with_installed_toolkit(bare, "rocm")
    assert found.toolkits["rocm"].home == str(rocm_folder)
    image = replace(bare, image=ImageId(name="amd", digest="sha256:" + "1" * 64))
    assert (with_installed_toolkit(image, "rocm"), with_installed_toolkit(bare, "cuda")) == (image, bare)


def test_the_doctor_shows_it(rocm_folder, monkeypatch, capsys):
    answer = run_command(monkeypatch, capsys, "doctor", "--json")
    assert {"what": "ROCm", "found": f"7.2 (7.2.53211) at {rocm_folder}"}.items() <= next(
        each.items() for each in json.loads(answer.out)["symptoms"] if each["what"] == "ROCm"
    )


def test_survey_of_a_rocm_folder(rocm_folder, monkeypatch):
    found = survey.rocm()
    assert (found["home"], found["version"], found["release"]) == (str(rocm_folder), "7.2", "7.2.53211")
    (rocm_folder / "lib/llvm/bin/clang++").write_text("two")
    assert survey.rocm()["digest"] != found["digest"]
    monkeypatch.setenv("ROCM_PATH", str(rocm_folder / "include"))
    assert survey.rocm() is None
