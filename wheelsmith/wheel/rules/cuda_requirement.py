"""What a wheel requires of CUDA's own packages is of the CUDA that its version names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from packaging.markers import UndefinedComparison, UndefinedEnvironmentName
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion

from wheelsmith.facts import cuda_packages
from wheelsmith.local_version import cuda_major
from wheelsmith.wheel.inspection import Inspection
from wheelsmith.wheel.report import Finding, finding
from wheelsmith.wheel.rules.rule import Rule

# Projects for one CUDA end with it: nvidia-cublas-cu12, cupy-cuda13x.
# Parts of one come after it: tensorrt-cu12-libs, jax-cuda12-plugin.
_SUFFIXED = re.compile(r"(?P<stem>.+?)-cu(?:da)?(?P<major>1\d)(?:\dx?|x)?(?:-[a-z]+)*")
_EXTRA = re.compile(r"cu(?:da)?-?(?P<major>1\d)(?:\d|x)?")  # cuda-core[cu12], jax[cuda12]
_NVIDIAS = ("nvidia-",)
_MOST_LINES, _MOST_ENVIRONMENTS, _LONGEST_MARKER = 500, 400, 1000
_MOST_CLAUSES = 50  # of one project
_MAJORS = range(11, 15)  # of CUDA
_COUNTED = 13  # the first whose packages have no -cu13 in their names


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
    wrong, seen = [], 0
    for texts, asked in _by_project(lines):
        majors = _majors(asked)
        seen += majors is not None
        if majors is not None and major not in majors:
            others = f"CUDA {', '.join(map(str, sorted(majors)))}" if majors else "no CUDA that is known"
            wrong.append(f"the version says {compute}, and it requires {texts}, which is for {others}")
    if seen:
        yield finding("cuda-requirement", wrong, f"what it requires of CUDA's packages may be of CUDA {major}")


def _by_project(lines: Iterable[Requirement]) -> Iterator[tuple[str, Requirement]]:
    """Return each line, and all lines for one project that hold everywhere as one."""
    everywhere: dict[str, list[Requirement]] = {}
    for line in lines:
        yield str(line), line
        if line.marker is None and not line.extras:
            everywhere.setdefault(canonicalize_name(line.name), []).append(line)
    for name, found in everywhere.items():
        clauses = ",".join(str(line.specifier) for line in found if line.specifier)
        if len(found) > 1 and clauses.count(",") < _MOST_CLAUSES:
            yield " and ".join(map(str, found)), Requirement(f"{name}{clauses}")


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
    name, known = canonicalize_name(line.name), cuda_packages()
    suffixed = _SUFFIXED.fullmatch(name)
    return name in {*known.by_major, *known.first_of_13} or (
        suffixed is not None and suffixed["stem"].startswith(_NVIDIAS)
    )


def _majors(line: Requirement) -> set[int] | None:
    """Return the CUDA majors that a required project may be for; None where it is not one of CUDA's."""
    name, known = canonicalize_name(line.name), cuda_packages()
    if found := _SUFFIXED.fullmatch(name):
        return {int(found["major"])}
    if asked := {int(found["major"]) for extra in line.extras if (found := _EXTRA.fullmatch(extra.lower()))}:
        return asked
    if len(line.specifier) > _MOST_CLAUSES:
        return None
    if name in known.by_major:
        return {major for major in _MAJORS if _admits(line.specifier, f">={major}.dev0,<{major + 1}.dev0")}
    if first := known.first_of_13.get(name):
        older = {major for major in _MAJORS if major < _COUNTED and _admits(line.specifier, f"<{first}")}
        return older | {major for major in _MAJORS if major >= _COUNTED and _admits(line.specifier, f">={first}")}
    return None


def _admits(specifiers: SpecifierSet, among: str) -> bool:
    """Say whether a requirement admits a version among others."""
    return not SpecifierSet(",".join(filter(None, [str(specifiers), among]))).is_unsatisfiable()


RULE = Rule(
    name="cuda-requirement",
    proves="where the version names a CUDA, what it requires of NVIDIA's packages and of other projects that are named "
    "for a CUDA may be of that one: `+cu130` requires no `nvidia-cuda-runtime-cu12` and no `nvidia-cufft<12`, which is "
    "CUDA 12's; `+cpu` requires none of NVIDIA's",
    leaves_open="which packages of CUDA a wheel needs: torch brings most of them, and a machine may have a toolkit",
    examine=_examine,
)
