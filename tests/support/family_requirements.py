"""What is required of torch and of other projects, alone and together, and of which CUDA it is."""

from __future__ import annotations

from forge import Wheel, legal, legals, lie, lies


def _requires(wheel: Wheel, text: str) -> None:
    """Require lines with `` & `` between them, and provide the extras that they name."""
    lines = text.split(" & ")
    wheel.requires(*lines)
    extras = {line.split("extra == '")[1].split("'")[0] for line in lines if "extra == '" in line}
    wheel.metadata += [f"Provides-Extra: {extra}" for extra in sorted(extras)]


# --- torch --------------------------------------------------------------------------------------------------

lies(
    "torch symbols",
    "+cpu.torch2.11 requires {}",
    [
        *("torch==2.10.*", "torch==2.12.*", "torch>=2.11", "torch", "torch!=2.11.*", "torch<2.12", "torch~=2.11"),
        *("torch>2.10,<2.12", "torch>=2.11,<3", "torch>=2.11,<=2.12", "torch==2.*", "torch===2.12.0"),
        *("torch==2.11.*,==2.12.*", "torch==2.11.*,!=2.11.*", "torch==2.11.0+cu130", "torch>=2.11,!=2.12.*"),
        *("torch==2.13.0.dev20260101", "torch>=3"),
        *("torch==2.11.* & torch==2.12.*", "torch>=2.11 & torch>=2.10", "torch==2.11.* & TORCH<2"),
    ],
    _requires,
    base="cpu",
    name="specifier",
)
lies(
    "torch symbols",
    "the requirement holds nowhere, or not everywhere: {}",
    [
        *('torch==2.11.*; python_version < "3"', 'torch==2.11.*; sys_platform == "win32"'),
        *('torch==2.11.*; python_version < "3.12"', "torch==2.11.*; extra == 'gpu'"),
        'torch==2.11.*; python_version < "3.12" & torch==2.12.*; python_version >= "3.12"',
        'torch==2.11.* & torch==2.12.*; python_version >= "3.12"',
        'torch==2.11.*; platform_machine == "riscv64"',
    ],
    _requires,
    base="cpu",
    name="marker",
)
lies(
    "torch symbols",
    "this is not torch: {}",
    ["pytorch==2.11.*", "torch-cpu==2.11.*", "torchvision==0.26.*"],
    _requires,
    base="cpu",
    name="other project",
)
lies(
    "torch symbols",
    "+cu130.torch2.11 requires {}",
    ["torch==2.11.0+cpu", "torch==2.11.0+cu126", "torch==2.10.*", "torch>=2.11"],
    _requires,
    base="cuda",
    name="cuda",
)
lies(
    "torch metadata",
    "torch from somewhere: {}",
    ["torch @ https://example.com/torch-2.11.0-py3-none-any.whl", "torch @ git+https://example.com/torch"],
    _requires,
    base="cpu",
    name="address",
)
lies(
    "torch symbols",
    "a wheel for torch's stable ABI requires {}",
    ["torch<2.13", "torch", "torch>=2.5", "torch!=2.11.*", "torch>=2.16", "torch<=2.15"],
    _requires,
    base="stable",
    name="stable",
)


@lie("torch symbols", "the requirement stands behind the blank line: it is description", base="cpu")
def requirement_in_the_description(wheel: Wheel) -> None:
    wheel.requires()
    wheel.body = b"Requires-Dist: torch==2.11.*\n"


@lie("torch symbols", "Requires-External is a remark", base="cpu")
def requires_external(wheel: Wheel) -> None:
    wheel.requires()
    wheel.metadata.append("Requires-External: torch==2.11.*")


@lie("torch symbols", "a wheel without a local version uses torch's C++ symbols, with every torch", base="cpu")
def any_torch_without_a_local_version(wheel: Wheel) -> None:
    wheel.rename("1.0")
    wheel.library.import_("_ZN3c104cuda29c10_cuda_check_implementationEiPKcS2_ib", kind=0)
    wheel.requires("torch")


def _local(wheel: Wheel, text: str) -> None:
    version, requirement = text.split()
    wheel.rename(version)
    wheel.requires(requirement)


lies(
    "torch names compute symbols",
    "version and requirement: {}",
    ["1.0+cpu.torch2.12 torch==2.11.*", "1.0+cpu.torch2.1 torch==2.11.*", "1.0+cpu.torch2.99 torch==2.99.*"],
    _local,
    base="cpu",
    name="local",
)
legals(
    "torch 2.11 and no other: {}",
    [
        *("Torch==2.11.*", "torch==2.11.0", "torch==2.11", "torch==2.11.*,!=2.11.1", "torch~=2.11.0", "torch===2.11.0"),
        *("torch>=2.11,<2.12", "torch>=2.11,<2.12.dev0", "torch (==2.11.*)", "torch[opt-einsum]==2.11.*"),
        *("torch==2.11.0+cpu", 'torch==2.11.*; sys_platform == "linux"', 'torch==2.11.*; os_name == "posix"'),
        *("torch==2.11.* & torch>=2", "torch>=2.11 & torch<2.12", "torch==2.11.* & numpy>=1.26"),
        'torch==2.11.*; python_version < "3.12" & torch==2.11.*; python_version >= "3.12"',
        'torch==2.11.* & torch==2.12.*; sys_platform == "win32"',
        "torch==2.11.* & torch==2.11.*; extra == 'all'",
    ],
    _requires,
    base="cpu",
    name="specifier",
)
legals("torch 2.11 for CUDA 13.0: {}", ["torch==2.11.0+cu130", "torch==2.11.*"], _requires, base="cuda", name="cuda")
legals(
    "torch's stable ABI: {}",
    ["torch>=2.10", "torch>=2.10.0", "torch>=2.10,!=2.12.*", "torch>=2.10,<3"],
    _requires,
    base="stable",
    name="stable",
)
legals(
    "a local version that names no torch leaves it to the requirement, as torchvision's does: {}",
    ["1.0 torch==2.11.*", "1.0+cpu torch==2.11.*", "1.0+abc.5 torch==2.11.*"],
    _local,
    base="cpu",
    name="local",
)
legals("the same for CUDA: {}", ["1.0+cu130 torch==2.11.0"], _local, base="cuda", name="local of cuda")


@legal("the platform's marker fits the tag", base="cpu")
def marker_of_this_machine(wheel: Wheel) -> None:
    wheel.requires(f'torch==2.11.*; platform_machine == "{wheel.arch}"')


# --- other projects -----------------------------------------------------------------------------------------

lies(
    "together",
    "no version is all of that: {}",
    [
        *("numpy<1,>2", "numpy==1.*,==2.*", "numpy~=1.26,<1.26", "numpy==1.*,!=1.*", "numpy<1 & numpy>2"),
        *("foo_bar<1 & Foo.Bar>=1", "numpy<1 & scipy & numpy>2", "numpy[a]<1 & numpy[b]>=1"),
        *("numpy<1; os_name == 'posix' & numpy>2", "numpy<1,>2; extra == 'all'", "numpy<1 & numpy>2; extra == 'a'"),
        "numpy<1; python_version >= '3.12' & numpy>2; python_version >= '3.13'",
        *("a @ file:///tmp/a.zip", "a @ FILE://localhost/tmp/a.zip"),
    ],
    _requires,
    name="other projects",
)
legals(
    "some version is all of that, or no environment needs it: {}",
    [
        *("numpy>1,<2", "numpy>=1.26,<=1.26", "numpy>1.0.5,<1.0.6", "numpy==1.*,!=1.26.*", "numpy & numpy & numpy>1"),
        "numpy<1; python_version < '3.12' & numpy>2; python_version >= '3.12'",
        "numpy<1; extra == 'a' & numpy>2; extra == 'b'",
        *("numpy<1,>2; sys_platform == 'win32'", "a @ git+https://example.com/a"),
        "a @ file:///tmp/a.zip ; sys_platform == 'win32'",
    ],
    _requires,
    name="other projects",
)

# --- CUDA's packages ----------------------------------------------------------------------------------------


def _also(wheel: Wheel, text: str) -> None:
    _requires(wheel, f"torch==2.11.* & {text}")


lies(
    "packages",
    "CUDA 13 has no such version: {}",
    [
        *("nvidia-cublas-cu12", "nvidia_cudnn_cu11>=8", "cupy-cuda12x", "tensorrt-cu12-libs", "jax-cuda12-plugin"),
        *("cuda-core[cu12]", "jax[cuda12]", "cuda-bindings==12.*", "cuda-toolkit[cudart]==12.8.*", "NVIDIA_cuFFT <12"),
        *("nvidia-cuda-runtime<13", "nvidia-cufft~=11.3", "nvidia-curand<10.4", "nvidia-npp==12.*", "nvidia-nvjpeg<13"),
        "nvidia-nccl-cu12; sys_platform == 'linux'",
    ],
    _also,
    base="cuda",
    name="CUDA 13",
)
legals(
    "CUDA 13 has such a version, or no environment needs it: {}",
    [
        *("cupy-cuda13x", "nvidia-cudnn-cu13", "tensorrt-cu13-libs", "cuda-core[cu13]", "jax[cuda13]"),
        *("nvidia-cuda-runtime>=12,<14", "cuda-bindings~=13.0", "nvidia-ml-py==12.*", "nvidia-cufft==12.*"),
        *(
            "nvidia-cufft",
            "nvidia-cufft<13",
            "nvidia-curand==10.4.*",
            "nvidia-npp==13.*",
            "cuda-toolkit[cufft]==13.0.*",
        ),
        *("nvidia-cublas-cu12; sys_platform == 'win32'", "nvidia-cublas-cu12; extra == 'old'"),
    ],
    _also,
    base="cuda",
    name="CUDA 13",
)
lies(
    "packages",
    "a wheel for the CPU needs nothing of CUDA: {}",
    ["nvidia-cudnn-cu13", "cuda-toolkit", "nvidia-npp", "nvidia-cufft", "cupy-cuda12x", "jax[cuda12]"],
    _also,
    base="cpu",
    name="CUDA in cpu",
)
legals(
    "it talks to the driver alone, or only an extra asks for CUDA: {}",
    ["nvidia-ml-py", "cupy-cuda12x; extra == 'gpu'", "jax[cpu]"],
    _also,
    base="cpu",
    name="CUDA in cpu",
)
