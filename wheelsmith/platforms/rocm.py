"""ROCm toolkits, AMD's GPU architectures and the driver amdgpu."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

from wheelsmith.base import sandbox_paths
from wheelsmith.base.files import read_facts
from wheelsmith.base.units import numbers
from wheelsmith.model import StepKind
from wheelsmith.platforms.platform import (
    DeviceCompile,
    Devices,
    Driver,
    Gpu,
    GpuMemory,
    Platform,
    Toolkit,
    read_toolkits,
)

# With the features of a target: https://llvm.org/docs/AMDGPUUsage.html#target-id
_ARCHITECTURE = re.compile(r"gfx[1-9][0-9a-f]{2,3}(:(xnack|sramecc)[+-])*", re.ASCII)
_OFFLOAD = "--offload-arch="
_KFD = Path("/sys/class/kfd/kfd/topology/nodes")  # the GPUs of the driver amdgpu
_MODULE = Path("/sys/module/amdgpu")
_CARDS = Path("/sys/class/drm")


@cache
def rocm_toolkits() -> dict[str, Toolkit]:
    """Return every known ROCm release by its ``major.minor``, oldest first."""
    return read_toolkits(__package__, "rocm.json")


@cache
def _processors() -> dict[int, str]:
    return {number: name for name, number in read_facts(__package__, "rocm.json")["processors"].items()}


def amd_processor(number: int) -> str | None:
    """Return the GPU architecture for the number in the flags of a code object, or None if it is unknown."""
    return _processors().get(number)


def runtime_library(release: str) -> str:
    """Return the name of HIP's runtime library in a ROCm release. Its number is the release's major version."""
    return f"libamdhip64.so.{numbers(release)[0]}"


def is_runtime_library(name: str) -> bool:
    """Return True if a library is HIP's runtime library of any ROCm release."""
    return name.startswith("libamdhip64.so")


class AmdDevices(Devices):
    """AMD GPUs and the driver amdgpu, which supports every known ROCm."""

    compatibility_rule = "the same ROCm release"

    def describe_driver(self, version: str | None) -> str:
        """Return the driver and its version, in words."""
        return f"the driver amdgpu {version}" if version else "no AMD driver"

    def driver(self, variables: Mapping[str, str] | None = None) -> Driver | None:
        """Return the driver if it lists a GPU. The driver of Linux itself has the version of the kernel."""
        gpus = tuple(_gpus())
        if not gpus:
            return None
        version = _read(_MODULE / "version") or _read(Path("/proc/sys/kernel/osrelease"))
        return Driver(version=version, gpus=gpus)

    def variables(self, gpu: Gpu | None) -> dict[str, str]:
        """Return the variables of HIP, and of the runtime below it, which hides GPUs first and knows unique names."""
        if gpu is None:
            return {"HIP_VISIBLE_DEVICES": "-1"}
        first = dict.fromkeys(("HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"), "0")  # HIP reads both
        return {"ROCR_VISIBLE_DEVICES": gpu.uuid or "0", **first}

    def memory(self) -> dict[str, GpuMemory]:
        """Return what the driver reports."""
        found = {}
        for card in sorted(_CARDS.glob("card*/device/mem_info_vram_total")):
            used, total = (_read(card.with_name(f"mem_info_vram_{name}")) for name in ("used", "total"))
            if (unique := _read(card.with_name("unique_id"))) and used.isdecimal() and total.isdecimal():
                found[f"GPU-{unique}"] = GpuMemory(int(used), int(total))
        return found

    def best_code(self, codes: Sequence[str], gpu: str) -> str | None:
        """Return the architecture of the GPU if there is code for it."""
        return next((code for code in codes if _processor(code) == gpu), None)


def _processor(target: str) -> str:
    """Return a target without its features."""
    return target.partition(":")[0]


def _gpus() -> Iterator[Gpu]:
    """Yield the GPUs of the driver. Nodes without an architecture are CPUs."""
    for node in sorted(_KFD.glob("*/properties")):
        values = dict(line.split(maxsplit=1) for line in _read(node).splitlines() if " " in line)
        number = int(values.get("gfx_target_version", "0"))
        if number:
            major, minor, step = number // 10000, number // 100 % 100, number % 100
            unique = int(values.get("unique_id", "0"))
            capability = f"gfx{major}{minor:x}{step:x}"
            name = _read(node.with_name("name")) or capability
            yield Gpu(name=name, capability=capability, uuid=f"GPU-{unique:016x}" if unique else "")


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


class Rocm(Platform):
    """ROCm 7.0 and newer.

    Its compiler is clang, which compiles sources that torch's hipify has translated from CUDA.
    """

    name = "rocm"
    title = "ROCm"
    compute_shape = r"rocm\d\.\d"
    version_pattern = re.compile(r"[1-9]\.[0-9]", re.ASCII)
    device_suffixes = (".cu", ".hip")
    step_kind = StepKind.HIP
    translates_cuda = True
    is_packaged = False
    builds_projects = False
    mount_point = sandbox_paths.ROCM
    home_variable = "ROCM_PATH"
    section_keys = ("hip-flags", "rocm-archs", "")
    capability_prefix = "gfx"
    devices = AmdDevices()

    def toolkits(self) -> dict[str, Toolkit]:
        """Return every known release."""
        return rocm_toolkits()

    def command(self, step: DeviceCompile) -> tuple[str, ...]:
        """Return clang's command, with the flags of kernel-builder and of torch's own build."""
        # By default clang uses the machine's GCC and C library, which may be newer than those of the host compiler.
        gcc = (f"--gcc-install-dir={step.gcc}", f"--sysroot={sandbox_paths.CXX}") if step.gcc else ()
        # The default of -cuid is a random number, or a hash of the folder.
        unit = hashlib.sha256(step.source.encode()).hexdigest()[:16]
        return (
            *(f"{step.home}/lib/llvm/bin/clang++", "-x", "hip", f"--rocm-path={step.home}", *gcc),
            *(f"-std=c++{step.cxx_std}", "-O3", "-DNDEBUG", "-fPIC", "-fno-gpu-rdc", f"-cuid={unit}"),
            *("-DCUDA_HAS_FP16=1", "-DHIP_ENABLE_WARP_SYNC_BUILTINS=1", "-DENABLE_FP8", *step.defines),
            *(_OFFLOAD + capability for capability in step.capabilities),
            *(*step.own_include, *step.include, *step.flags, "-c", step.source, "-o", step.output),
        )

    def runtime(self, toolkit: str, home: str, *, preloaded: bool) -> tuple[str, ...]:
        """Return the linker arguments for HIP's runtime library, which has no static form."""
        return f"-L{home}/lib", f"-l:{runtime_library(toolkit)}"

    def select_capabilities(
        self, written_for: tuple[str, ...] | None, requested: tuple[str, ...], toolkit: str
    ) -> tuple[str, ...]:
        """Return the requested architectures that are in a list: code runs on no other architecture."""
        return tuple(dict.fromkeys(text for text in requested if written_for is None or text in written_for))

    def lacking_capabilities(self, written_for: tuple[str, ...], toolkit: str) -> dict[str, str]:
        """Return the architectures that a release lacks."""
        known = rocm_toolkits()[toolkit].capabilities
        return {text: text for text in written_for if _processor(text) not in known}

    def without_capabilities(self, argv: tuple[str, ...]) -> tuple[str, ...]:
        """Return clang's command without --offload-arch."""
        return tuple(word for word in argv if not word.startswith(_OFFLOAD))

    def includes_code(self, one: tuple[str, ...], other: tuple[str, ...]) -> bool:
        """Compare the lists."""
        return set(one) >= set(other)

    def check_capability(self, text: str) -> None:
        """Validate the name of an architecture."""
        if not _ARCHITECTURE.fullmatch(text):
            plain = text.lower().removesuffix("+ptx")
            hint = f": write {plain}" if _ARCHITECTURE.fullmatch(plain) else " such as gfx90a or gfx1100"
            raise ValueError(f"{text!r} is not an AMD GPU architecture{hint}")

    def base_capability(self, capability: str) -> str:
        """Return ``gfx942`` for ``gfx942:xnack-``."""
        return _processor(capability)

    def capability_order(self, capability: str) -> tuple[object, ...]:
        """Return the length and the text: gfx90a comes before gfx1100."""
        return len(capability), capability
