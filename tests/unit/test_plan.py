import json
from dataclasses import replace

import pytest
from packaging.metadata import parse_email

from wheelsmith.model import HOST, BuildPlan, Cell, CellSettings, Excluded, SourceId, StepKind
from wheelsmith.model.build_host import BuildHost, ImageId, ToolkitHome, Toolset
from wheelsmith.plan.feasibility import NotBuildableError, find_toolkit
from wheelsmith.plan.kernel import left_out_capabilities, plan_kernel
from wheelsmith.plan.recipe.build_toml import parse_build_toml
from wheelsmith.plan.recipe.recipe import KernelSource

TOML = """\
[general]
name = "my-kernel"
version = 3
edition = 5
license = "Apache-2.0"
backends = ["cpu", "cuda"]
{general}
[torch]
src = ["torch-ext/b.cpp"]
cxx-flags = ["-Wextra"]
{torch}
[kernel.host]
backend = "cpu"
depends = []
include = ["inc"]
cxx-flags = ["-mavx2"]
src = ["a.cpp", "a.h"]

[kernel.device]
backend = "cuda"
depends = ["torch"]
cuda-flags = ["-lineinfo"]
src = ["a.cu"]
{device}
"""
PATHS = (
    "LICENSE",
    "a.cpp",
    "a.cu",
    "a.h",
    "c.cu",
    "torch-ext/b.cpp",
    "torch-ext/my_kernel/__init__.py",
    "torch-ext/my_kernel/x.json",
)
SOURCE = KernelSource(
    id=SourceId(origin="path", revision=None, commit=None, tree="f" * 16),
    paths=PATHS,
    readme=None,
    code="0123456789abcdef",
)
GXX = Toolset(arch="x86_64", cxx="g++", version="g++ 12", digest="d")
ARM = Toolset(arch="aarch64", cxx="aarch64-linux-gnu-g++", version="g++ 12", digest="a")


def plan(
    *,
    torch="2.11",
    cuda="13.0",
    archs=None,
    toolset=GXX,
    distribution=None,
    version=None,
    arch="x86_64",
    general="",
    binding="",
    device="",
    image_cuda=None,
    headers="whole",
):
    text = TOML.format(general=general, torch=binding, device=device)
    settings = CellSettings(gpu_archs=archs, torch_headers=headers, toolchain=HOST)
    cell = Cell(release=torch, toolkit=cuda, arch=arch, settings=settings)
    return plan_kernel(
        cell,
        spec=parse_build_toml(text),
        source=SOURCE,
        distribution=distribution,
        version=version,
        build_host=BuildHost(
            image=ImageId(name="cuda", digest="sha256:1") if image_cuda else None,
            machine="x86_64",
            python="3.11",
            toolsets=(toolset,) if toolset else (),
            pythons={},
            toolkits={
                "cuda": ToolkitHome(home="/usr/local/cuda", version=image_cuda, release=f"{image_cuda}.1", digest="c")
            }
            if image_cuda
            else {},
        ),
    )


def commands(a_plan, kind):
    return {step.output: " ".join(step.argv) for step in a_plan.recipe.steps if step.kind is kind}


def test_a_step_says_what_it_compiles_and_for_which_capabilities():
    said = {step.source: (step.kind, step.gpu_archs) for step in plan(archs=("8.0", "9.0+PTX")).recipe.steps}
    assert said == {
        "torch-ext/b.cpp": (StepKind.CXX, ()),
        "a.cu": (StepKind.NVCC, ("8.0", "9.0+PTX")),
        None: (StepKind.LINK, ()),  # the last of those that compile nothing of the kernel's
    }


def test_light_headers_stand_before_torchs_own():
    whole, light = plan(), plan(headers="light")
    assert "wheelsmith-headers" not in str(whole.to_json())
    assert whole.build_digest != light.build_digest
    assert "torch/types.h" in light.recipe.generated["wheelsmith-headers/torch/all.h"]
    for step in light.recipe.steps:
        if step.kind in {StepKind.CXX, StepKind.NVCC}:
            folders = [step.argv[n + 1] for n, word in enumerate(step.argv) if word == "-isystem"]
            assert folders.index("/work/src/wheelsmith-headers") < folders.index("/opt/torch/include")


def test_a_toolkit_from_an_image():
    made = plan(torch="2.9", cuda="12.4", archs=("8.0",), image_cuda="12.4")
    assert (made.toolkit.kind, made.toolkit.version, made.image.name) == ("image-cuda", "12.4.1", "cuda")
    assert all("/usr/local/cuda/bin/nvcc" in command for command in commands(made, StepKind.NVCC).values())
    arm = {"torch": "2.11", "arch": "aarch64", "toolset": ARM}
    # Where an image has not the very one, one of CUDA 12 is assembled; 13.0 always is.
    for made in (
        plan(torch="2.9", cuda="12.6", image_cuda="12.4"),
        plan(torch="2.9", cuda="12.4"),
        plan(torch="2.9", cuda="12.4", image_cuda="12.6"),
        plan(cuda="12.4", image_cuda="12.4", **arm),
        plan(cuda="13.0", image_cuda="13.0"),
    ):
        assert (made.toolkit.kind, made.toolkit.version) == ("cuda", made.cell.toolkit)


def test_a_kernel_that_brings_its_own_runtime_needs_a_toolkit_that_has_it():
    host = BuildHost(image=None, machine="x86_64", python="3.11", toolsets=(GXX,), pythons={}, toolkits={})
    torch = Cell(release="2.11", toolkit="12.4", arch="x86_64")
    tvm = replace(torch, framework="tvm-ffi", release="0.1", cxx11_abi=None)
    assert find_toolkit(torch, host)
    assert find_toolkit(replace(tvm, toolkit="13.0"), host)
    with pytest.raises(NotBuildableError, match=r"packages of CUDA 12\.4 lack its static runtime: use an image"):
        find_toolkit(tvm, host)
    image = ImageId(name="cuda", digest="0" * 64)
    found = ToolkitHome(home="/usr/local/cuda", version="12.8", release="12.8.1", digest="0" * 64)
    with pytest.raises(NotBuildableError, match=r"has CUDA 12\.8 at /usr/local/cuda, but the cell needs CUDA 12\.4"):
        find_toolkit(tvm, replace(host, image=image, toolkits={"cuda": found}))
    with pytest.raises(NotBuildableError, match="compiles only for x86_64, not for aarch64"):
        find_toolkit(replace(tvm, arch="aarch64"), replace(host, image=image, toolkits={"cuda": found}))


def test_a_cuda_plan():
    made = plan(archs=("8.0", "9.0a", "12.0+PTX"))
    assert BuildPlan.from_json(json.loads(json.dumps(made.to_json()))) == made
    assert made.wheel.version == "3+cu130.torch2.11"
    assert "Requires-Dist: torch==2.11.*\n" in made.wheel.metadata
    assert made.wheel.gpu_archs == ("8.0", "9.0a", "12.0+PTX")
    nvcc = commands(made, StepKind.NVCC)["build/obj/a.cu.o"]
    for flag in (
        "-std=c++17",
        "-lineinfo",
        "-objtemp",
        "-DCUDA_KERNEL",
        "code=sm_90a",
        "code=compute_120",
        "-DENABLE_FP8",
    ):
        assert flag in nvcc
    assert "-DTORCH_EXTENSION_NAME=_my_kernel_cuda_0123456789" in nvcc
    assert "-Wextra" in commands(made, StepKind.CXX)["build/obj/torch-ext/b.cpp.o"]
    link = next(iter(commands(made, StepKind.LINK).values()))
    assert (
        link.index("libtorch_cuda.so")
        < link.index("-l:libcudart.so.13")
        < link.index("--as-needed", link.index("cudart"))
    )
    assert made.recipe.contents["my_kernel/_ops.py"] == "src/torch-ext/my_kernel/_ops.py"
    assert "my_kernel/x.json" not in made.recipe.contents


def test_a_cpu_plan():
    made = plan(cuda=None, torch="2.13")
    assert (made.wheel.version, made.toolkit, made.wheel.gpu_archs) == ("3+cpu.torch2.13", None, ())
    host = commands(made, StepKind.CXX)["build/obj/a.cpp.o"]
    assert "-std=c++20" in host  # kernel-builder's choice from torch 2.12 on
    assert "-mavx2" in host
    assert "-I/work/src/inc" in host
    assert not commands(made, StepKind.NVCC)


def test_what_decides_the_bytes_decides_the_digest():
    base = plan()
    other_gxx = Toolset(arch="x86_64", cxx="g++", version="g++ 12", digest="e")
    different = [plan(torch="2.13"), plan(cuda=None), plan(archs=("8.0",)), plan(toolset=other_gxx), plan(version="4")]
    more = '[kernel.more]\nbackend = "cuda"\ndepends = ["torch", "{}"]\nsrc = ["c.cu"]\n'
    different += [plan(device=more.format(name)) for name in ("torch", "cutlass_3_6", "cutlass_3_8")]
    digests = [p.build_digest for p in [base, *different]]
    assert len(set(digests)) == len(digests)
    assert plan().build_digest == base.build_digest


def test_stable_abi_is_one_build_for_every_torch():
    made = [plan(torch=t, **STABLE) for t in ("2.11", "2.13", "2.15")]
    assert len({p.build_digest for p in made}) == 1
    assert made[0].wheel.version == "3+cu130.torchstable"
    assert "Requires-Dist: torch>=2.11\n" in made[0].wheel.metadata
    assert "-DTORCH_TARGET_VERSION=0x020b000000000000" in commands(made[0], StepKind.NVCC)["build/obj/a.cu.o"]
    assert isinstance(plan(torch="2.10", **STABLE), Excluded)
    # Other backends of the same kernel do not use it.
    assert plan(cuda=None, **STABLE).wheel.version == "3+cpu.torch2.11"


DEPENDING = '[kernel.more]\nbackend = "cuda"\ndepends = ["torch", "{}"]\nsrc = ["c.cu"]\n'
OTHER = '[kernel.other]\nbackend = "cuda"\ndepends = []\nsrc = ["c.cu"]\ncuda-capabilities = ["8.9", "12.0a"]\n'
STABLE = {"device": '\n[torch.stable-abi]\ncuda = "2.11"\n'}


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"general": '[general.cuda]\nmaxver = "12.9"'}, "needs cuda 12.9 or older"),
        ({"binding": 'minver = "2.12"'}, "needs torch 2.12 or newer"),
        ({"general": 'kernel-depends = [{repo-id = "a/b", version = 1}]'}, "needs a/b from the Hub"),
        ({"general": 'python-depends = ["numpy"]'}, "not on kernel-builder's list"),
        (
            {"device": f'cuda-capabilities = ["8.0"]\n{OTHER}', "archs": ("9.0",)},
            "[kernel.other] (8.9, 12.0a), which other sources of the kernel may call: write gpu-archs: [9.0, 8.0, 8.9]",
        ),
        ({"device": 'cuda-capabilities = ["7.0"]', "archs": ("9.0",)}, "CUDA 13.0 makes no code for device"),
        ({"device": 'cuda-minver = "13.5"'}, "no kernel section of build.toml applies"),
        ({"archs": ("5.0",)}, "contains 5.0, but CUDA 13.0 compiles only for"),
        ({"toolset": None}, "apt-get install g++"),
        ({"device": DEPENDING.format("cutlass_3_88")}, "headers wheelsmith cannot provide: did you mean cutlass_3_8?"),
        ({"device": DEPENDING.format("zzz")}, "headers wheelsmith cannot provide: it provides cutlass_"),
        ({"general": 'python-depends = ["einop"]'}, "did you mean einops?"),
    ],
)
def test_a_cell_that_cannot_be_built_has_a_reason(options, reason):
    made = plan(**options)
    assert isinstance(made, Excluded)
    assert reason in made.reason


def test_capabilities_that_a_toolkit_lacks_are_named():
    listed = 'cuda-capabilities = ["5.0", "8.0", "{}"]'
    more = f'[kernel.more]\nbackend = "cuda"\ndepends = []\nsrc = ["c.cu"]\n{listed.format("11.0a+PTX")}'
    device = f"{listed.format('10.1')}\n{more}\n"
    spec = parse_build_toml(TOML.format(general="", torch="", device=device))
    cells = [
        Cell(release=torch, toolkit=cuda, arch="x86_64") for torch in ("2.9", "2.10") for cuda in ("12.9", "13.0", None)
    ]
    assert list(left_out_capabilities(spec, cells)) == [
        "[kernel.more]: CUDA 12.9 makes no code for 11.0a+PTX (called 10.1 before CUDA 13); left out",
        "[kernel.device]: CUDA 13.0 makes no code for 5.0, 10.1 (called 11.0 from CUDA 13 on); left out",
        "[kernel.more]: CUDA 13.0 makes no code for 5.0; left out",
    ]


def test_all_that_keeps_a_cell_from_being_built_is_told_at_once():
    more = '[kernel.more]\nbackend = "cuda"\ndepends = ["torch", "cutlass_9_0"]\nsrc = ["c.cu"]\n'
    made = plan(device=more, archs=("5.0",), general='python-depends = ["numpy"]', toolset=None)
    assert isinstance(made, Excluded)
    told = made.reason.split("; ")
    for words in ("depends on cutlass_9_0", "gpu-archs in matrix.yaml contains 5.0", "apt-get install g++", "'numpy'"):
        assert len([reason for reason in told if words in reason]) == 1, words
    assert len(told) == 4
    made = plan(general='[general.cuda]\nmaxver = "12.9"', binding='minver = "2.12"')
    assert made.reason.count("build.toml") == 2


def test_dependencies_names_and_versions():
    made = plan(general='python-depends = ["einops"]', distribution="My.Dist", version="1.2")
    assert "Requires-Dist: einops\n" in made.wheel.metadata
    assert "Name: My.Dist\nVersion: 1.2+cu130.torch2.11\n" in made.wheel.metadata
    assert "License-Expression: Apache-2.0\nLicense-File: LICENSE\n" in made.wheel.metadata
    assert made.recipe.contents["my_dist-1.2+cu130.torch2.11.dist-info/licenses/LICENSE"] == "src/LICENSE"


NOARCH = """\
[general]
name = "my-kernel"
version = 3
edition = 5
license = "MIT"
backends = [{backends}]
python-depends = ["tvm-ffi"]

[general.cuda]
python-depends = ["nvidia-cutlass-dsl"]

[torch-noarch]
"""


@pytest.mark.parametrize(
    ("backends", "cutlass"),
    [
        ('"cuda"', ["nvidia-cutlass-dsl"]),
        # Wheels are made for the CPU and CUDA alone, so what is left of these is CUDA.
        ('"cpu", "cuda"', ['nvidia-cutlass-dsl; extra == "cuda"']),
        ('"cpu"', []),
    ],
)
def test_what_the_only_backend_needs_is_required(backends, cutlass):
    made = plan_kernel(
        Cell(release="2.11", toolkit=None if backends == '"cpu"' else "13.0", arch="x86_64"),
        spec=parse_build_toml(NOARCH.format(backends=backends)),
        source=SOURCE,
        distribution=None,
        version=None,
        build_host=BuildHost(image=None, machine="x86_64", python="3.11", toolsets=(), pythons={}, toolkits={}),
    )
    needs = parse_email(made.wheel.metadata)[0]["requires_dist"]
    assert needs == ["torch", "apache-tvm-ffi", *cutlass]


def test_a_source_of_two_sections_is_compiled_once():
    made = plan(
        device='[kernel.more]\nbackend = "cuda"\ndepends = []\nsrc = ["a.cu", "c.cu"]\ncuda-flags = ["-DMORE"]\n'
    )
    assert set(commands(made, StepKind.NVCC)) == {"build/obj/a.cu.o", "build/obj/c.cu.o"}
    assert "-lineinfo -DMORE" in commands(made, StepKind.NVCC)["build/obj/a.cu.o"]
