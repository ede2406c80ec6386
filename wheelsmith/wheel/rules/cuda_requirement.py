"""What a wheel requires of CUDA's own packages is of the CUDA that its version names."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from wheelsmith.frameworks import cuda_major, names_cuda
from wheelsmith.platforms import cuda_packages
from wheelsmith.wheel.inspection import Inspection
from wheelsmith.wheel.marker_environments import holds
from wheelsmith.wheel.report import Finding, finding
from wheelsmith.wheel.rules.rule import Rule

# Projects for one CUDA end with it: nvidia-cublas-cu12, cupy-cuda13x.
# Parts of one come after it: tensorrt-cu12-libs, jax-cuda12-plugin.
_SUFFIXED = re.compile(r"(?P<stem>.+?)-cu(?:da)?(?P<major>1\d)(?:\dx?|x)?(?:-[a-z]+)*")
_EXTRA = re.compile(r"cu(?:da)?-?(?P<major>1\d)(?:\d|x)?")  # cuda-core[cu12], jax[cuda12]
_NVIDIAS = ("nvidia-",)
_MOST_LINES = 200
_MOST_CLAUSES = 50  # of one project
_MOST_MARKERS = 2_000_000  # their characters, times the environments that they are asked in: about a second
_MAJORS = range(11, 15)  # of CUDA
_COUNTED = 13  # the first whose packages have no -cu13 in their names


def _examine(wheel: Inspection) -> Iterator[Finding]:
    compute = wheel.compute
    lines = [line for line in wheel.requirements.lines if _is_named_for_cuda(line)]
    if compute is None or not lines:
        return
    if _is_endless(lines, wheel):
        yield finding("cuda-requirement", ["what it requires of CUDA's packages has too many clauses to follow"], "")
        return
    asked = list(_asked_for(lines, wheel))
    if compute == "cpu":
        named = dict.fromkeys(line for together in asked for line in together)
        wrong = [f"the version says cpu, and it requires {line}, which is for CUDA" for line in named]
        yield from [finding("cuda-requirement", wrong, "")] if wrong else []
        return
    if not names_cuda(compute):
        return
    major = cuda_major(compute)
    wrong, seen = [], 0
    for texts, line in _judged(asked):
        majors = _majors(line)
        seen += majors is not None
        if line.url and _is_for_cuda(line):
            wrong.append(f"it requires {texts}: which release comes from a URL, nobody can know")
        elif majors is not None and major not in majors:
            others = f"CUDA {', '.join(map(str, sorted(majors)))}" if majors else "no CUDA that is known"
            wrong.append(f"the version says {compute}, and it requires {texts}, which is for {others}")
    if seen:
        yield finding("cuda-requirement", wrong, f"what it requires of CUDA's packages may be of CUDA {major}")


def _is_endless(lines: Sequence[Requirement], wheel: Inspection) -> bool:
    markers = sum(len(str(line.marker or "")) for line in lines)
    clauses = Counter[str]()
    for line in lines:
        clauses[canonicalize_name(line.name)] += len(line.specifier)
    return (
        len(lines) > _MOST_LINES
        or markers * len(wheel.environments) > _MOST_MARKERS
        or max(clauses.values()) > _MOST_CLAUSES
    )


def _asked_for(lines: Iterable[Requirement], wheel: Inspection) -> Iterator[tuple[Requirement, ...]]:
    """Return the lines for one project that hold at once, where nobody asks for an extra."""
    by_project: dict[str, list[Requirement]] = {}
    for line in lines:
        by_project.setdefault(canonicalize_name(line.name), []).append(line)
    for found in by_project.values():
        ways = (tuple(line for line in found if holds(line, where)) for where in wheel.environments)
        yield from dict.fromkeys(ways)


def _judged(asked: Iterable[tuple[Requirement, ...]]) -> Iterator[tuple[str, Requirement]]:
    """Return each line once, and as one those that hold at once."""
    for line in dict.fromkeys(line for together in asked for line in together):
        yield str(line), line
    for together in asked:
        if len(together) > 1:
            clauses = ",".join(str(line.specifier) for line in together if line.specifier)
            yield " and ".join(map(str, together)), Requirement(f"{together[0].name}{clauses}")


def _is_named_for_cuda(line: Requirement) -> bool:
    return (
        _is_for_cuda(line)
        or _SUFFIXED.fullmatch(canonicalize_name(line.name)) is not None
        or any(_EXTRA.fullmatch(extra.lower()) for extra in line.extras)
    )


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
    "for a CUDA may be of that one, all lines for a project together: `+cu130` requires no `nvidia-cuda-runtime-cu12` "
    "and no `nvidia-cufft<12`, which is CUDA 12's, and none of NVIDIA's from a URL, where no version is known; `+cpu` "
    "requires nothing that is named for a CUDA",
    leaves_open="which packages of CUDA a wheel needs: torch brings most of them, and a machine may have a toolkit; "
    "what only an extra asks for",
    examine=_examine,
)
