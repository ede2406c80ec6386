"""CUDA toolkits, compute capabilities, NVIDIA's packages and drivers."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from wheelsmith.base import sandbox_paths
from wheelsmith.base.files import read_facts, run_for_json, run_for_output
from wheelsmith.base.json_dataclass import Record
from wheelsmith.base.suggest import respell_release
from wheelsmith.base.units import listed, numbers
from wheelsmith.model import CUDA, PinnedFile, PinnedPackage, PrefixId, StepKind
from wheelsmith.model.pinned import pinned_prefix
from wheelsmith.platforms.platform import (
    DeviceCompile,
    Devices,
    Driver,
    Gpu,
    GpuMemory,
    Platform,
    Toolkit,
)


def cuda_driver(variables: Mapping[str, str] | None = None) -> Driver | None:
    """Return the installed NVIDIA driver and its GPUs, or None.

    A child process calls libcuda.so.1. If that fails, nvidia-smi is tried, which shows hidden GPUs, too.

    :param variables: the environment variables of the child process; None for those of this process.
    """
    found = run_for_json([sys.executable, "-I", "-c", _probe_source()], variables) or _from_nvidia_smi()
    return Driver.from_json(found) if found else None


def _probe_source() -> str:
    return files(__package__).joinpath("probe_cuda.py").read_text(encoding="utf-8")


def _from_nvidia_smi() -> dict[str, Any] | None:
    """Query nvidia-smi, for machines where libcuda.so.1 is not in a standard folder."""
    if shutil.which("nvidia-smi") is None:
        return None
    version = re.search(r"CUDA (?:UMD )?Version\s*: *(\d+\.\d+)", run_for_output(["nvidia-smi"]))
    gpus = [row.split(", ", maxsplit=2) for row in _query_gpus("compute_cap,uuid,name") if re.match(r"\d+\.\d+, ", row)]
    found = [{"name": name, "capability": capability, "uuid": uuid} for capability, uuid, name in gpus]
    return {"version": version[1], "gpus": found} if version else None


def _query_gpus(columns: str) -> list[str]:
    argv = ["nvidia-smi", f"--query-gpu={columns}", "--format=csv,noheader,nounits"]
    return run_for_output(argv).splitlines() if shutil.which("nvidia-smi") else []


@dataclass(frozen=True, slots=True, kw_only=True)
class CudaDrivers(Record):
    """Facts about NVIDIA's drivers for Linux.

    :param newest_cuda: branch of the driver, e.g. ``580`` → the newest CUDA that it supports; oldest first.
    """

    newest_cuda: dict[str, str]
    source: str
    date: str

    def oldest_for(self, major: str) -> str | None:
        """Return the oldest branch that runs code of every toolkit of a CUDA major version, or None if unknown."""
        return next((branch for branch, cuda in self.newest_cuda.items() if cuda.startswith(f"{major}.")), None)


@cache
def cuda_drivers() -> CudaDrivers:
    """Return the facts about NVIDIA's drivers."""
    known = read_facts(__package__, "drivers.json")
    return CudaDrivers.from_json({key: value for key, value in known.items() if key != "schema_version"})


class CudaDevices(Devices):
    """NVIDIA GPUs and drivers."""

    compatibility_rule = "the same CUDA major and no older minor"

    def driver(self, variables: Mapping[str, str] | None = None) -> Driver | None:
        """Return the NVIDIA driver."""
        return cuda_driver(variables)

    def describe_driver(self, version: str | None) -> str:
        """Return the newest CUDA that the driver supports, in words."""
        return f"a driver for CUDA up to {version}" if version else "no NVIDIA driver"

    def variables(self, gpu: Gpu | None) -> dict[str, str]:
        """Return CUDA_VISIBLE_DEVICES. A GPU without a uuid is the only one."""
        return {"CUDA_VISIBLE_DEVICES": (gpu.uuid or "0") if gpu else ""}

    def memory(self) -> dict[str, GpuMemory]:
        """Return what nvidia-smi reports, in MiB."""
        rows = (re.fullmatch(r"(\S+), (\d+), (\d+)", row) for row in _query_gpus("uuid,memory.used,memory.total"))
        return {row[1]: GpuMemory(int(row[2]) << 20, int(row[3]) << 20) for row in rows if row}

    def newest_toolkit(self, version: str) -> str | None:
        """Return the newest CUDA of the driver's branch, or of the newest known branch before it."""
        branch = int(version.partition(".")[0])
        return next(
            (cuda for known, cuda in reversed(cuda_drivers().newest_cuda.items()) if int(known) <= branch), None
        )

    def best_code(self, codes: Sequence[str], gpu: str) -> str | None:
        """Return the best of ``8.0``, ``9.0a``, ``9.0+PTX`` for a GPU, or None.

        Machine code runs on the same major version with the same or a newer minor version. With the suffix ``a`` it
        runs only on its exact capability, and with ``f`` on its family. PTX without a suffix runs on its own and every
        newer capability. It is chosen only if no machine code runs.
        """
        major, minor, *_ = parse_capability(gpu)
        machine, compiled = [], []
        for text in codes:
            code = parse_capability(text)
            exact, same_major = code[:2] == (major, minor), code[0] == major and code[1] <= minor
            if exact if code[2] == "a" else same_major:
                machine.append((code[:2], text))
            elif code[3] and not code[2] and code[:2] <= (major, minor):
                compiled.append((code[:2], text))
        best = max(machine or compiled, default=None)
        return best[1] if best else None

    def is_foreign(self, code: str, gpu: str) -> bool:
        """Return True if a GPU can only use the PTX of this code, not its machine code."""
        return parse_capability(code)[0] != parse_capability(gpu)[0]

    def why_refused(self, version: str, driver: str) -> str | None:
        """Return a reason if the driver's CUDA major version is older than the toolkit's.

        https://docs.nvidia.com/deploy/cuda-compatibility/minor-version-compatibility.html
        """
        if numbers(version)[0] <= numbers(driver)[0]:
            return None
        major = version.split(".", maxsplit=1)[0]
        oldest = cuda_drivers().oldest_for(major)
        needed = f"driver {oldest} or newer" if oldest else f"a driver for CUDA {major}"
        return f"it was built with CUDA {version}, which needs {needed}; this driver supports CUDA up to {driver}"

    def why_not_compiled(self, version: str, driver: str, gpus: Sequence[str]) -> str | None:
        """Return a reason if the driver's CUDA is older: a driver compiles PTX of its own CUDA and of older ones."""
        if numbers(driver) >= numbers(version):
            return None
        reason = f"the driver must compile its PTX of CUDA {version} for capability {listed(list(gpus))}"
        return f"{reason}, but supports only CUDA up to {driver}"

    def is_compatible(self, made: str, built: str) -> bool:
        """Return True if ``made`` has the same major and an older minor version than ``built`` (the Hub's rule)."""
        return numbers(made)[0] == numbers(built)[0] and numbers(made) < numbers(built)

    def distance(self, version: str, requested: str) -> tuple[int, ...]:
        """Return a sort key: first no change, then another minor version of CUDA, then another major version."""
        if self.is_compatible(version, requested):
            return 0, -numbers(version)[1]
        major = abs(numbers(version)[0] - numbers(requested)[0])
        return 1 + bool(major), major, abs(numbers(version)[1] - numbers(requested)[1])


_GENCODE = "-gencode="
_LIBRARIES = "cublas,cufft,cufile,cupti,curand,cusolver,cusparse,nvjitlink,nvrtc,nvtx"  # extras of cuda-toolkit
_CAPABILITY = re.compile(r"(?P<major>\d{1,2})\.(?P<minor>\d)(?P<suffix>[af])?(?P<ptx>\+PTX)?", re.ASCII)


_CAPABILITIES = " such as 8.0, 9.0a or 12.0+PTX"
_NUMBER = re.compile(r"\d{1,2}\.\d", re.ASCII)
_WRITTEN = re.compile(r"(.*?)([af]?)(\+ptx)?", re.ASCII | re.IGNORECASE | re.DOTALL)


class Capability(NamedTuple):
    """A compute capability such as ``9.0a+PTX``.

    :param suffix: ``a``, ``f`` or empty.
    :param ptx: PTX is included.
    """

    major: int
    minor: int
    suffix: str = ""
    ptx: bool = False

    @property
    def number(self) -> tuple[int, int]:
        """The major and minor version, by which capabilities are ordered."""
        return self.major, self.minor

    def __str__(self) -> str:
        """Return the text form, e.g. ``9.0a+PTX``."""
        return f"{self.major}.{self.minor}{self.suffix}{'+PTX' if self.ptx else ''}"


def parse_capability(text: str) -> Capability:
    """Parse a capability such as ``9.0a+PTX``.

    :raises ValueError: it is not a compute capability.
    """
    match = _CAPABILITY.fullmatch(text)
    if not match:
        meant = _respell_capability(text)
        raise ValueError(f"{text!r} is not a compute capability{f': write {meant}' if meant else _CAPABILITIES}")
    return Capability(int(match["major"]), int(match["minor"]), match["suffix"] or "", bool(match["ptx"]))


def _respell_capability(text: str) -> str | None:
    """Return the spelling of a capability such as ``sm_90a``: 9.0a. None if there is none."""
    base, suffix, ptx = _WRITTEN.fullmatch(text).groups("")  # type: ignore[union-attr]  # it matches any text
    known = {each.rstrip("af") for toolkit in cuda_toolkits().values() for each in toolkit.capabilities}
    meant = respell_release(base, _NUMBER, sorted(known, key=numbers))
    return meant and f"{meant}{suffix.lower()}{ptx.upper()}"


def base_capability(text: str) -> str:
    """Return the capability without ``+PTX``."""
    return text.removesuffix("+PTX")


def intersect_capabilities(written_for: tuple[str, ...] | None, requested: tuple[str, ...]) -> tuple[str, ...]:
    """Return the capabilities that a section is compiled for, ascending.

    The rule is kernel-builder's ``cuda_archs_loose_intersection``.

    Machine code runs on its own major version with the same or a newer minor version. PTX runs on every newer
    capability. Code with a suffix (``9.0a``) runs only on its exact capability.

    :param written_for: the section's own list; None for any.
    :param requested: the list of the build.
    """
    if written_for is None:
        return tuple(dict.fromkeys(requested))
    own = [parse_capability(text) for text in written_for]
    targets = {parse_capability(text).number for text in requested}
    chosen: dict[tuple[int, int, str], Capability] = {}
    for capability in own:
        if capability.suffix and capability.number in targets:
            # The specific code serves this target, so it needs no general code.
            chosen[(*capability.number, capability.suffix)] = capability
    served = {(major, minor) for major, minor, _ in chosen}
    general = sorted((c for c in own if not c.suffix), key=lambda c: (c.number, c.ptx))
    for target in sorted(targets - served):
        best = _best_capability(general, target)
        if best:
            chosen[(*best.number, "")] = best
    return tuple(str(chosen[key]) for key in sorted(chosen))


def _best_capability(ascending: list[Capability], target: tuple[int, int]) -> Capability | None:
    fitting = [c for c in ascending if c.number <= target and (c.ptx or c.major == target[0])]
    return fitting[-1] if fitting else None


def gencode(text: str) -> tuple[str, ...]:
    """Return nvcc's flags for a capability."""
    capability = parse_capability(text)
    name = f"{capability.major}{capability.minor}{capability.suffix}"
    flags = [f"{_GENCODE}arch=compute_{name},code=sm_{name}"]
    if capability.ptx:
        flags.append(f"{_GENCODE}arch=compute_{name},code=compute_{name}")
    return tuple(flags)


def cmake_architectures(text: str) -> tuple[str, ...]:
    """Return the values of CMAKE_CUDA_ARCHITECTURES for a capability: ``90-real``, and ``90-virtual`` for its PTX."""
    capability = parse_capability(text)
    name = f"{capability.major}{capability.minor}{capability.suffix}"
    return (f"{name}-real", *((f"{name}-virtual",) if capability.ptx else ()))


def without_gencode(argv: tuple[str, ...]) -> tuple[str, ...]:
    """Return a command without the flags that select capabilities."""
    return tuple(word for word in argv if not word.startswith(_GENCODE))


DEVELOPMENT = "cuda-development"
# Library of the driver → the header that declares its functions, and the pattern of their names.
DRIVER_LIBRARIES = {
    "libcuda.so.1": ("cuda.h", r"\b(cu[A-Z]\w+)"),
    "libnvidia-ml.so.1": ("nvml.h", r"\b(nvml[A-Z]\w+)"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CudaToolkit(Toolkit):
    """A CUDA toolkit, assembled from packages or found in an image.

    :param ptx: the PTX version that its nvcc writes, which is also the newest that it reads, e.g. ``9.0``.
    :param cxx_std: CUDA 13.3 needs C++20: its nvcc drops a ``typename`` in ATen/core/List_inl.h of torch 2.11, which is
        optional only since C++20. CUDA 13.5 keeps it.
    :param packages: CPU architecture of the machine that compiles → pinned wheels.
    :param headers: libraries whose headers torch's own headers include; only the headers are fetched.
    :param target_runtime: CPU architecture of the built wheel → the wheel that contains libcudart.
    :param development: packages with headers for projects that no torch installs: NVML's and the profiler's.
    :param compilers: CPU architecture of the machine that compiles → the Debian package or NVIDIA's archive with the
        compilers, if they are not on the package index.
    """

    ptx: str
    packages: dict[str, tuple[PinnedFile, ...]]
    headers: tuple[PinnedFile, ...]
    target_runtime: dict[str, PinnedFile]
    development: tuple[PinnedFile, ...] = ()
    compilers: dict[str, PinnedPackage] = field(default_factory=dict)

    @property
    def prefers_image(self) -> bool:
        """True if the compilers are not on the package index."""
        return bool(self.compilers)


@dataclass(frozen=True, slots=True, kw_only=True)
class CudaPackages(Record):
    """Facts about NVIDIA's packages.

    They give the CUDA major version of a package without ``-cu12`` in its name, and its libraries.

    :param by_major: projects whose major version is CUDA's.
    :param first_of_13: project with version numbers of its own → its first version for CUDA 13.
    :param libraries: project → its libraries, without ``lib`` and version. For CUDA 12, ``-cu12`` is added to the
        project's name.
    """

    by_major: tuple[str, ...]
    first_of_13: dict[str, str]
    libraries: dict[str, tuple[str, ...]]
    source: str
    date: str


@cache
def cuda_toolkits() -> dict[str, CudaToolkit]:
    """Return every known toolkit by its ``major.minor``, oldest first."""
    return {item["version"]: CudaToolkit.from_json(item) for item in read_facts(__package__, "cuda.json")["toolkits"]}


@cache
def cuda_packages() -> CudaPackages:
    """Return the facts about NVIDIA's packages on PyPI."""
    known = read_facts(__package__, "cuda_packages.json")
    return CudaPackages.from_json({key: value for key, value in known.items() if key != "schema_version"})


def cuda_pins(toolkit: CudaToolkit, arch: str, target: str) -> tuple[PinnedFile | PinnedPackage, ...]:
    """Return the pins of the CUDA_HOME that runs on ``arch`` and compiles for ``target``."""
    compilers = (pin for machine, pin in toolkit.compilers.items() if machine == arch)
    return (*toolkit.packages[arch], *toolkit.headers, toolkit.target_runtime[target], *compilers)


def cuda_prefix(toolkit: CudaToolkit, arch: str, target: str) -> PrefixId:
    """Return the ID of the CUDA_HOME that runs on ``arch`` and compiles for ``target``."""
    pins = cuda_pins(toolkit, arch, target)
    return pinned_prefix("cuda", toolkit.version, f"{arch}-{target}" if arch != target else arch, pins)


@cache
def _prefix_of(toolkit: str, arch: str, target: str) -> PrefixId:
    return cuda_prefix(cuda_toolkits()[toolkit], arch, target)


def cuda_folder(pin: PinnedFile) -> str:
    """Return the folder in a wheel that becomes part of CUDA_HOME; each CUDA 12 package has its own."""
    name = pin.project.removesuffix("-cu12")
    return "nvidia/cu13/" if name == pin.project else f"nvidia/{name.removeprefix('nvidia-').replace('-', '_')}/"


def cuda_development(toolkit: CudaToolkit) -> PrefixId:
    """Return the ID of the additional headers for projects."""
    return pinned_prefix(DEVELOPMENT, toolkit.version, "any", toolkit.development)


def cuda_version_of(compute: str) -> str | None:
    """Return the CUDA version in the name of a compute platform, ``13.0`` for ``cu130``; None for other platforms."""
    return f"{compute[2:-1]}.{compute[-1]}" if re.fullmatch(Cuda.compute_shape, compute) else None


class Cuda(Platform):
    """CUDA 12.4 and newer."""

    name = CUDA
    title = "CUDA"
    compute_shape = r"cu\d{3,}"
    version_pattern = re.compile(r"[1-9][0-9]\.[0-9]")
    device_suffixes = (".cu",)
    step_kind = StepKind.NVCC
    mount_point = sandbox_paths.CUDA
    section_keys = ("cuda-flags", "cuda-capabilities", "cuda-minver")
    devices = CudaDevices()

    def toolkits(self) -> dict[str, CudaToolkit]:
        """Return every known toolkit."""
        return cuda_toolkits()

    def version_of(self, compute: str) -> str | None:
        """Return ``13.0`` for ``cu130``."""
        return cuda_version_of(compute)

    def compute(self, version: str) -> str:
        """Return ``cu130`` for ``13.0``."""
        return f"cu{version.replace('.', '')}"

    def prefix(self, toolkit: str, machine: str, arch: str) -> PrefixId:
        """Return the ID of the CUDA_HOME."""
        return _prefix_of(toolkit, machine, arch)

    def headers(self, toolkit: str) -> tuple[PrefixId, ...]:
        """Return the ID of the headers of NVML and the profiler."""
        found = cuda_toolkits()[toolkit]
        return (cuda_development(found),) if found.development else ()

    def command(self, step: DeviceCompile) -> tuple[str, ...]:
        """Return nvcc's command, with kernel-builder's flags."""
        return (
            *(f"{step.home}/bin/nvcc", "-ccbin", step.cxx, f"-std=c++{step.cxx_std}", "-O3", "-DNDEBUG"),
            *("-Xcompiler", "-fPIC,-fno-gnu-unique", "--expt-relaxed-constexpr", "--expt-extended-lambda"),
            *("-DENABLE_FP8", *step.defines),
            *(flag for capability in step.capabilities for flag in gencode(capability)),
            *step.own_include,
            # Name temporary files after the output. By default they contain a process ID, which ends up in the object.
            *(*step.include, *step.flags, "-objtemp"),
            *("-c", step.source, "-o", step.output),
        )

    def runtime(self, toolkit: str, home: str, *, preloaded: bool) -> tuple[str, ...]:
        """Return the linker arguments for libcudart: shared if the framework loads it, static otherwise."""
        folder = f"-L{home}/lib64"
        if not preloaded:
            # kernel-builder's CMake files also link statically. Exported symbols would conflict with other libraries.
            static = "libcudart_static.a"
            return (folder, f"-l:{static}", f"-Wl,--exclude-libs,{static}", "-ldl", "-lrt", "-lpthread")
        # The runtime's wheel has no libcudart.so, so -lcudart does not find it. Kernels that do not call it link it
        # too: the CUDA version of the wheel must be visible in the binary.
        return folder, f"-l:libcudart.so.{numbers(toolkit)[0]}"

    def variables(self, home: str, capabilities: tuple[str, ...]) -> dict[str, str]:
        """Return the variables that torch's cpp_extension, setup.py files, CMake and Meson read."""
        return {
            **dict.fromkeys(("CUDA_HOME", "CUDA_PATH", "CUDAToolkit_ROOT"), home),
            "CUDACXX": f"{home}/bin/nvcc",
            # The driver's libraries exist only as stubs to link against, as in NVIDIA's devel images.
            "LIBRARY_PATH": f"{home}/lib64/stubs",
            "FORCE_CUDA": "1",
            "TORCH_CUDA_ARCH_LIST": ";".join(capabilities),
            "CUDAARCHS": ";".join(word for text in capabilities for word in cmake_architectures(text)),
            # See the command for one source.
            "NVCC_APPEND_FLAGS": "-objtemp",
        }

    def library_requirements(self, toolkit: str) -> tuple[str, ...]:
        """Return the libraries that torch requires, of this toolkit."""
        return (f"cuda-toolkit[{_LIBRARIES}]=={toolkit}.*",)

    def select_capabilities(
        self, written_for: tuple[str, ...] | None, requested: tuple[str, ...], toolkit: str
    ) -> tuple[str, ...]:
        """Return the capabilities of a list that a toolkit can compile, for the requested ones."""
        if written_for is not None:
            # A list serves many toolkits: CUDA 12 calls 11.0 10.1, and CUDA 13 cannot compile for 7.0.
            lacking = self.lacking_capabilities(written_for, toolkit)
            written_for = tuple(text for text in written_for if text not in lacking)
        return intersect_capabilities(written_for, requested)

    def lacking_capabilities(self, written_for: tuple[str, ...], toolkit: str) -> dict[str, str]:
        """Return the capabilities that a toolkit lacks, with the name of the same GPUs in other toolkits."""
        known = cuda_toolkits()[toolkit].capabilities
        names = {"10.1": " (called 11.0 from CUDA 13 on)", "11.0": " (called 10.1 before CUDA 13)"}
        lacking = (text for text in written_for if base_capability(text) not in known)
        return {text: text + names.get(base_capability(text).rstrip("af"), "") for text in lacking}

    def without_capabilities(self, argv: tuple[str, ...]) -> tuple[str, ...]:
        """Return nvcc's command without -gencode."""
        return without_gencode(argv)

    def includes_code(self, one: tuple[str, ...], other: tuple[str, ...]) -> bool:
        """Compare the flags that nvcc gets for both lists."""
        return {flag for text in one for flag in gencode(text)} >= {flag for text in other for flag in gencode(text)}

    def check_capability(self, text: str) -> None:
        """Validate a compute capability."""
        parse_capability(text)

    def capability_order(self, capability: str) -> tuple[object, ...]:
        """Return the numbers and the suffix."""
        return parse_capability(capability)

    def base_capability(self, capability: str) -> str:
        """Return ``9.0`` for ``9.0+PTX``."""
        return base_capability(capability)
