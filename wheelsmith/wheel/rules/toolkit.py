"""The CUDA that a wheel names is the one that made its GPU code."""

from __future__ import annotations

from collections.abc import Iterator

from wheelsmith.base.units import numbers
from wheelsmith.frameworks import cuda_major, cuda_release, names_cuda
from wheelsmith.platforms import cuda_toolkits
from wheelsmith.wheel.gpu import GpuCode
from wheelsmith.wheel.inspection import Inspection
from wheelsmith.wheel.report import Finding, finding
from wheelsmith.wheel.rules.compute_platform import examined_files
from wheelsmith.wheel.rules.rule import Rule


def compare(name: str, code: GpuCode, cuda: str) -> Finding:
    """Compare what made a file's GPU code with a toolkit: ``13.0``.

    PTX that an older front end wrote is no lie, a driver of this CUDA compiles it; but it is told.
    """
    wrong = [
        f"the version says CUDA {cuda}, CUDA {other} made code of {name}" for other in sorted(code.assemblers - {cuda})
    ]
    known = cuda_toolkits().get(cuda)
    if known:
        newer = sorted(version for version in code.ptx_versions if numbers(version) > numbers(known.ptx))
        wrong += [f"CUDA {cuda} reads PTX up to {known.ptx}, {name} has PTX {version}" for version in newer]
    made = [f"machine code by CUDA {', '.join(sorted(code.assemblers))}"] if code.assemblers else []
    written = ", ".join(sorted(code.front_ends)) or "?"
    made += [f"PTX {', '.join(sorted(code.ptx_versions))} as of CUDA {written}"] if code.ptx_versions else []
    return finding("toolkit", wrong, "; ".join(made))


def compare_major(name: str, code: GpuCode, major: int) -> Finding:
    """Compare what made a file's GPU code with a major release of CUDA, where the version leaves the minor open."""
    others = sorted(other for other in code.assemblers if numbers(other)[0] != major)
    wrong = [f"the version says CUDA {major}, CUDA {other} made code of {name}" for other in others]
    known = [toolkit.ptx for version, toolkit in cuda_toolkits().items() if numbers(version)[0] == major]
    newest = max(map(numbers, known), default=None)
    newer = sorted(version for version in code.ptx_versions if newest and numbers(version) > newest)
    wrong += [f"no CUDA {major} reads PTX {version}, which {name} has" for version in newer]
    return finding("toolkit", wrong, f"machine code by CUDA {', '.join(sorted(code.assemblers)) or '?'}")


def _examine(wheel: Inspection) -> Iterator[Finding]:
    compute = wheel.compute
    if compute is None or not names_cuda(compute):
        return
    release = cuda_release(compute)
    for name, _, code in examined_files(wheel):
        if code.present:
            yield compare(name, code, release) if release else compare_major(name, code, cuda_major(compute))


RULE = Rule(
    name="toolkit",
    proves="every cubin was assembled by the ptxas of the version's CUDA: `+cu124` by 12.4's; no PTX is newer than "
    "it reads",
    leaves_open="LTO IR and tile IR do not say what made them",
    examine=_examine,
)
