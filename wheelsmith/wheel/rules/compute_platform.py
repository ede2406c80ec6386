"""The compute platform that a wheel names is the one that its files need."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from wheelsmith.base.units import counted
from wheelsmith.frameworks import cuda_major, cuda_release, names_cuda
from wheelsmith.wheel.cuda_libraries import is_cudas, is_of_another_cuda
from wheelsmith.wheel.gpu import GpuCode
from wheelsmith.wheel.gpu.code import joined
from wheelsmith.wheel.inspection import Inspection
from wheelsmith.wheel.report import Finding, finding
from wheelsmith.wheel.rules.rule import Rule

_CUDAS_WORDS = re.compile(rb"cuda|cublas|cudnn|cufft|curand|cusparse|nvidia|nvrtc|triton", re.IGNORECASE)
_LONGEST_WORD = 8
_WITH_MINOR = 11  # the last CUDA whose runtime has a minor in its name


def examined_files(wheel: Inspection) -> Iterator[tuple[str, tuple[str, ...] | None, GpuCode]]:
    """Return each extension with what it needs and its GPU code, then all other files with GPU code together."""
    for name, extension in wheel.extensions.items():
        yield name, extension.needed, wheel.gpu_code.get(name, GpuCode())
    others = [name for name in wheel.gpu_code if name not in wheel.extensions]
    if others:
        more = f" and {counted(len(others) - 1, 'more data file')}" if len(others) > 1 else ""
        yield f"{others[0]}{more}", None, joined(wheel.gpu_code[name] for name in others)


def compare(name: str, needed: tuple[str, ...] | None, code: GpuCode, compute: str | None) -> Finding:
    """Compare what a file needs and holds with what the version says.

    :param needed: DT_NEEDED; None of what is no library.
    :param compute: ``cpu``, ``cu130``, or None.
    """
    wrong = []
    if compute == "cpu":
        cuda = [library for library in needed or () if is_cudas(library)]
        wrong += [f"the version says cpu, {name} needs {', '.join(cuda)}"] if cuda else []
        wrong += [f"the version says cpu, {name} holds GPU code: {_listed(code)}"] if code.present else []
        wrong += [f"the version says cpu, {name} holds CUDA's runtime"] if code.runtime else []
    elif compute is not None and names_cuda(compute):
        runtime = f"libcudart.so.{_runtime_major(compute)}"
        nvidia = code.present and not code.others
        if nvidia and needed is not None and runtime not in needed and not code.runtime:
            wrong.append(f"the version says {compute}, {name} does not need {runtime}")
        others = (library for library in needed or () if is_of_another_cuda(library, cuda_major(compute)))
        wrong += [f"{name} needs {library}" for library in others]
    return finding("compute-platform", wrong, f"GPU code for {_listed(code)}" if code.present else "no GPU code")


def _runtime_major(compute: str) -> str:
    """Return the number in the runtime's name: CUDA 10 had one for each minor, and all of CUDA 11 had 11.0."""
    major = cuda_major(compute)
    return str(major) if major > _WITH_MINOR else "11.0" if major == _WITH_MINOR else cuda_release(compute) or "10"


def _listed(code: GpuCode) -> str:
    kinds = (
        (code.machine_code, ""),
        (code.ptx, " as PTX"),
        (code.relocatable, " not linked"),
        (code.intermediate, " as IR"),
    )
    found = [f"{capability}{kind}" for capabilities, kind in kinds for capability in sorted(capabilities, key=_number)]
    found += [f"for {maker}" for maker in sorted(code.others)]
    return ", ".join(found) or "none that can be read"


def _number(capability: str) -> tuple[float, str]:
    return float(capability.rstrip("af")), capability


def _examine(wheel: Inspection) -> Iterator[Finding]:
    if wheel.local_version.wrong:
        yield finding("compute-platform", [*wheel.local_version.wrong], "")
    for name, needed, code in examined_files(wheel):
        yield compare(name, needed, code, wheel.compute)
    if names_cuda(wheel.compute) and wheel.extensions and not _speaks_of_cuda(wheel):
        yield finding("compute-platform", [f"the version says {wheel.compute}, and nothing in it is CUDA's"], "")


def _speaks_of_cuda(wheel: Inspection) -> bool:
    """Say whether a wheel has anything to do with CUDA: code, a library, a requirement, or only a word of it."""
    if any(code.present or code.runtime for code in wheel.gpu_code.values()):
        return True
    named = (name for extension in wheel.extensions.values() for name in extension.needed)
    required = (line.name for line in wheel.requirements.lines)
    if any(_CUDAS_WORDS.search(text.encode()) for text in (*named, *required)):
        return True
    files = (name for name in wheel.files if not name.startswith(f"{wheel.info}/"))
    return any(_says(wheel.archive.chunks(name)) for name in files)


def _says(pieces: Iterable[bytes]) -> bool:
    end = b""
    for piece in pieces:
        if _CUDAS_WORDS.search(end + piece):
            return True
        end = piece[-_LONGEST_WORD:]
    return False


RULE = Rule(
    name="compute-platform",
    proves="`+cpu`, also as other projects spell it (`+pt2.11cpu`), holds no GPU code, no CUDA runtime, "
    "and needs no CUDA library; a CUDA that is named is one that there is, and a wheel with compiled code speaks of it "
    "at all; `+cu13x` needs `libcudart.so.13` where it holds GPU code and no runtime of its own, and no library of "
    "another CUDA; the GPU code found in any file, by capability",
    leaves_open="of which CUDA a runtime is that was linked in statically; PTX in source code and documentation, by "
    "their names; code in archives and in files that are compressed otherwise than by nvcc is not found; nor is what a "
    "program compiles when it runs; which libraries of CUDA Python code loads by itself",
    examine=_examine,
)
