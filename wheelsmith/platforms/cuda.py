"""CUDA: its toolkits, the capabilities of its GPUs, and its packages."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from wheelsmith.base import sandbox_paths
from wheelsmith.base.files import answer_of, output_of, read_facts
from wheelsmith.base.json_dataclass import Record
from wheelsmith.base.units import listed, numbers
from wheelsmith.model import CUDA, BuildHost, PinnedFile, PinnedPackage, PrefixId
from wheelsmith.model.pinned import pinned_prefix
from wheelsmith.platforms.platform import DeviceCompile, Devices, Driver, NotInImageError, Platform, Toolkit


def cuda_driver() -> Driver | None:
    """Ask the driver, in a process of its own; else the program that comes with it. Return None where there is none."""
    found = answer_of([sys.executable, "-I", "-c", _script()]) or _from_nvidia_smi()
    return Driver.from_json(found) if found else None


def _script() -> str:
    return files(__package__).joinpath("probe_cuda.py").read_text(encoding="utf-8")


def _from_nvidia_smi() -> dict[str, Any] | None:
    """Ask the program where the library is in no place that programs look in."""
    if shutil.which("nvidia-smi") is None:
        return None
    version = re.search(r"CUDA (?:UMD )?Version\s*: *(\d+\.\d+)", output_of(["nvidia-smi"]))
    rows = output_of(["nvidia-smi", "--query-gpu=compute_cap,name", "--format=csv,noheader"]).splitlines()
    gpus = [row.split(", ", maxsplit=1) for row in rows if re.match(r"\d+\.\d+, ", row)]
    found = [{"name": name, "capability": capability} for capability, name in gpus]
    return {"version": version[1], "gpus": found} if version else None


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverFloor(Record):
    """The oldest NVIDIA driver that runs what any toolkit of a CUDA major made, as ``580``.

    :param cuda: the major version, e.g. ``13``.
    """

    cuda: str
    driver: str
    source: str
    date: str


@cache
def driver_floors() -> dict[str, DriverFloor]:
    """Return the oldest driver of each CUDA major, by the major."""
    return {item["cuda"]: DriverFloor.from_json(item) for item in read_facts(__package__, "drivers.json")["floors"]}


class CudaDevices(Devices):
    """NVIDIA's GPUs and drivers."""

    beside = "the same CUDA major and no older minor"

    def driver(self) -> Driver | None:
        """Return the NVIDIA driver."""
        return cuda_driver()

    def best_code(self, codes: Sequence[str], gpu: str) -> str | None:
        """Return the best of ``8.0``, ``9.0a``, ``9.0+PTX``.

        Machine code runs on its own major from its own minor on; with ``a`` only on its own capability; with ``f`` on
        its family. What the driver compiles from PTX runs on anything newer, and is taken last.
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
        """Say whether a GPU takes the PTX of this code, and not its machine code."""
        return parse_capability(code)[0] != parse_capability(gpu)[0]

    def why_refused(self, version: str, driver: str) -> str | None:
        """Within a CUDA major any driver of that major will do; an older major's will not.

        https://docs.nvidia.com/deploy/cuda-compatibility/minor-version-compatibility.html
        """
        if numbers(version)[0] <= numbers(driver)[0]:
            return None
        major = version.split(".", maxsplit=1)[0]
        floor = driver_floors().get(major)
        needed = f"driver {floor.driver} or newer" if floor else f"a driver for CUDA {major}"
        return f"it is made with CUDA {version}, which needs {needed}; this driver runs CUDA up to {driver}"

    def why_not_compiled(self, version: str, driver: str, gpus: Sequence[str]) -> str | None:
        """Compare CUDAs: a driver compiles PTX of its own and of older ones."""
        if numbers(driver) >= numbers(version):
            return None
        reason = f"its PTX of CUDA {version} must be compiled for capability {listed(list(gpus))} by the driver"
        return f"{reason}, which knows CUDA up to {driver}"

    def runs_beside(self, made: str, built: str) -> bool:
        """Say whether it is the same major, and an older minor (the Hub's rule)."""
        return numbers(made)[0] == numbers(built)[0] and numbers(made) < numbers(built)

    def distance(self, version: str, asked: str) -> tuple[int, ...]:
        """Order by what else must change: nothing, CUDA's minor, its major."""
        if self.runs_beside(version, asked):
            return 0, -numbers(version)[1]
        major = abs(numbers(version)[0] - numbers(asked)[0])
        return 1 + bool(major), major, abs(numbers(version)[1] - numbers(asked)[1])


_GENCODE = "-gencode="
_CAPABILITY = re.compile(r"(?P<major>\d{1,2})\.(?P<minor>\d)(?P<suffix>[af])?(?P<ptx>\+PTX)?", re.ASCII)


class Capability(NamedTuple):
    """A compute capability, as ``9.0a+PTX``.

    :param suffix: ``a``, ``f`` or empty.
    :param ptx: whether PTX is wanted.
    """

    major: int
    minor: int
    suffix: str = ""
    ptx: bool = False

    @property
    def number(self) -> tuple[int, int]:
        """Return major and minor, which is what capabilities are ordered by."""
        return self.major, self.minor

    def __str__(self) -> str:
        """Return ``9.0a+PTX``."""
        return f"{self.major}.{self.minor}{self.suffix}{'+PTX' if self.ptx else ''}"


def parse_capability(text: str) -> Capability:
    """Read ``9.0a+PTX``.

    :raises ValueError: it is not a compute capability.
    """
    match = _CAPABILITY.fullmatch(text)
    if not match:
        raise ValueError(f"{text!r} is not a compute capability such as 8.0, 9.0a or 12.0+PTX")
    return Capability(int(match["major"]), int(match["minor"]), match["suffix"] or "", bool(match["ptx"]))


def plain(text: str) -> str:
    """Return the capability without ``+PTX``."""
    return text.removesuffix("+PTX")


def resolve(written_for: tuple[str, ...] | None, requested: tuple[str, ...]) -> tuple[str, ...]:
    """Return what a section is compiled for, ascending: kernel-builder's ``cuda_archs_loose_intersection``.

    Machine code runs on its own major version at the same or a newer minor; PTX runs on anything newer; code with a
    suffix (``9.0a``) runs on exactly its own.

    :param written_for: the section's own list; None takes what is requested as it is.
    :param requested: the list of the build.
    """
    if written_for is None:
        return tuple(dict.fromkeys(requested))
    own = [parse_capability(text) for text in written_for]
    targets = {parse_capability(text).number for text in requested}
    chosen: dict[tuple[int, int, str], Capability] = {}
    for capability in own:
        if capability.suffix and capability.number in targets:
            # The specific code serves this target, so no general code is made for it.
            chosen[(*capability.number, capability.suffix)] = capability
    served = {(major, minor) for major, minor, _ in chosen}
    general = sorted((c for c in own if not c.suffix), key=lambda c: (c.number, c.ptx))
    for target in sorted(targets - served):
        best = _best(general, target)
        if best:
            chosen[(*best.number, "")] = best
    return tuple(str(chosen[key]) for key in sorted(chosen))


def _best(ascending: list[Capability], target: tuple[int, int]) -> Capability | None:
    fitting = [c for c in ascending if c.number <= target and (c.ptx or c.major == target[0])]
    return fitting[-1] if fitting else None


def gencode(text: str) -> tuple[str, ...]:
    """Return nvcc's flags for one capability."""
    capability = parse_capability(text)
    name = f"{capability.major}{capability.minor}{capability.suffix}"
    flags = [f"{_GENCODE}arch=compute_{name},code=sm_{name}"]
    if capability.ptx:
        flags.append(f"{_GENCODE}arch=compute_{name},code=compute_{name}")
    return tuple(flags)


def cmake_architectures(text: str) -> tuple[str, ...]:
    """Return what CMAKE_CUDA_ARCHITECTURES calls one capability: ``90-real``, and ``90-virtual`` for its PTX."""
    capability = parse_capability(text)
    name = f"{capability.major}{capability.minor}{capability.suffix}"
    return (f"{name}-real", *((f"{name}-virtual",) if capability.ptx else ()))


def without_gencode(argv: tuple[str, ...]) -> tuple[str, ...]:
    """Return a command without the flags that say for which capabilities it makes code."""
    return tuple(word for word in argv if not word.startswith(_GENCODE))


DEVELOPMENT = "cuda-development"
# What the driver brings → the header that declares it, and the names in there.
DRIVER_LIBRARIES = {
    "libcuda.so.1": ("cuda.h", r"\b(cu[A-Z]\w+)"),
    "libnvidia-ml.so.1": ("nvml.h", r"\b(nvml[A-Z]\w+)"),
}
_CUDA_COMPUTE = re.compile(r"cu\d{3,}")


@dataclass(frozen=True, slots=True, kw_only=True)
class CudaToolkit(Toolkit):
    """A CUDA toolkit: assembled from packages, or, where no nvcc of it is among those, found in an image.

    One from an image has no packages, headers and runtimes here.

    :param ptx: the version of the PTX that its nvcc writes, ``9.0``, and the newest that it reads.
    :param cxx_std: of what its nvcc makes of torch's headers. That of 13.3 loses a ``typename`` in ATen/core/List_inl.h
        of torch 2.11, which only C++20 can do without; that of 13.5 keeps it.
    :param packages: CPU architecture of the machine that compiles → its pinned wheels.
    :param headers: libraries of which torch's own headers include the headers; nothing else of them is fetched.
    :param target_runtime: CPU architecture of the wheel's user → the wheel with its libcudart.
    :param development: packages of which a project has the headers, and which no torch brings: NVML's, the profiler's.
    :param compilers: CPU architecture of the machine that compiles → a distribution's package with its compilers, where
        the package index has none.
    """

    ptx: str
    packages: dict[str, tuple[PinnedFile, ...]]
    headers: tuple[PinnedFile, ...]
    target_runtime: dict[str, PinnedFile]
    development: tuple[PinnedFile, ...] = ()
    compilers: dict[str, PinnedPackage] = field(default_factory=dict)

    @property
    def assembled(self) -> bool:
        """Say whether packages have all of it."""
        return bool(self.packages)

    @property
    def rather_of_image(self) -> bool:
        """Say whether the compilers are on no package index."""
        return bool(self.compilers)


@dataclass(frozen=True, slots=True, kw_only=True)
class CudaPackages(Record):
    """What is known of NVIDIA's packages: of which CUDA a version without ``-cu12`` in its name is, and what it holds.

    :param by_major: projects whose major version is CUDA's.
    :param first_of_13: project that counts its own releases → its first version of CUDA 13.
    :param libraries: project → the libraries in it, without ``lib`` and numbers; CUDA 12's add ``-cu12`` to its name.
    """

    by_major: tuple[str, ...]
    first_of_13: dict[str, str]
    libraries: dict[str, tuple[str, ...]]
    source: str
    date: str


@cache
def cuda_toolkits() -> dict[str, CudaToolkit]:
    """Return every known toolkit, by its ``major.minor``, oldest first."""
    return {item["version"]: CudaToolkit.from_json(item) for item in read_facts(__package__, "cuda.json")["toolkits"]}


@cache
def cuda_packages() -> CudaPackages:
    """Return what is known of CUDA's own packages on PyPI."""
    known = read_facts(__package__, "cuda_packages.json")
    return CudaPackages.from_json({key: value for key, value in known.items() if key != "schema_version"})


def cuda_pins(toolkit: CudaToolkit, arch: str, target: str) -> tuple[PinnedFile | PinnedPackage, ...]:
    """Return what the CUDA_HOME is made from that compiles on ``arch`` for ``target``."""
    compilers = (pin for machine, pin in toolkit.compilers.items() if machine == arch)
    return (*toolkit.packages[arch], *toolkit.headers, toolkit.target_runtime[target], *compilers)


def cuda_prefix(toolkit: CudaToolkit, arch: str, target: str) -> PrefixId:
    """Name the CUDA_HOME that compiles on ``arch`` for ``target``, by what it is made from."""
    pins = cuda_pins(toolkit, arch, target)
    return pinned_prefix("cuda", toolkit.version, f"{arch}-{target}" if arch != target else arch, pins)


def cuda_folder(pin: PinnedFile) -> str:
    """Return the folder of a wheel that is laid out as CUDA_HOME: each of CUDA 12's has one of its own."""
    name = pin.project.removesuffix("-cu12")
    return "nvidia/cu13/" if name == pin.project else f"nvidia/{name.removeprefix('nvidia-').replace('-', '_')}/"


def cuda_development(toolkit: CudaToolkit) -> PrefixId:
    """Name the headers that a project has beside those of a toolkit's compilers, by what they come from."""
    return pinned_prefix(DEVELOPMENT, toolkit.version, "any", toolkit.development)


def cuda_of(compute: str) -> str | None:
    """Return the CUDA of a compute platform, ``13.0`` of ``cu130``; None of anything else."""
    return f"{compute[2:-1]}.{compute[-1]}" if _CUDA_COMPUTE.fullmatch(compute) else None


class Cuda(Platform):
    """CUDA, from 12.4 on."""

    name = CUDA
    title = "CUDA"
    word = "cu"
    shape = re.compile(r"[1-9][0-9]\.[0-9]")
    device_suffix = ".cu"
    place = sandbox_paths.CUDA
    section_keys = ("cuda-flags", "cuda-capabilities", "cuda-minver")
    devices = CudaDevices()

    def toolkits(self) -> dict[str, CudaToolkit]:
        """Return every known toolkit."""
        return cuda_toolkits()

    def version_of(self, compute: str) -> str | None:
        """Return ``13.0`` of ``cu130``."""
        return cuda_of(compute)

    def prefix(self, toolkit: str, machine: str, arch: str) -> PrefixId:
        """Name the CUDA_HOME."""
        return cuda_prefix(cuda_toolkits()[toolkit], machine, arch)

    def headers(self, toolkit: str) -> tuple[PrefixId, ...]:
        """Name the headers of NVML and the profiler."""
        found = cuda_toolkits()[toolkit]
        return (cuda_development(found),) if found.development else ()

    def made_on(self, toolkit: str, machine: str) -> bool:
        """Say whether NVIDIA's wheels for a machine are known."""
        return machine in cuda_toolkits()[toolkit].packages

    def of_image(self, toolkit: str, host: BuildHost) -> tuple[str, PrefixId]:
        """Return the CUDA_HOME of an image."""
        found = host.cuda
        if found is None or found.version != toolkit:
            raise NotInImageError(f"CUDA {found.version} at {found.home}" if found else "no CUDA toolkit")
        name = PrefixId(kind="image-cuda", version=found.release, arch=host.machine, digest=found.digest)
        return found.home, name

    def command(self, step: DeviceCompile) -> tuple[str, ...]:
        """Return nvcc's command, with kernel-builder's flags."""
        return (
            *(f"{step.home}/bin/nvcc", "-ccbin", step.cxx, f"-std=c++{step.cxx_std}", "-O3", "-DNDEBUG"),
            *("-Xcompiler", "-fPIC,-fno-gnu-unique", "--expt-relaxed-constexpr", "--expt-extended-lambda"),
            *("-DENABLE_FP8", *step.defines),
            *(flag for capability in step.capabilities for flag in gencode(capability)),
            *step.own_include,
            # Temporary files named after the output, not after a process id, which the object would keep.
            *(*step.include, *step.flags, "-objtemp"),
            *("-c", step.source, "-o", step.output),
        )

    def runtime(self, toolkit: str, home: str, *, brought: bool) -> tuple[str, ...]:
        """Return libcudart, as a library where somebody has loaded it, else what the kernel needs of it."""
        folder = f"-L{home}/lib64"
        if not brought:
            # As kernel-builder's CMake files do by default. What a kernel offered of it would get in others' way.
            static = "libcudart_static.a"
            return (folder, f"-l:{static}", f"-Wl,--exclude-libs,{static}", "-ldl", "-lrt", "-lpthread")
        # The runtime's wheel has no libcudart.so to find by -lcudart. It is needed even by a kernel that calls nothing
        # of it: what a wheel's version says of CUDA must show in the binary.
        return folder, f"-l:libcudart.so.{numbers(toolkit)[0]}"

    def variables(self, home: str, capabilities: tuple[str, ...]) -> dict[str, str]:
        """Return what torch's cpp_extension, setup.py files, CMake and Meson know."""
        return {
            **dict.fromkeys(("CUDA_HOME", "CUDA_PATH", "CUDAToolkit_ROOT"), home),
            "CUDACXX": f"{home}/bin/nvcc",
            # As in NVIDIA's images for building: of the driver there is nothing but what is linked with.
            "LIBRARY_PATH": f"{home}/lib64/stubs",
            "FORCE_CUDA": "1",
            "TORCH_CUDA_ARCH_LIST": ";".join(capabilities),
            "CUDAARCHS": ";".join(word for text in capabilities for word in cmake_architectures(text)),
            # As for one source.
            "NVCC_APPEND_FLAGS": "-objtemp",
        }

    def covers(self, written_for: tuple[str, ...] | None, requested: tuple[str, ...], toolkit: str) -> tuple[str, ...]:
        """Return what of a list a toolkit makes, for the capabilities that are asked for."""
        if written_for is not None:
            # A list serves many toolkits: 10.1 is what CUDA 12 called 11.0, and CUDA 13 makes no code for 7.0.
            known = cuda_toolkits()[toolkit].capabilities
            written_for = tuple(text for text in written_for if plain(text) in known)
        return resolve(written_for, requested)

    def without_capabilities(self, argv: tuple[str, ...]) -> tuple[str, ...]:
        """Return nvcc's command without -gencode."""
        return without_gencode(argv)

    def covers_code_of(self, one: tuple[str, ...], other: tuple[str, ...]) -> bool:
        """Compare what is asked of nvcc."""
        return {flag for text in one for flag in gencode(text)} >= {flag for text in other for flag in gencode(text)}

    def check_capability(self, text: str) -> None:
        """Refuse what is no compute capability."""
        parse_capability(text)

    def plain(self, capability: str) -> str:
        """Return ``9.0`` of ``9.0+PTX``."""
        return plain(capability)
