"""Check that a wheel's requirements agree with each other and with its version."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import product

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from wheelsmith.base.units import counted
from wheelsmith.frameworks import cuda_major, framework, names_cuda
from wheelsmith.model import TORCH
from wheelsmith.platforms import cuda_packages
from wheelsmith.wheel.inspection import Inspection
from wheelsmith.wheel.report import Finding, finding
from wheelsmith.wheel.requirements import FrameworkRequirement, applies
from wheelsmith.wheel.rules.rule import Rule

_SHOWN = 10  # mistakes
# Such as nvidia-cublas-cu12, cupy-cuda13x, tensorrt-cu12-libs or jax-cuda12-plugin.
_SUFFIXED = re.compile(r".+?-cu(?:da)?(?P<major>1\d)(?:\dx?|x)?(?:-[a-z]+)*")
_EXTRA = re.compile(r"cu(?:da)?-?(?P<major>1\d)(?:\d|x)?")  # cuda-core[cu12], jax[cuda12]
_MAJORS = range(11, 15)  # of CUDA
_FIRST_WITHOUT_SUFFIX = 13  # the first CUDA release with package names without -cu13


def _check_torch(wheel: Inspection) -> Iterator[Finding]:
    requirement = wheel.torch_requirement
    if requirement or wheel.torch_release or (wheel.local_version.stable and wheel.local_version.framework == TORCH):
        yield _compare_framework("torch-requirement", wheel, TORCH, requirement)


def _check_other_framework(wheel: Inspection) -> Iterator[Finding]:
    named = wheel.local_version
    if named.framework != TORCH and (named.release or named.stable):
        requirement = wheel.framework_requirement(named.framework)
        yield _compare_framework("framework-requirement", wheel, named.framework, requirement)


def _compare_framework(rule: str, wheel: Inspection, name: str, requirement: FrameworkRequirement | None) -> Finding:
    """Compare the requirement for a framework with the release and the compute platform in the version."""
    version = wheel.local_version
    release = version.release if version.framework == name else None
    claimed = f"the version names {framework(name).stable_part if version.stable else f'{name} {release}'}"
    if requirement is None:
        return finding(rule, [f"{claimed}, but the wheel does not require {framework(name).project}"], "")
    mistakes = list(requirement.mistakes)
    required = f"Requires-Dist has {requirement.text}"
    others = [each for each in (*requirement.releases, *requirement.unknown_releases) if each != release]
    if release and others:
        mistakes.append(f"{claimed}, but {required}, which admits {', '.join(others[:3])}")
    if release and requirement.environments_without:
        mistakes.append(f"{claimed}, but the wheel does not require it for {requirement.environments_without[0]}")
    newest = list(framework(name).releases())[-1]
    if version.stable and not mistakes and newest not in requirement.releases and not requirement.unknown_releases:
        mistakes.append(f"{claimed}, but {required}, which excludes {name} {newest}")
    mistakes += [
        f"the version is for {wheel.compute}, but {required}, which is {name} for {build}"
        for build in requirement.builds
        if not build.startswith(wheel.compute or "")
    ]
    admitted = ", ".join([*requirement.releases, *requirement.unknown_releases]) or "no known release"
    return finding(rule, mistakes, f"{required}, which admits {admitted}")


def _check_requirements(wheel: Inspection) -> Iterator[Finding]:
    required: dict[str, list[Requirement]] = {}
    for line in wheel.requirements.lines:
        required.setdefault(canonicalize_name(line.name), []).append(line)
    required.pop(TORCH, None)  # `torch-requirement` checks it
    if not required:
        return
    mistakes: dict[str, None] = {}
    extras = ["", *(wheel.metadata.get_all("Provides-Extra", []))]
    for lines in required.values():
        # Lines that agree without their markers also agree in every environment.
        if _contradiction(lines):
            combinations = product(wheel.environments, extras)
            active = dict.fromkeys(
                tuple(line for line in lines if applies(line, *combination)) for combination in combinations
            )
            mistakes |= dict.fromkeys(filter(None, map(_contradiction, active)))
    yield finding("requirements", list(mistakes)[:_SHOWN], f"it requires {counted(len(required), 'other project')}")


def _contradiction(lines: Sequence[Requirement]) -> str | None:
    """Return why no version can satisfy all requirements of one project, or None."""
    for line in lines:
        if line.url and line.url.lower().startswith("file:"):
            return f"Requires-Dist has {line.name} @ {line.url[:80]}, which is a file on one machine"
    if SpecifierSet(",".join(str(line.specifier) for line in lines if line.specifier)).is_unsatisfiable():
        text = " and ".join(dict.fromkeys(f"{line.name}{line.specifier}"[:80] for line in lines))
        return f"Requires-Dist has {text}, which no version satisfies"
    return None


def _check_cuda(wheel: Inspection) -> Iterator[Finding]:
    compute = wheel.compute
    if compute is None or not (compute == "cpu" or names_cuda(compute)):
        return
    lines = {
        line: majors
        for line in wheel.requirements.lines
        if (majors := _cuda_majors(line)) is not None and any(applies(line, where) for where in wheel.environments)
    }
    mistakes = [
        f"the version is for {compute}, but it requires {line}, which is for CUDA {', '.join(map(str, sorted(majors)))}"
        for line, majors in lines.items()
        if compute == "cpu" or cuda_major(compute) not in majors
    ]
    if lines:
        yield finding("cuda-requirement", mistakes, f"{counted(len(lines), 'CUDA package')} can be for {compute}")


def _cuda_majors(line: Requirement) -> set[int] | None:
    """Return the major releases of CUDA that a requirement admits, or None if it is not for a CUDA package."""
    name, known = canonicalize_name(line.name), cuda_packages()
    if found := _SUFFIXED.fullmatch(name):
        return {int(found["major"])}
    if by_extra := {int(found["major"]) for extra in line.extras if (found := _EXTRA.fullmatch(extra.lower()))}:
        return by_extra
    if name in known.by_major:
        return {major for major in _MAJORS if _admits(line.specifier, f">={major}.dev0,<{major + 1}.dev0")}
    if first := known.first_of_13.get(name):
        older = {major for major in _MAJORS if major < _FIRST_WITHOUT_SUFFIX and _admits(line.specifier, f"<{first}")}
        return older | {
            major for major in _MAJORS if major >= _FIRST_WITHOUT_SUFFIX and _admits(line.specifier, f">={first}")
        }
    return None


def _admits(specifiers: SpecifierSet, among: str) -> bool:
    """Return True if a requirement admits a version in a range.

    :param among: specifiers of the range.
    """
    return not (specifiers & SpecifierSet(among)).is_unsatisfiable()


TORCH_REQUIREMENT = Rule(
    name="torch-requirement",
    proves="for every Python and machine of the tags, the `Requires-Dist` lines for torch agree with the local "
    "version: `+cu130.torch2.11` admits only torch 2.11, and `+cu130.torchstable` also the newest torch; the lines do "
    "not contradict each other, have no URL, and pin no torch build for another compute platform",
    leaves_open="requirements of extras; versions that name no torch (`symbols` checks the admitted releases)",
    examine=_check_torch,
)
FRAMEWORK_REQUIREMENT = Rule(
    name="framework-requirement",
    proves="the same for other frameworks: `+cu130.tvmffi0.1` admits only apache-tvm-ffi 0.1, and `+cpu.jaxstable` "
    "also the newest jaxlib",
    leaves_open="the same as `torch-requirement`",
    examine=_check_other_framework,
)
REQUIREMENTS = Rule(
    name="requirements",
    proves="for every Python and machine of the tags and for each extra, the `Requires-Dist` lines for a project do "
    "not contradict each other, as `numpy<1,>2` would; no requirement is a file on one machine",
    leaves_open="whether the versions exist and can be installed together; URLs",
    examine=_check_requirements,
)
CUDA = Rule(
    name="cuda-requirement",
    proves="all required CUDA packages can be for the CUDA release in the version: `+cu130` does not require "
    "`nvidia-cuda-runtime-cu12` or `nvidia-cufft<12`; `+cpu` requires no CUDA package",
    leaves_open="missing CUDA packages: torch requires most of them, and a machine may have a toolkit; requirements of "
    "extras; URLs",
    examine=_check_cuda,
)
