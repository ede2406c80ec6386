"""What is required of torch, read as an installer reads it."""

from __future__ import annotations

from forge import Wheel, legal, legals, lie, lies


def _requires(wheel: Wheel, text: str) -> None:
    wheel.requires(*text.split(" & "))


lies(
    "torch symbols",
    "+cpu.torch2.11 requires {}",
    [
        *(
            "torch==2.10.*",
            "torch==2.12.*",
            "torch>=2.11",
            "torch",
            "torch!=2.11.*",
            "torch<2.12",
            "torch<=2.11.99",
            "torch~=2.11",
        ),
        *(
            "torch>2.10,<2.12",
            "torch>=2.11,<3",
            "torch>=2.11,<=2.12",
            "torch>=2.10,<2.12",
            "torch==2.*",
            "torch===2.12.0",
            "torch==2.1.*",
        ),
        *(
            "torch==2.110.*",
            "torch==2.11.*,==2.12.*",
            "torch==2.11.*,!=2.11.*",
            "torch==2.11.*,<2.11",
            "torch==2.11.0,==2.11.1",
        ),
        *(
            "torch==2.11.*,>2.12",
            "torch==2.11.0+cu130",
            "torch==2.11.0+cu126",
            "torch>=2.11,!=2.12.*",
            "torch==12.11.*",
            "torch>=3",
        ),
    ],
    _requires,
    base="cpu",
    name="specifier",
)
lies(
    "torch symbols",
    "several lines that no torch satisfies, or another: {}",
    [
        *(
            "torch==2.11.* & torch==2.12.*",
            "torch==2.11.* & torch>=2.12",
            "torch==2.11.* & Torch!=2.11.0,!=2.11.1,<2.11",
        ),
        *(
            "torch>=2.11 & torch>=2.10",
            "torch==2.11.* & torch[opt]==2.10.*",
            "torch & torch",
            "torch==2.11.* & torch<2",
        ),
        *("torch==2.11.* & TORCH==2.10.*", "torch==2.10.*,==2.11.* & torch==2.11.*"),
    ],
    _requires,
    base="cpu",
    name="together",
)
lies(
    "torch symbols",
    "the requirement holds nowhere, or not everywhere: {}",
    [
        *(
            'torch==2.11.*; python_version < "3"',
            'torch==2.11.*; sys_platform == "win32"',
            'torch==2.11.*; extra == "gpu"',
        ),
        *(
            'torch==2.11.*; python_version < "3.12"',
            'torch==2.11.*; platform_system == "Darwin"',
            'torch==2.11.*; os_name == "nt"',
        ),
        *(
            'torch==2.11.*; python_version >= "3.11"',
            'torch==2.11.*; platform_machine == "riscv64"',
            'torch==2.11.*; "a" == "b"',
        ),
        'torch==2.11.*; python_version < "3.12" & torch==2.12.*; python_version >= "3.12"',
        'torch==2.11.*; python_version < "3.12" & torch==2.11.*; python_version > "3.13"',
        'torch==2.11.* & torch==2.12.*; python_version >= "3.12"',
        'torch==2.11.*; implementation_name == "pypy"',
        'torch==2.11.*; python_full_version == "3.11.0"',
        'torch==2.11.*; platform_release == "never"',
        'torch==2.11.*; python_version >= "3.10" and extra == ""  and sys_platform == "darwin"',
    ],
    _requires,
    base="cpu",
    name="marker",
)
lies(
    "torch symbols",
    "this is not torch: {}",
    [
        "pytorch==2.11.*",
        "torch-cpu==2.11.*",
        "torchvision==0.26.*",
        "t-orch==2.11.*",
        "torch.nn==2.11.*",
        "torch2==2.11.*",
    ],
    _requires,
    base="cpu",
    name="other project",
)
lies(
    "torch symbols",
    "+cu130.torch2.11 requires {}",
    ["torch==2.11.0+cpu", "torch==2.11.0+cu126", "torch==2.11.0+cu130,==2.11.0+cpu", "torch==2.10.*", "torch>=2.11"],
    _requires,
    base="cuda",
    name="cuda",
)
lies(
    "torch metadata",
    "torch from somewhere: {}",
    [
        "torch @ https://example.com/torch-2.11.0-py3-none-any.whl",
        "torch @ file:///tmp/torch.whl",
        "torch @ git+https://example.com/torch",
    ],
    _requires,
    base="cpu",
    name="address",
)
lies(
    "torch symbols",
    "a wheel for torch's stable ABI requires {}",
    [
        "torch<2.13",
        "torch",
        "torch>=2.5",
        "torch!=2.11.*",
        "torch>=2.16",
        "torch>=99",
        "torch<=2.15",
        "torch>=1.0",
        "torch>0",
    ],
    _requires,
    base="stable",
    name="stable",
)


@lie("torch symbols", "torch's libraries are needed, and nothing requires torch", base="cpu")
def no_requirement(wheel: Wheel) -> None:
    wheel.requires()


@lie("torch symbols", "the requirement stands behind the blank line: it is description", base="cpu")
def requirement_in_the_description(wheel: Wheel) -> None:
    wheel.requires()
    wheel.body = b"Requires-Dist: torch==2.11.*\n"


@lie("torch symbols metadata", "Requires is read by no installer", base="cpu")
def requires_of_old(wheel: Wheel) -> None:
    wheel.requires()
    wheel.metadata.append("Requires: torch")


@lie("torch symbols", "Requires-External is a remark", base="cpu")
def requires_external(wheel: Wheel) -> None:
    wheel.requires()
    wheel.metadata.append("Requires-External: torch==2.11.*")


@lie("torch symbols", "torch is one of setup's requirements, not of the wheel's", base="cpu")
def requirement_in_an_extra(wheel: Wheel) -> None:
    wheel.requires('torch==2.11.*; extra == "all"')
    wheel.metadata.append("Provides-Extra: all")


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
    "torch names compute",
    "version and requirement: {}",
    [
        *("1.0+cpu.torch2.12 torch==2.11.*", "1.0+cpu.torch2.110 torch==2.11.*", "1.0+cpu.torch2.1 torch==2.11.*"),
        *("1.0+cpu.torch2.11 torch==2.110.*",),
    ],
    _local,
    base="cpu",
    name="local",
)


@lie("torch symbols", "no such torch is known: nothing can be proven of it", base="cpu")
def unknown_torch(wheel: Wheel) -> None:
    _local(wheel, "1.0+cpu.torch2.99 torch==2.99.*")


# --- legal --------------------------------------------------------------------------------------------------


legals(
    "torch 2.11 and no other: {}",
    [
        *(
            "Torch==2.11.*",
            "TORCH==2.11.*",
            "torch==2.11.0",
            "torch==2.11.1",
            "torch==2.11",
            "torch==2.11.*,!=2.11.1",
            "torch~=2.11.0",
        ),
        *(
            "torch>=2.11,<2.12",
            "torch>=2.11.0,<2.12.0a0",
            "torch>=2.11,<2.12.dev0",
            "torch == 2.11.*",
            "torch (==2.11.*)",
            "torch(==2.11.*)",
        ),
        *(
            "torch[opt-einsum]==2.11.*",
            "torch===2.11.0",
            "torch==2.11.0+cpu",
            "torch==2.11.*,>=2.11",
            "torch>=2.11,==2.11.*,<3",
        ),
        *(
            "torch==2.11.*;python_version>='3.10'",
            'torch==2.11.*; sys_platform == "linux"',
            'torch==2.11.*; platform_system != "Windows"',
        ),
        *('torch==2.11.*; platform_python_implementation == "CPython"', 'torch==2.11.*; os_name == "posix"'),
        *(
            "torch==2.11.* & torch>=2",
            "torch>=2.11 & torch<2.12",
            "torch==2.11.* & numpy>=1.26",
            "torch==2.11.* & torch==2.11.*",
        ),
        'torch==2.11.*; python_version < "3.12" & torch==2.11.*; python_version >= "3.12"',
        'torch==2.11.* & torch==2.12.*; sys_platform == "win32"',
        "torchvision==0.26.* & torch==2.11.*",
    ],
    _requires,
    base="cpu",
    name="specifier",
)
legals("torch 2.11 for CUDA 13.0: {}", ["torch==2.11.0+cu130", "torch==2.11.*"], _requires, base="cuda", name="cuda")
legals(
    "torch's stable ABI: {}",
    ["torch>=2.10", "torch>=2.11", "torch>=2.10.0", "torch>=2.10,!=2.12.*", "torch>=2.10,<3"],
    _requires,
    base="stable",
    name="stable",
)


@legal("the platform's marker fits the tag", base="cpu")
def marker_of_this_machine(wheel: Wheel) -> None:
    wheel.requires(f'torch==2.11.*; platform_machine == "{wheel.arch}"')


@legal("a header's name may have small letters", base="cpu")
def small_header(wheel: Wheel) -> None:
    wheel.requires()
    wheel.metadata.append("requires-dist: torch==2.11.*")


legals(
    "a local version that names no torch leaves it to the requirement, as torchvision's does: {}",
    ["1.0+cpu torch==2.11.*", "1.0+cpu torch==2.11.0"],
    _local,
    base="cpu",
    name="local",
)
legals(
    "the same for CUDA: {}",
    ["1.0+cu130 torch==2.11.0", "1.0+cu130 torch==2.11.*"],
    _local,
    base="cuda",
    name="local of cuda",
)


@legal("a wheel without a local version may require one torch", base="cpu")
def no_local_version(wheel: Wheel) -> None:
    wheel.rename("1.0")


@legal("somebody else's local version says nothing that we know", base="cpu")
def a_strangers_local_version(wheel: Wheel) -> None:
    wheel.rename("1.0+abc.5")


@legal("an extra may ask for it once more", base="cpu")
def requirement_and_the_same_in_an_extra(wheel: Wheel) -> None:
    wheel.requires("torch==2.11.*", 'torch==2.11.*; extra == "all"')
    wheel.metadata.append("Provides-Extra: all")
