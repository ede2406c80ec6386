"""Read the requirements of a wheel, and evaluate them in each environment that its tags allow."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.markers import UndefinedComparison, UndefinedEnvironmentName
from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.tags import Tag
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from wheelsmith.base.errors import WheelError
from wheelsmith.base.zip_archive import Archive
from wheelsmith.wheel.archive import LONGEST_TEXT, info_folder, read_headers

_OLDEST, _NEWEST = 8, 20  # minor releases of Python 3 to try
_PATCHES = 30  # patch releases to try for each minor release of Python and of a framework
_FUTURE_MINORS = 3  # future minor releases of a framework to try
_INTERPRETER = re.compile(r"(?P<kind>cp|pp|py|graalpy)3(?P<minor>\d*)")
_IMPLEMENTATIONS = {"pp": ("PyPy", "pypy"), "graalpy": ("GraalVM", "graalpy")}
_ANY_PLATFORMS = ("linux_x86_64", "linux_aarch64", "macosx_11_0_arm64", "win_amd64")
_SYSTEMS = {
    "linux": ("posix", "linux", "Linux"),
    "macosx": ("posix", "darwin", "Darwin"),
    "win": ("nt", "win32", "Windows"),
}
_MACHINE = re.compile(r"(x86_64|[^_]+)$")
_TORCH_BUILD = re.compile(
    r"(?:cpu|xpu|cu\d{2,4}|rocm[\d.]*)(?![^.])"
)  # start of the local versions of torch's own builds

# Marker → value.
Environment = dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class WheelRequirements:
    """The Requires-Dist lines of a wheel.

    :param mistakes: lines that cannot be read.
    """

    lines: tuple[Requirement, ...]
    mistakes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameworkRequirement:
    """The combined requirement of all Requires-Dist lines for a framework.

    :param text: for messages, e.g. ``torch>=2.11,<2.12``.
    :param releases: known releases (``major.minor``) that the requirement admits in any environment, ascending.
    :param unknown_releases: descriptions of other releases that it admits, e.g. ``later than 2.15``.
    :param environments_without: descriptions of the environments that do not require the framework.
    :param builds: compute platforms of the pinned builds: ``cu130`` for ``torch==2.11.0+cu130``.
    :param mistakes: reasons why no release fits, or why the admitted releases are unknown.
    """

    text: str
    releases: tuple[str, ...]
    unknown_releases: tuple[str, ...]
    environments_without: tuple[str, ...]
    builds: tuple[str, ...]
    mistakes: tuple[str, ...]


def read_requirements(values: Sequence[str]) -> WheelRequirements:
    """Parse the values of Requires-Dist."""
    lines, mistakes = [], []
    for value in values:
        try:
            lines.append(Requirement(value))
        except (InvalidRequirement, ValueError) as error:
            mistakes.append(f"Requires-Dist {value[:80]!r} cannot be read: {str(error).splitlines()[0][:200]}")
    return WheelRequirements(lines=tuple(lines), mistakes=tuple(mistakes))


def parse_requires_python(value: str | None) -> SpecifierSet | None:
    """Parse the value of Requires-Python. Return None if it cannot be read."""
    try:
        return SpecifierSet(value or "")
    except InvalidSpecifier:
        return None


def environments(tags: Iterable[Tag], allowed: SpecifierSet) -> list[Environment]:
    """Return the environments that a wheel's tags and Requires-Python allow: one for each Python and machine."""
    found = {
        tuple(environment.items()): environment
        for tag in tags
        for python in _pythons(tag, allowed)
        for environment in _with_machines(python, tag.platform)
    }
    return list(found.values())


def applies(line: Requirement, environment: Environment, extra: str = "") -> bool:
    """Return True if a requirement applies in an environment."""
    try:
        return line.marker is None or line.marker.evaluate({**environment, "extra": extra})
    except (UndefinedComparison, UndefinedEnvironmentName, InvalidVersion):
        return False


def requirements_for(project: str, lines: Iterable[Requirement]) -> list[Requirement]:
    """Return the requirements of one project."""
    return [line for line in lines if canonicalize_name(line.name) == project]


def framework_requirement(
    project: str,
    lines: Iterable[Requirement],
    allowed: Sequence[Environment],
    known: Sequence[str],
    prereleases: Sequence[str] = (),
) -> FrameworkRequirement | None:
    """Return the combined requirement for a framework, or None if no environment requires it.

    :param allowed: the environments that the wheel's tags allow.
    :param known: releases of the framework, as ``major.minor``, in ascending order.
    :param prereleases: known pre-releases.
    """
    needs = requirements_for(project, lines)
    active = [[need for need in needs if applies(need, where)] for where in allowed]
    together = {
        str(specifiers): specifiers
        for each in active
        if each
        for specifiers in [SpecifierSet(",".join(str(need.specifier) for need in each if need.specifier))]
    }
    if not together:
        return None
    mistakes = [
        f"{project} is required from a URL, so its release is unknown" for each in active for n in each if n.url
    ]
    admitted: dict[str, None] = {}
    for text, specifiers in together.items():
        releases = _admitted_releases(specifiers, known)
        admitted |= dict.fromkeys(releases)
        mistakes += [] if releases else [f"no release satisfies {project}{text}"]
    return FrameworkRequirement(
        text=" or ".join(f"{project}{text}" for text in list(together)[:3]),
        releases=tuple(release for release in (*known, *prereleases) if release in admitted),
        unknown_releases=tuple(release for release in admitted if release not in {*known, *prereleases}),
        environments_without=tuple(_describe(where) for where, each in zip(allowed, active, strict=True) if not each),
        builds=tuple(build for specifiers in together.values() for build in _pinned_builds(specifiers)),
        mistakes=tuple(dict.fromkeys(mistakes)),
    )


def active_requirements(wheel: Path, python: str, arch: str) -> tuple[str, ...]:
    """Return the requirements of a wheel that apply to a Python on Linux, without extras.

    :param python: ``major.minor``.
    :raises WheelError: they cannot be read, or an index cannot provide them.
    """
    with Archive(wheel) as archive:
        headers = read_headers(archive.read(f"{info_folder(archive)}/METADATA", LONGEST_TEXT))
    requirements = read_requirements(headers.get_all("Requires-Dist", []))
    if requirements.mistakes:
        raise WheelError(f"{wheel.name} cannot be installed: {requirements.mistakes[0]}")
    tag = Tag(f"cp{python.removesuffix('t').replace('.', '')}", "none", f"linux_{arch}")
    (environment,) = environments((tag,), SpecifierSet())
    lines = [line for line in requirements.lines if applies(line, environment)]
    if named := [line.name for line in lines if line.url]:
        raise WheelError(f"{wheel.name} requires {named[0]} from a URL, not from an index")
    return tuple(dict.fromkeys(str(line).partition(";")[0].strip() for line in lines))


def _pythons(tag: Tag, allowed: SpecifierSet) -> Iterator[Environment]:
    """Yield one Python for each minor release that a tag and Requires-Python allow."""
    match = _INTERPRETER.fullmatch(tag.interpreter)
    if not match:
        return
    first = int(match["minor"] or _OLDEST)
    # Later Pythons can install a wheel for the stable ABI, or with a tag like py311-none.
    later = tag.abi.startswith("abi3") or (tag.abi == "none" and match["kind"] == "py") or not match["minor"]
    name, short = _IMPLEMENTATIONS.get(match["kind"], ("CPython", "cpython"))
    for minor in range(first, max(_NEWEST, first) + 1) if later else (first,):
        for version in allowed.filter(f"3.{minor}.{patch}" for patch in range(_PATCHES)):
            yield {
                "implementation_name": short,
                "implementation_version": version,
                "platform_python_implementation": name,
                "python_full_version": version,
                "python_version": f"3.{minor}",
            }
            break


def _with_machines(python: Environment, platform: str) -> Iterator[Environment]:
    for name in _ANY_PLATFORMS if platform == "any" else (platform,):
        os_name, sys_platform, system = next((_SYSTEMS[key] for key in _SYSTEMS if key in name), _SYSTEMS["linux"])
        machine = _MACHINE.search(name)
        yield {
            **python,
            "os_name": os_name,
            "sys_platform": sys_platform,
            "platform_system": system,
            "platform_machine": "AMD64" if name == "win_amd64" else machine[1] if machine else "",
            "platform_release": "",
            "platform_version": "",
        }


def _admitted_releases(specifiers: SpecifierSet, known: Sequence[str]) -> list[str]:
    """Return the releases that a requirement admits; a description replaces unknown ones."""
    (major, first), (_, last) = (Version(release).release for release in (known[0], known[-1]))
    older = f"older than {known[0]}"
    later = f"later than {known[-1]}"
    candidates = {f"{major - 1}.99.0": older, f"{major + 1}.0.0": later, f"{major + 99}.0.0": later}
    candidates |= {f"{major}.{minor}.0": older for minor in range(first)}
    candidates |= {f"{major}.{minor}.0": later for minor in range(last + 1, last + 1 + _FUTURE_MINORS)}
    candidates |= {f"{release}.{patch}": release for release in known for patch in range(_PATCHES)}
    for specifier in specifiers:
        # A pin may name a local version, a post-release or a pre-release.
        if specifier.operator in {"==", "==="} and "*" not in specifier.version:
            version = Version(specifier.version)
            minor = ".".join(map(str, version.release[:2]))
            unknown = version.public if version.is_prerelease else specifier.version
            candidates[specifier.version] = minor if minor in known and not version.is_prerelease else unknown
    found = (name for version, name in candidates.items() if specifiers.contains(version, prereleases=True))
    return list(dict.fromkeys(found))


def _pinned_builds(specifiers: SpecifierSet) -> Iterator[str]:
    for specifier in specifiers:
        local = specifier.version.partition("+")[2]
        if specifier.operator in {"==", "==="} and (build := _TORCH_BUILD.match(local)):
            yield build[0]


def _describe(environment: Environment) -> str:
    return f"Python {environment['python_version']} on {environment['sys_platform']} {environment['platform_machine']}"
