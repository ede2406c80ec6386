"""Compare the GPU code in a wheel with its compute platform, its CUDA release and its plan."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache

from wheelsmith.base.units import counted, numbers
from wheelsmith.frameworks import cuda_major, cuda_release, names_cuda
from wheelsmith.model import WheelSpec
from wheelsmith.platforms import Rocm, cuda_toolkits, is_runtime_library, runtime_library
from wheelsmith.wheel.gpu import AMD, GpuCode, combine_gpu_code, processor_order
from wheelsmith.wheel.inspection import Inspection
from wheelsmith.wheel.report import Finding, finding
from wheelsmith.wheel.rules.rule import Rule
from wheelsmith.wheel.symbol_resolution import CUDA_LIBRARY, CUDA_MAJORS, TORCH_CUDA
from wheelsmith.wheel.symbols import cuda_exports

_CUDA_WORDS = re.compile(rb"cuda|cublas|cudnn|cufft|curand|cusparse|nvidia|nvrtc|triton", re.IGNORECASE)
_FIRST_CUDA = 12  # in CUDA 11, too many libraries have version numbers that differ from CUDA's
_GPU_FILES = (".cubin", ".fatbin", ".ptx")
_LAST_WITH_MINOR = 11  # the last CUDA release with a minor in the name of its runtime


def examined_files(wheel: Inspection) -> Iterator[tuple[str, tuple[str, ...] | None, GpuCode]]:
    """Yield name, DT_NEEDED and GPU code of each extension, then one entry for all other files with GPU code."""
    for name, extension in wheel.extensions.items():
        yield name, extension.needed, wheel.gpu_code.get(name, GpuCode())
    others = [name for name in wheel.gpu_code if name not in wheel.extensions]
    if others:
        more = f" and {counted(len(others) - 1, 'more data file')}" if len(others) > 1 else ""
        yield f"{others[0]}{more}", None, combine_gpu_code(wheel.gpu_code[name] for name in others)


def compare(name: str, needed: tuple[str, ...] | None, code: GpuCode, compute: str | None) -> Finding:
    """Compare a file's libraries and GPU code with the compute platform of the version.

    :param needed: DT_NEEDED; None for files other than libraries.
    :param compute: ``cpu``, ``cu130``, or None.
    """
    mistakes = []
    if compute == "cpu":
        cuda = [library for library in needed or () if _is_cuda_library(library)]
        mistakes += [f"the version is for cpu, but {name} needs {', '.join(cuda)}"] if cuda else []
        mistakes += [f"the version is for cpu, but {name} contains GPU code: {_describe(code)}"] if code.present else []
        mistakes += [f"the version is for cpu, but {name} contains the CUDA runtime"] if code.runtime else []
    elif compute is not None and names_cuda(compute):
        runtime = f"libcudart.so.{_runtime_number(compute)}"
        nvidia = code.present and not (code.other_vendors or code.is_for_amd)
        if nvidia and needed is not None and runtime not in needed and not code.runtime:
            mistakes.append(f"the version is for {compute}, but {name} does not need {runtime}")
        others = (library for library in needed or () if _has_other_cuda_number(library, cuda_major(compute)))
        mistakes += [f"the version is for {compute}, but {name} needs {library}" for library in others]
        mistakes += [f"the version is for {compute}, but {name} contains code for AMD GPUs"] if code.is_for_amd else []
    elif compute is not None and (release := Rocm().version_of(compute)):
        mistakes += _compare_rocm(name, needed, code, release)
    return finding("compute-platform", mistakes, f"GPU code for {_describe(code)}" if code.present else "no GPU code")


def _compare_rocm(name: str, needed: tuple[str, ...] | None, code: GpuCode, release: str) -> list[str]:
    """Return the mistakes in a file of a wheel for ROCm."""
    found, runtime = [], runtime_library(release)
    if code.is_for_nvidia or code.runtime:
        found.append("contains code for NVIDIA GPUs")
    if code.is_for_amd and needed is not None and runtime not in needed:
        found.append(f"does not need {runtime}")
    found += [f"needs {other}" for other in needed or () if is_runtime_library(other) and other != runtime]
    found += [f"needs {library}" for library in needed or () if _is_cuda_library(library)]
    return [f"the version is for ROCm {release}, but {name} {mistake}" for mistake in found]


def _is_cuda_library(library: str) -> bool:
    """Return True if a library belongs to CUDA or to torch's CUDA builds."""
    match = CUDA_LIBRARY.fullmatch(library)
    return match is not None and (match["stem"] in _library_numbers() or f"lib{match['stem']}.so" in TORCH_CUDA)


def _has_other_cuda_number(library: str, cuda: int) -> bool:
    """Return True if a CUDA library has the name that it has in another major release.

    :param cuda: major release; for unknown ones the result is False.
    """
    match = CUDA_LIBRARY.fullmatch(library)
    majors = _library_numbers().get(match["stem"], {}) if match else {}
    if match is None or cuda not in majors or len(set(majors.values())) == 1:
        return False
    return match["major"] != majors[cuda]


@cache
def _library_numbers() -> dict[str, dict[int, str]]:
    """Return the known CUDA libraries: name without number → major release of CUDA → number in the name."""
    found: dict[str, dict[int, str]] = {}
    for cuda in CUDA_MAJORS:
        exports = cuda_exports(cuda) if cuda >= _FIRST_CUDA else None
        for library in exports.symbols if exports else ():
            # A library without a number, such as libcheckpoint.so, may belong to any project.
            if (match := CUDA_LIBRARY.fullmatch(library)) and match["major"]:
                found.setdefault(match["stem"], {})[cuda] = match["major"]
    return found


def _runtime_number(compute: str) -> str:
    """Return the number in the runtime's name: the release for CUDA 10, 11.0 for CUDA 11, the major after that."""
    major = cuda_major(compute)
    if major > _LAST_WITH_MINOR:
        return str(major)
    return "11.0" if major == _LAST_WITH_MINOR else cuda_release(compute) or "10"


def _describe(code: GpuCode) -> str:
    kinds = (
        (code.machine_code, ""),
        (code.ptx, " as PTX"),
        (code.relocatable, " not linked"),
        (code.intermediate, " as IR"),
    )
    found = [
        f"{capability}{kind}"
        for capabilities, kind in kinds
        for capability in sorted(capabilities, key=processor_order)
    ]
    found += [f"for {maker}" for maker in sorted(code.other_vendors)]
    return ", ".join(found) or "unknown GPUs"


def _check_compute_platform(wheel: Inspection) -> Iterator[Finding]:
    if wheel.local_version.wrong:
        yield finding("compute-platform", [*wheel.local_version.wrong], "")
    for name, needed, code in examined_files(wheel):
        yield compare(name, needed, code, wheel.compute)
    if names_cuda(wheel.compute) and wheel.extensions and not _mentions_cuda(wheel):
        yield finding("compute-platform", [f"the version is for {wheel.compute}, but the wheel does not use CUDA"], "")


def _mentions_cuda(wheel: Inspection) -> bool:
    """Return True if a wheel contains GPU code or the runtime, or mentions CUDA in a library, requirement or file."""
    if any(code.present or code.runtime for code in wheel.gpu_code.values()):
        return True
    named = (name for extension in wheel.extensions.values() for name in extension.needed)
    required = (line.name for line in wheel.requirements.lines)
    if any(_CUDA_WORDS.search(text.encode()) for text in (*named, *required)):
        return True
    files = (name for name in wheel.files if not name.startswith(f"{wheel.info}/"))
    return any(_CUDA_WORDS.search(piece) for name in files for piece in wheel.archive.chunks(name))


def compare_toolkit(name: str, code: GpuCode, cuda: str) -> Finding:
    """Compare the toolkits that made a file's GPU code with the CUDA release of the version.

    PTX from an older toolkit is allowed: a driver of this CUDA release compiles it.

    :param cuda: ``13.0``, or ``13`` if the version names only the major release.
    """
    release = numbers(cuda)
    others = sorted(other for other in code.assemblers if numbers(other)[: len(release)] != release)
    mistakes = [f"the version is for CUDA {cuda}, but CUDA {other} made GPU code of {name}" for other in others]
    known = [toolkit.ptx for each, toolkit in cuda_toolkits().items() if numbers(each)[: len(release)] == release]
    if known:
        newest = max(known, key=numbers)
        newer = sorted(version for version in code.ptx_versions if numbers(version) > numbers(newest))
        mistakes += [f"CUDA {cuda} reads PTX up to {newest}, but {name} has PTX {version}" for version in newer]
    made = [f"machine code by CUDA {', '.join(sorted(code.assemblers))}"] if code.assemblers else []
    written = ", ".join(sorted(code.ptx_toolkits)) or "?"
    made += [f"PTX {', '.join(sorted(code.ptx_versions))} of CUDA {written}"] if code.ptx_versions else []
    return finding("toolkit", mistakes, "; ".join(made))


def _check_toolkit(wheel: Inspection) -> Iterator[Finding]:
    if wheel.compute is None or not names_cuda(wheel.compute):
        return
    release = cuda_release(wheel.compute) or str(cuda_major(wheel.compute))
    for name, _, code in examined_files(wheel):
        if code.present:
            yield compare_toolkit(name, code, release)


def _check_machine_code(wheel: Inspection) -> Iterator[Finding]:
    codes = {name: code for name, code in wheel.gpu_code.items() if code.present}
    empty = [name for name in wheel.files if name.lower().endswith(_GPU_FILES) and name not in codes]
    if codes or empty:
        mistakes = [f"{name}, {mistake}" for name, code in codes.items() for mistake in code.mistakes]
        mistakes += [f"{name}: {reason}" for name, code in codes.items() for reason in _unsupported_gpus(code)]
        mistakes += [f"{name} contains no readable GPU code" for name in empty]
        right = f"the GPU code of {counted(len(codes), 'file')} is complete and matches its labels"
        yield finding("machine-code", mistakes, right)


def _unsupported_gpus(code: GpuCode) -> list[str]:
    """Return a mistake for each GPU that the toolkits cannot make machine code for; none if a toolkit is unknown."""
    toolkits = cuda_toolkits()
    if not code.assemblers or not code.assemblers <= toolkits.keys():
        return []
    made = {one for name in code.assemblers for one in toolkits[name].capabilities}
    nvidia = {one for one in code.machine_code if not one.startswith(AMD)}
    unsupported = sorted((nvidia | code.relocatable - code.ptx) - made)
    named = ", ".join(sorted(code.assemblers))
    return [f"it has machine code for {one}, which CUDA {named} cannot make" for one in unsupported]


def compare_plan(codes: Iterable[GpuCode], spec: WheelSpec) -> Finding:
    """Compare the GPU code of a wheel with the GPU architectures of its plan."""
    code = combine_gpu_code(codes)
    missing = [
        f"no machine code for {c}" + (", only code that is not linked" if c in code.relocatable else "")
        for c in map(_processor, spec.gpu_archs)
        if c not in code.machine_code
    ]
    missing += [
        f"no PTX for {_processor(c)}" for c in spec.gpu_archs if c.endswith("+PTX") and _processor(c) not in code.ptx
    ]
    return finding("gpu-code", missing, f"code for {', '.join(spec.gpu_archs) or 'no GPU'}, as planned")


def _processor(capability: str) -> str:
    """Return a GPU architecture without PTX, and without the features of an AMD target."""
    return capability.removesuffix("+PTX").partition(":")[0]


def _check_gpu_code(wheel: Inspection) -> Iterator[Finding]:
    if wheel.expected:
        yield compare_plan(wheel.gpu_code.values(), wheel.expected)


COMPUTE_PLATFORM = Rule(
    name="compute-platform",
    proves="a `+cpu` wheel, also as `+pt2.11cpu`, contains no GPU code and no CUDA runtime, and needs no CUDA "
    "library; a CUDA release in the version exists, and a compiled wheel uses or mentions CUDA; a `+cu13x` wheel with "
    "GPU code needs `libcudart.so.13` or contains the runtime, needs no library of another CUDA release, and contains "
    "no code for AMD GPUs; a `+rocm7.x` wheel with GPU code needs `libamdhip64.so.7`, and has neither code for NVIDIA "
    "GPUs nor a library of CUDA",
    leaves_open="the release of a statically linked CUDA runtime; PTX in files with the suffix of source code or "
    "documentation; GPU code in archives and in compressed files, except nvcc's own compression; GPU code that is "
    "compiled at run time; CUDA libraries that Python code loads",
    examine=_check_compute_platform,
)

TOOLKIT = Rule(
    name="toolkit",
    proves="the ptxas of the version's CUDA release made every cubin, e.g. of CUDA 12.4 for `+cu124`, and it can read "
    "all PTX",
    leaves_open="LTO IR and tile IR, which do not record their toolkit",
    examine=_check_toolkit,
)

MACHINE_CODE = Rule(
    name="machine-code",
    proves="all GPU code is readable: the architecture of a cubin, with `a` and `f`, and `.version` and `.target` of "
    "PTX match the entry of the fatbin; each entry decompresses to its size; the toolkit of the code supports its "
    "GPU; a library that registers code with the CUDA runtime has linked code; in clang's bundles, each code object is "
    "for the AMD architecture of its label",
    leaves_open="the instructions, and the text of PTX; `f` if no tool recorded its command line; LTO IR and tile IR "
    "except for their label; PTX in a string counts for its target, even if it is only data",
    examine=_check_machine_code,
)

GPU_CODE = Rule(
    name="gpu-code",
    proves="in a build: there is linked machine code and PTX for every planned capability",
    leaves_open="whether every kernel has code for each of them: one kernel is enough",
    examine=_check_gpu_code,
)
