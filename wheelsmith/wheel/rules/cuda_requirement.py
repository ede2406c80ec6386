"""What a wheel requires of CUDA's own packages is of the CUDA that its version names."""

from __future__ import annotations

import re
from collections.abc import Iterator

from packaging.markers import UndefinedComparison, UndefinedEnvironmentName
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from wheelsmith.local_version import cuda_major
from wheelsmith.wheel.inspection import Inspection
from wheelsmith.wheel.report import Finding, finding
from wheelsmith.wheel.rules.rule import Rule

# Projects for one CUDA end with it: nvidia-cublas-cu12, cupy-cuda13x.
# Parts of one come after it: tensorrt-cu12-libs, jax-cuda12-plugin.
_SUFFIXED = re.compile(r"(?P<stem>.+?)-cu(?:da)?(?P<major>1\d)(?:\dx?|x)?(?:-[a-z]+)*")
_EXTRA = re.compile(r"cu(?:da)?-?(?P<major>1\d)(?:\d|x)?")  # cuda-core[cu12], jax[cuda12]
_NVIDIAS = ("nvidia-",)
# Those that have CUDA's major as theirs, as PyPI has them.
_BY_VERSION = frozenset(
    {
        *("cuda-toolkit", "cuda-bindings", "cuda-python", "nvidia-cuda-runtime", "nvidia-cuda-nvrtc"),
        *("nvidia-cuda-cupti", "nvidia-cuda-nvcc", "nvidia-nvjitlink", "nvidia-cublas", "nvidia-nvvm"),
        *("nvidia-cuda-cccl", "nvidia-cuda-crt", "nvidia-cuda-cuobjdump", "nvidia-nvtx"),
    }
)
# Those of NVIDIA's that count their own releases.
_OTHERS = frozenset({"nvidia-cufft", "nvidia-curand", "nvidia-cusolver", "nvidia-cusparse", "nvidia-cufile"})
_MOST_LINES, _MOST_ENVIRONMENTS, _LONGEST_MARKER = 500, 400, 1000
_MINORS, _FAR = 10, 999


def _examine(wheel: Inspection) -> Iterator[Finding]:
    compute = wheel.compute
    if compute is None:
        return
    lines = [line for line in wheel.requirements.lines[:_MOST_LINES] if _is_asked_for(line, wheel)]
    if compute == "cpu":
        named = [line for line in lines if _is_for_cuda(line)]
        wrong = [f"the version says cpu, and it requires {line.name}, which is CUDA's" for line in named]
        yield from [finding("cuda-requirement", wrong, "")] if wrong else []
        return
    major = cuda_major(compute)
    of_cuda = [(line, others) for line in lines if (others := _majors(line))]
    wrong = [
        f"the version says {compute}, and it requires {line}, which is for CUDA {', '.join(map(str, sorted(others)))}"
        for line, others in of_cuda
        if major not in others
    ]
    if of_cuda:
        yield finding("cuda-requirement", wrong, f"what it requires of CUDA's packages may be of CUDA {major}")


def _is_asked_for(line: Requirement, wheel: Inspection) -> bool:
    """Say whether a line holds where nobody asks for an extra, in some environment of the tags."""
    if line.marker is None:
        return True
    if len(str(line.marker)) > _LONGEST_MARKER:
        return False
    try:
        return any(line.marker.evaluate(environment) for environment in wheel.environments[:_MOST_ENVIRONMENTS])
    except (UndefinedComparison, UndefinedEnvironmentName, InvalidVersion, ValueError, RecursionError):
        return False  # torch-requirement and metadata judge markers


def _is_for_cuda(line: Requirement) -> bool:
    name = canonicalize_name(line.name)
    suffixed = _SUFFIXED.fullmatch(name)
    return name in _BY_VERSION | _OTHERS or (suffixed is not None and suffixed["stem"].startswith(_NVIDIAS))


def _majors(line: Requirement) -> set[int]:
    """Return the CUDA majors that a required project may be for; none where it is not one of CUDA's."""
    name = canonicalize_name(line.name)
    if found := _SUFFIXED.fullmatch(name):
        return {int(found["major"])}
    if asked := {int(found["major"]) for extra in line.extras if (found := _EXTRA.fullmatch(extra.lower()))}:
        return asked
    return _admitted(line.specifier) if name in _BY_VERSION else set()


def _admitted(specifiers: SpecifierSet) -> set[int]:
    """Return the majors of the versions that are admitted, of those that CUDA has and of those that stand there."""
    candidates = [f"{major}.{minor}.{_FAR}" for major in range(11, 15) for minor in (*range(_MINORS), _FAR)]
    candidates += [specifier.version.removesuffix(".*") for specifier in list(specifiers)[:_MINORS]]
    found = set()
    for candidate in candidates:
        try:
            if specifiers.contains(candidate, prereleases=True):
                found.add(Version(candidate).major)
        except InvalidVersion:
            continue
    return found


RULE = Rule(
    name="cuda-requirement",
    proves="where the version names a CUDA, what it requires of NVIDIA's packages and of other projects that are named "
    "for a CUDA may be of that one: `+cu130` requires no `nvidia-cuda-runtime-cu12`; `+cpu` requires none of NVIDIA's",
    leaves_open="which packages of CUDA a wheel needs: torch brings most of them, and a machine may have a toolkit",
    examine=_examine,
)
