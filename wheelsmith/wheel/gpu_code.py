"""What a wheel says of its GPU code, against the code itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase

from wheelsmith.facts import cuda_toolkits
from wheelsmith.model import WheelSpec
from wheelsmith.wheel.elf import Extension
from wheelsmith.wheel.fatbin import GpuCode
from wheelsmith.wheel.report import Finding, finding

_CUDA_LIBRARIES = ("libcudart.so*", "libtorch_cuda.so*", "libc10_cuda.so*", "libcu*.so*", "libnv*.so*")


def gpu_findings(name: str, extension: Extension, code: GpuCode, compute: str | None) -> Iterator[Finding]:
    """Compare one extension with the compute platform that the wheel's version names: ``cpu``, ``cu130``, or none."""
    yield _compute(name, extension, code, compute)
    if compute not in {None, "cpu"} and extension.fatbins:
        yield _toolkit(name, code, f"{compute[2:-1]}.{compute[-1]}")


def planned_code(codes: Iterable[GpuCode], spec: WheelSpec) -> Finding:
    """Find all code that the plan asked for."""
    codes = list(codes)
    machine = {capability for code in codes for capability in code.machine_code}
    ptx = {capability for code in codes for capability in code.ptx}
    missing = [f"no machine code for {c}" for c in map(_base, spec.gpu_archs) if c not in machine]
    missing += [f"no PTX for {_base(c)}" for c in spec.gpu_archs if c.endswith("+PTX") and _base(c) not in ptx]
    return finding("gpu-code", missing, f"code for {', '.join(spec.gpu_archs) or 'no GPU'}, as planned")


def _compute(name: str, extension: Extension, code: GpuCode, compute: str | None) -> Finding:
    cuda = [lib for lib in extension.needed if any(fnmatchcase(lib, pattern) for pattern in _CUDA_LIBRARIES)]
    wrong = []
    if compute == "cpu" and (cuda or extension.fatbins):
        wrong.append(f"the version says cpu, {name} needs {', '.join(cuda) or 'a GPU'}")
    elif compute not in {None, "cpu"}:
        runtime = f"libcudart.so.{compute[2:-1]}"
        if extension.fatbins and runtime not in extension.needed:
            wrong.append(f"the version says {compute}, {name} does not need {runtime}")
        wrong += [f"{name} needs {lib}" for lib in cuda if lib.startswith("libcudart") and lib != runtime]
    found = ", ".join(
        [*sorted(code.machine_code, key=_number), *(f"{c} as PTX" for c in sorted(code.ptx, key=_number))]
    )
    return finding("compute-platform", wrong, f"GPU code for {found}" if found else "no GPU code")


def _toolkit(name: str, code: GpuCode, cuda: str) -> Finding:
    """Compare what made the code with the version.

    PTX that an older front end wrote is no lie, a driver of this CUDA compiles it; but it is told.
    """
    wrong = [
        f"the version says CUDA {cuda}, CUDA {other} made code of {name}" for other in sorted(code.assemblers - {cuda})
    ]
    known = cuda_toolkits().get(cuda)
    if known:
        newer = sorted(version for version in code.ptx_versions if _release(version) > _release(known.ptx))
        wrong += [f"CUDA {cuda} reads PTX up to {known.ptx}, {name} has PTX {version}" for version in newer]
    made = [f"machine code by CUDA {', '.join(sorted(code.assemblers))}"] if code.assemblers else []
    written = ", ".join(sorted(code.front_ends)) or "?"
    made += [f"PTX {', '.join(sorted(code.ptx_versions))} as of CUDA {written}"] if code.ptx_versions else []
    return finding("toolkit", wrong, "; ".join(made))


def _release(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def _number(capability: str) -> tuple[float, str]:
    return float(capability.rstrip("af")), capability


def _base(capability: str) -> str:
    return capability.removesuffix("+PTX")
