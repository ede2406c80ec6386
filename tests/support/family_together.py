"""What contradicts itself only when it is read together: requirements, the CUDA of packages.

Shown by pip 23.2 and 26.3 and by uv 0.13: ResolutionImpossible, no matching distribution.
"""

from __future__ import annotations

from forge import Wheel, legals, lie, lies

_LONG_MARKER = " or ".join(["os_name == 'posix'"] * 60)
_MANY = ",".join(f"!=2.0.{number}" for number in range(150))


def _requires(wheel: Wheel, text: str) -> None:
    lines = text.split(" & ")
    torch = [line for line in wheel.metadata if line.startswith("Requires-Dist: torch")]
    wheel.requires(*lines)
    wheel.metadata += torch
    extras = {line.split("extra == '")[1].split("'")[0] for line in lines if "extra == '" in line}
    wheel.metadata += [f"Provides-Extra: {extra}" for extra in sorted(extras)]


# --- Letter by letter ---------------------------------------------------------------------------------------


def _of_torch(wheel: Wheel, text: str) -> None:
    wheel.requires(*text.split(" & "))


lies(
    "torch symbols",
    "torch's releases have three numbers, and this is compared letter by letter: {}",
    (
        *("torch===2.11", "torch===2.11.*", "torch===v2.11.0", "torch===2.11.0.0", "torch===2.11.00"),
        *("torch===2.11,>=2.11", "torch===2.11 & torch==2.11.*", "torch==2.11.*,===2.11", "torch===2.11+cpu"),
        *("torch===0!2.11.0", "torch===2.11.0,===2.11.1", "torch===2.12", "torch===02.11.0"),
    ),
    _of_torch,
    base="cpu",
    name="torch to the letter",
)
legals(
    "torch's releases are written so: {}",
    (
        *("torch===2.11.0", "torch===2.11.1", "torch===2.11.0+cpu", "torch===2.11.0,>=2.11", "torch===2.11.0+CPU"),
        *("torch===2.11.0 & torch==2.11.*", "torch==2.11.0,===2.11.0", "torch === 2.11.0"),
    ),
    _of_torch,
    base="cpu",
    name="torch to the letter",
)

# --- What nobody can meet -----------------------------------------------------------------------------------

lies(
    "together",
    "no version is all of that: {}",
    (
        *("numpy<1,>2", "numpy>2,<1", "numpy==1.*,==2.*", "numpy==1.26.0,!=1.26.0", "numpy~=1.26,<1.26"),
        *("numpy>=2,<2", "numpy>2,<=2", "numpy==1.*,!=1.*", "numpy>=2.0.dev0,<2.0", "numpy==1.0,==1.0.1"),
        *("numpy>=2,<2.1,!=2.0.*", "numpy>1!2,<2", "numpy===1.26,>=2", "numpy===latest", "numpy===1.26.*"),
        *("numpy==1.26+a,==1.26+b", "numpy>1.0,<1.0.post2", "numpy<1 & numpy>2", "numpy<1 & NumPy>2"),
        *(
            "foo_bar<1 & Foo.Bar>=1",
            "numpy<1 & scipy & numpy>2",
            "numpy[a]<1 & numpy[b]>=1",
            "numpy>=1 & numpy<2 & numpy!=1.*",
        ),
        *(
            "numpy<1; os_name == 'posix' & numpy>2",
            "numpy<1; python_version >= '3.12' & numpy>2; python_version >= '3.13'",
        ),
        *(
            "numpy<1; sys_platform == 'linux' & numpy>=1; platform_system == 'Linux'",
            "numpy<1,>2; python_version > '3.19'",
        ),
        *("numpy<1,>2; python_full_version >= '3.11.4'", "numpy<1,>2; extra == 'all'"),
        *("numpy<1; extra == 'a' & numpy>2; extra == 'a'", "numpy<1 & numpy>2; extra == 'a'"),
        *("numpy<1; extra == 'a' or extra == 'b' & numpy>2; extra == 'b'", "numpy<1,>2; extra != 'a'"),
        *(
            "a @ https://example.com/a-1.zip & a @ https://example.com/a-2.zip",
            "a @ file:///tmp/a.zip",
            "a @ FILE://localhost/tmp/a.zip",
            "a @ file:/a.zip ; extra == 'b'",
            f"numpy{_MANY},{_MANY.replace('2.0', '3.0')}",
        ),
    ),
    _requires,
    name="other projects",
)
lies("together", "for torch, too: {}", ("numpy<1,>2", "numpy<1 & numpy>2"), _requires, base="cuda", name="beside torch")
lies(
    "together",
    "in a pure wheel, for one system: {}",
    ("numpy<1 & numpy>2; sys_platform == 'win32'",),
    _requires,
    base="pure",
    name="pure",
)
legals(
    "some version is all of that, or nobody needs it to be: {}",
    (
        *("numpy>1,<2", "numpy>=1.26,<=1.26", "numpy>1.0.5,<1.0.6", "numpy>1,<1.0.0.1", "numpy>=2.0a1,<2.0b1"),
        *("numpy>1.0.5,<1.0.6,!=1.0.5.1", "numpy==1.*,!=1.26.*", "numpy~=1.26,!=1.26.1", "numpy>2.0a1,<2.0a3"),
        *("numpy===1.26.0", "numpy==1!2.0,>1!1", "numpy==1.26,==1.26+local", "numpy==1.26.*,===1.26.4", "numpy==2.0a1"),
        *("numpy<2 & numpy>=1.26", "numpy & numpy & numpy>1", "numpy==1.26.0 & numpy==1.26", f"numpy{_MANY}"),
        *("numpy<1; python_version < '3.12' & numpy>2; python_version >= '3.12'", "numpy<1; os_name == 'nt' & numpy>2"),
        *("numpy<1; extra == 'a' & numpy>2; extra == 'b'", "numpy<1,>2; sys_platform == 'win32'"),
        *("numpy<1; python_full_version < '3.11.4' & numpy>2; python_full_version >= '3.11.4'",),
        *(
            "numpy<1; platform_machine == 'riscv64' & numpy>2",
            "a @ https://example.com/a.zip & a @ https://example.com/a.zip",
            "a @ git+https://example.com/a",
            "a @ file:///tmp/a.zip ; sys_platform == 'win32'",
        ),
        *("numpy<1,>2; python_version < '3'", "numpy<1; extra == 'a' & numpy<2 & numpy>0.1"),
    ),
    _requires,
    name="other projects",
)


@lie("together", "who could follow it to its end")
def markers_without_end(wheel: Wheel) -> None:
    marker = " or ".join(
        f"python_full_version == '3.{minor}.{patch}'" for minor in range(10, 15) for patch in range(35)
    )
    wheel.requires(*[f"numpy<1; {marker}", f"numpy>2; {marker}"] * 20)


# --- The CUDA of NVIDIA's packages --------------------------------------------------------------------------

lies(
    "packages",
    "CUDA 13 has no such version: {}",
    (
        *(
            "nvidia-cufft<12",
            "nvidia-cufft==11.*",
            "nvidia-cufft==11.4.1.4",
            "nvidia-cufft~=11.3",
            "nvidia-curand<10.4",
        ),
        *(
            "nvidia-curand==10.3.*",
            "nvidia-cusolver<12",
            "nvidia-cusolver==11.7.*",
            "nvidia-cusparse<12.6",
            "nvidia-cusparse==12.5.*",
        ),
        *(
            "nvidia-cufile<1.15",
            "nvidia-cufile==1.14.*",
            "nvidia-npp<13",
            "nvidia-npp==12.*",
            "nvidia-nvjpeg==12.*",
            "nvidia-nvjpeg<13",
        ),
        *(
            "nvidia-nvfatbin<13",
            "nvidia-nvptxcompiler==12.*",
            "nvidia-cuda-opencl<13",
            "nvidia-nvml-dev==12.9.79",
            "nvidia-cublas==99",
        ),
        *("nvidia-cuda-sanitizer-api<13", "nvidia-cuda-culibos==12.*", "cuda-toolkit[cufft]<13", "NVIDIA_cuFFT <12"),
        *(
            "nvidia-cufft>=11 & nvidia-cufft<12",
            "nvidia-cufft & nvidia-cufft<12",
            "nvidia-cublas>=12 & nvidia-cublas<13",
        ),
        *(
            "nvidia-cufft<12; sys_platform == 'linux'",
            "nvidia-cufft===11.4.1.4",
            "nvidia-npp-cu12",
            "nvidia-nvjpeg-cu12",
        ),
    ),
    _requires,
    base="cuda",
    name="CUDA 13",
)
legals(
    "CUDA 13 has such a version: {}",
    (
        *(
            "nvidia-cufft",
            "nvidia-cufft>=11",
            "nvidia-cufft<13",
            "nvidia-cufft==12.0.0.15",
            "nvidia-cufft>=12,<13",
            "nvidia-cufft!=11.*",
        ),
        *(
            "nvidia-curand==10.4.*",
            "nvidia-curand<11",
            "nvidia-cusolver==12.*",
            "nvidia-cusparse>=12.6",
            "nvidia-cusparse==12.*",
        ),
        *(
            "nvidia-cufile",
            "nvidia-cufile<2",
            "nvidia-npp==13.*",
            "nvidia-nvjpeg>=12",
            "nvidia-cublas>=12",
            "nvidia-nvfatbin",
        ),
        *(
            "cuda-toolkit[cufft]==13.0.*",
            "nvidia-cufft>=11 & nvidia-cufft<13",
            "nvidia-cufft<12; sys_platform == 'win32'",
        ),
        *("nvidia-cudnn-frontend<2", "nvidia-ml-py<13", "nvidia-nvcomp-cu13", "nvidia-cufft==12.*,!=12.0.*"),
    ),
    _requires,
    base="cuda",
    name="CUDA 13",
)
lies(
    "packages",
    "a wheel without CUDA needs none of that: {}",
    ("nvidia-npp", "nvidia-nvjpeg<13", "nvidia-nvfatbin", "nvidia-cuda-opencl", "nvidia-nvml-dev", "nvidia-cudla"),
    _requires,
    base="cpu",
    name="CUDA in cpu",
)
legals("it talks to the driver alone: {}", ("nvidia-ml-py",), _requires, base="cpu", name="CUDA in cpu")

lies(
    "packages",
    "torch for the CPU needs nothing that is named for a CUDA: {}",
    ("cupy-cuda12x", "jax[cuda12]", "tensorrt-cu12-libs", "nvidia-cublas-cu13 @ https://example.com/a.whl"),
    _requires,
    base="cpu",
    name="named for CUDA in cpu",
)
lies(
    "packages",
    "a URL may have any release: {}",
    (
        *(
            "nvidia-cublas @ https://example.com/nvidia_cublas-13.0.0-py3-none-manylinux2014_x86_64.whl",
            "NVIDIA.cuda_runtime @ https://example.com/a.whl",
            "nvidia-cufft @ git+https://example.com/a",
            "cuda-toolkit[cublas] @ https://example.com/a.zip",
            "nvidia-cudnn-cu13 @ https://example.com/a.whl",
            "nvidia-cublas @ https://example.com/a.whl ; sys_platform == 'linux'",
            "nvidia-cublas @ https://example.com/a.whl & nvidia-cublas==13.*",
        ),
    ),
    _requires,
    base="cuda",
    name="CUDA from a URL",
)
lies(
    "packages",
    "CUDA 13 is none of what is left when all lines are read: {}",
    (
        *(
            "nvidia-cufft<12.0.5; sys_platform == 'linux' & nvidia-cufft!=12.0.*",
            "nvidia-cufft[a]<12.0.5 & nvidia-cufft[b]!=12.0.*",
            "nvidia-cufft<12.0.5; python_version >= '3.14' & nvidia-cufft!=12.0.*; python_version < '3.15'",
            "nvidia-cublas-cu12; python_full_version == '3.12.4'",
            f"nvidia-cublas<13,{','.join(f'!=1.{number}' for number in range(60))}",
            f"nvidia-cublas-cu12; {_LONG_MARKER}",
        ),
    ),
    _requires,
    base="cuda",
    name="CUDA together",
)


@lie("packages", "the line that counts is behind many others", base="cuda")
def cuda_packages_behind_many_lines(wheel: Wheel) -> None:
    wheel.metadata += [f"Requires-Dist: a{number}" for number in range(600)]
    wheel.metadata.append("Requires-Dist: nvidia-cublas-cu12")


legals(
    "nobody gets another CUDA: {}",
    (
        *(
            "cupy-cuda13x @ https://example.com/a.whl",
            "nvidia-cublas @ https://example.com/a.whl ; sys_platform == 'win32'",
            "nvidia-cublas>=12; sys_platform == 'linux' & nvidia-cublas<13; sys_platform == 'win32'",
            "nvidia-cublas-cu12; extra == 'old'",
            "nvidia-ml-py @ https://example.com/a.whl",
            "nvidia-cufft<13; python_version >= '3.14' & nvidia-cufft!=12.0.*; python_version < '3.15'",
        ),
    ),
    _requires,
    base="cuda",
    name="CUDA together",
)
legals(
    "only who asks for it gets CUDA: {}",
    ("cupy-cuda12x; extra == 'gpu'", "nvidia-cublas-cu13; sys_platform == 'win32'", "jax[cpu]"),
    _requires,
    base="cpu",
    name="named for CUDA in cpu",
)

# --- Torch and extras ---------------------------------------------------------------------------------------


def _of_torch_and_extras(wheel: Wheel, text: str) -> None:
    wheel.requires(*text.split(" & "))
    wheel.metadata += ["Provides-Extra: a", "Provides-Extra: b"]


lies(
    "torch symbols",
    "whoever asks for an extra has another torch, or none: {}",
    (
        *(
            "torch==2.11.* & torch==2.10.*; extra == 'a'",
            "torch==2.11.*; extra != 'a' & torch==2.12.*; extra == 'a'",
            "torch==2.11.* & torch==2.11.0; extra == 'a' & torch==2.12.0; extra == 'b'",
            "torch==2.11.* & torch @ https://example.com/a.whl ; extra == 'a'",
            "torch[opt-einsum] @ https://example.com/torch-2.11.0-cp311-cp311-linux_x86_64.whl",
        ),
    ),
    _of_torch_and_extras,
    base="cpu",
    name="torch and extras",
)
legals(
    "it is torch 2.11 with every extra: {}",
    (
        *(
            "torch==2.11.* & torch==2.11.0; extra == 'a'",
            "torch==2.11.0; extra != 'a' & torch==2.11.1; extra == 'a'",
            "torch==2.11.* & torch @ https://example.com/a.whl ; sys_platform == 'win32'",
            "torch==2.11.* & torch==2.12.*; sys_platform == 'win32' and extra == 'a'",
            "torch==2.11.* & Torch[opt-einsum]; extra == 'a'",
        ),
    ),
    _of_torch_and_extras,
    base="cpu",
    name="torch and extras",
)
