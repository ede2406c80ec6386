"""Check that a wheel's requirements agree with each other and with its version."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import product

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from wheelsmith.base.units import counted
from wheelsmith.frameworks import STABLE, cuda_major, framework, names_cuda
from wheelsmith.model import TORCH
from wheelsmith.platforms import cuda_packages
from wheelsmith.wheel.inspection import Inspection
from wheelsmith.wheel.report import Finding, finding
from wheelsmith.wheel.requirements import FrameworkRequirement, holds
from wheelsmith.wheel.rules.rule import Rule

_SHOWN = 10  # mistakes
# Such as nvidia-cublas-cu12, cupy-cuda13x, tensorrt-cu12-libs or jax-cuda12-plugin.
_SUFFIXED = re.compile(r".+?-cu(?:da)?(?P<major>1\d)(?:\dx?|x)?(?:-[a-z]+)*")
_EXTRA = re.compile(r"cu(?:da)?-?(?P<major>1\d)(?:\d|x)?")  # cuda-core[cu12], jax[cuda12]
_MAJORS = range(11, 15)  # of CUDA
_COUNTED = 13  # the first CUDA release with package names without -cu13


def _torch(wheel: Inspection) -> Iterator[Finding]:
    requirement = wheel.torch_requirement
    if requirement or wheel.named_torch or wheel.local_version.stable:
        yield _framework("torch-requirement", wheel, TORCH, requirement)


def _other_framework(wheel: Inspection) -> Iterator[Finding]:
    named = wheel.local_version
    if named.framework != TORCH and named.release:
        requirement = wheel.framework_requirement(named.framework)
        yield _framework("framework-requirement", wheel, named.framework, requirement)


def _framework(rule: str, wheel: Inspection, name: str, requirement: FrameworkRequirement | None) -> Finding:
    """Compare the requirement for a framework with the release and the compute platform in the version."""
    version = wheel.local_version
    release = version.release if version.framework == name else None
    said = f"the version says {STABLE if version.stable else f'{name} {release}'}"
    if requirement is None:
        return finding(rule, [f"{said}, and no {framework(name).project} is required"], "")
    wrong = list(requirement.wrong)
    required = f"Requires-Dist says {requirement.text}"
    others = [*(each for each in requirement.releases if each != release), *requirement.beyond]
    if release and others:
        wrong.append(f"{said}, {required}, which may be {', '.join(others[:3])}")
    if release and requirement.absent:
        wrong.append(f"{said}, and none is required for {requirement.absent[0]}")
    newest = list(framework(name).releases())[-1]
    if version.stable and not wrong and newest not in requirement.releases and not requirement.beyond:
        wrong.append(f"{said}, {required}, which leaves out {name} {newest}")
    wrong += [
        f"the version says {wheel.compute}, {required}, which is {name} for {build}"
        for build in requirement.builds
        if not build.startswith(wheel.compute or "")
    ]
    also = f" ({', '.join(requirement.beyond)} too)" if requirement.beyond else ""
    return finding(
        rule, wrong, f"Requires-Dist: {requirement.text}: {', '.join(requirement.releases) or 'no known'}{also}"
    )


def _together(wheel: Inspection) -> Iterator[Finding]:
    required: dict[str, list[Requirement]] = {}
    for line in wheel.requirements.lines:
        required.setdefault(canonicalize_name(line.name), []).append(line)
    required.pop(TORCH, None)  # `torch-requirement` judges it
    if not required:
        return
    wrong: dict[str, None] = {}
    extras = ["", *(wheel.metadata.get_all("Provides-Extra", []))]
    for lines in required.values():
        # Lines that agree without their markers also agree in every environment.
        if _contradiction(lines):
            ways = product(wheel.environments, extras)
            active = dict.fromkeys(tuple(line for line in lines if holds(line, *way)) for way in ways)
            wrong |= dict.fromkeys(filter(None, map(_contradiction, active)))
    yield finding("requirements", list(wrong)[:_SHOWN], f"it requires {counted(len(required), 'other project')}")


def _contradiction(lines: Sequence[Requirement]) -> str | None:
    """Return why no version can satisfy all requirements of one project, or None."""
    for line in lines:
        if line.url and line.url.lower().startswith("file:"):
            return f"Requires-Dist says {line.name} @ {line.url[:80]}: that is a file of one machine"
    if SpecifierSet(",".join(str(line.specifier) for line in lines if line.specifier)).is_unsatisfiable():
        text = " and ".join(dict.fromkeys(f"{line.name}{line.specifier}"[:80] for line in lines))
        return f"Requires-Dist says {text}: no version is all of that"
    return None


def _cuda(wheel: Inspection) -> Iterator[Finding]:
    compute = wheel.compute
    if compute is None or not (compute == "cpu" or names_cuda(compute)):
        return
    lines = {
        line: majors
        for line in wheel.requirements.lines
        if (majors := _cuda_majors(line)) is not None and any(holds(line, where) for where in wheel.environments)
    }
    wrong = [
        f"the version says {compute}, and it requires {line}, which is for CUDA {', '.join(map(str, sorted(majors)))}"
        for line, majors in lines.items()
        if compute == "cpu" or cuda_major(compute) not in majors
    ]
    if lines:
        yield finding("cuda-requirement", wrong, f"{counted(len(lines), 'package')} of CUDA may be of that CUDA")


def _cuda_majors(line: Requirement) -> set[int] | None:
    """Return the major releases of CUDA that a requirement admits, or None if it is not for a CUDA package."""
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
    """Return True if a requirement admits a version in a range.

    :param among: specifiers of the range.
    """
    return not (specifiers & SpecifierSet(among)).is_unsatisfiable()


TORCH_REQUIREMENT = Rule(
    name="torch-requirement",
    proves="all `Requires-Dist` lines for torch together, for every Python and machine that the tags allow, admit what "
    "the local version names: `+cu130.torch2.11` requires 2.11 and no other, `+cu130.torchstable` the newest too; they "
    "do not contradict each other, name no URL and pin no build of torch for another compute platform",
    leaves_open="what an extra requires; a version that names no torch is judged by `symbols`, which asks the releases "
    "that are admitted",
    examine=_torch,
)
FRAMEWORK_REQUIREMENT = Rule(
    name="framework-requirement",
    proves="the same of other frameworks: `+cu130.tvmffi0.1` requires apache-tvm-ffi 0.1 and no other minor",
    leaves_open="as `torch-requirement`",
    examine=_other_framework,
)
TOGETHER = Rule(
    name="requirements",
    proves="no project is required in versions that contradict each other, all `Requires-Dist` lines for it together, "
    "for every Python and machine that the tags allow and for each extra: no version is `numpy<1,>2`; none is a file "
    "of one machine",
    leaves_open="whether such a version was ever published, and whether two projects can be installed together; "
    "requirements by URL",
    examine=_together,
)
CUDA = Rule(
    name="cuda-requirement",
    proves="where the version names a CUDA, each package of NVIDIA's and each project that is named for a CUDA may be "
    "of that one: `+cu130` requires no `nvidia-cuda-runtime-cu12` and no `nvidia-cufft<12`, which is CUDA 12's; `+cpu` "
    "requires nothing that is named for a CUDA",
    leaves_open="which packages of CUDA a wheel needs: torch brings most of them, and a machine may have a toolkit; "
    "what an extra requires; requirements by URL",
    examine=_cuda,
)
