"""What a matrix may have asked for, by what a stranger's wheel records: written as a matrix, and read by its rules."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Any

from packaging.utils import canonicalize_name
from packaging.version import Version

from wheelsmith.base.errors import MatrixError
from wheelsmith.frameworks import framework, torch_releases
from wheelsmith.matrix import KernelRef, Matrix, parse_matrix
from wheelsmith.model import TORCH
from wheelsmith.model.cell import CUDA, HOST
from wheelsmith.plan.pypi_names import own_name
from wheelsmith.plan.recipe import KernelSpec
from wheelsmith.platforms import CPU, cxx_toolchains, platform_of
from wheelsmith.wheel.recorded_plan import RecordedPlan

_LONGEST = 200  # characters of anything that it says
_MOST = 64  # capabilities
_HEADERS = ("whole", "light")
_BY_MATRIX = "name the matrix that it was built from: wheelsmith verify-rebuild --matrix matrix.yaml WHEEL"


def matrices_of(recorded: RecordedPlan, spec: KernelSpec, kernel: KernelRef) -> Iterator[Matrix]:
    """Yield each one-cell matrix that a record may come from; that it came from one of them, its digest says.

    Names are taken only where they are the kernel's own, and no files that it would declare: who believes a stranger in
    these is not told that a wheel replaces another project.

    :param kernel: where its source is.
    :raises MatrixError: it is nothing that a matrix may ask for.
    """
    wheel, toolset = recorded.data["wheel"], recorded.data.get("toolset")
    named = _names(wheel, spec, kernel)
    archs = _texts(wheel.get("gpu_archs"))
    release = wheel.get("release")
    # What is compiled for none is the same for every cell.
    axes = {
        _text(wheel.get("framework")) if release else TORCH: [_text(release or next(reversed(torch_releases())))],
        CUDA: [_text(wheel.get("toolkit") or "cpu")],
        "arch": [_text(wheel.get("arch")) if release else "x86_64"],
    }
    said = {"kernel": {"path": ".", **named}, "version": _version(wheel), "axes": axes, **_compilers(toolset)}
    for capabilities, headers in product(dict.fromkeys((None, archs or None)), _HEADERS):
        own = {"gpu-archs": list(capabilities)} if capabilities else {}
        made = parse_matrix(json.dumps({**said, **own, "torch-headers": headers}), file="build-plan.json")
        names = replace(kernel, distribution=made.kernel.distribution, module=made.kernel.module)
        _check_known(made)
        yield replace(made, kernel=names)


def _check_known(matrix: Matrix) -> None:
    """Refuse what a newer wheelsmith may know: a matrix would have such cells left out."""
    releases = framework(matrix.framework).releases()
    found = None if matrix.computes[0] == CPU else platform_of(matrix.computes[0])
    if matrix.releases[0] not in releases:
        raise MatrixError(f"this wheelsmith does not know {matrix.framework} {matrix.releases[0]}")
    if found and found[1] not in found[0].toolkits():
        raise MatrixError(f"this wheelsmith does not know {matrix.computes[0]}")


def _names(wheel: dict[str, Any], spec: KernelSpec, kernel: KernelRef) -> dict[str, str]:
    distribution, module = _text(wheel.get("distribution")), _text(wheel.get("module"))
    if (distribution, module) == (spec.name, spec.package):
        return {}
    repos = (kernel.hub, spec.repo_id, f"{spec.name}-kernel")
    own = {spec.name, *(own_name(repo) for repo in repos if repo)}
    if canonicalize_name(distribution) not in own or module not in {spec.package, *(n.replace("-", "_") for n in own)}:
        raise MatrixError("its names are not the kernel's own", remedy=_BY_MATRIX)
    return {"distribution": distribution, "module": module}


def _version(wheel: dict[str, Any]) -> str:
    try:
        return Version(_text(wheel.get("version"))).public
    except ValueError:
        raise MatrixError("its version is none") from None


def _compilers(toolset: Any) -> dict[str, str]:
    """Return the settings that take the compilers of a record; where they are not known, those that are taken first."""
    if not isinstance(toolset, dict):
        return {}
    prefix = toolset.get("prefix")
    if prefix is None:
        return {"toolchain": HOST}
    for known in cxx_toolchains():
        if known.prefix.to_json() == prefix:
            return {"toolchain": known.compilers.name, "manylinux": known.policy.name}
    return {}


def _texts(values: Any) -> tuple[str, ...]:
    if not isinstance(values, list) or len(values) > _MOST:
        raise MatrixError("it is for too many capabilities")
    return tuple(map(_text, values))


def _text(value: Any) -> str:
    if not isinstance(value, str) or len(value) > _LONGEST:
        raise MatrixError("what it is for is no text, or a long one")
    return value
