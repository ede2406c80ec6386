"""The environments that a wheel's tags let it into, as requirement markers ask of them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from packaging.markers import UndefinedComparison, UndefinedEnvironmentName
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.tags import Tag
from packaging.version import InvalidVersion

# Minors of Python 3: the oldest that the torch releases known here ran on, and more than there will be for years.
_OLDEST, _NEWEST = 8, 20
# A marker may draw its line between two patch releases: then it names one.
_PATCHES = (0, 99)
_FULL = re.compile(r"(?<![\d.])3\.(?P<minor>\d{1,3})(?:\.(?P<patch>\d{1,6}))?(?P<early>(?:a|b|rc)\d{1,3})?")
_EARLY = re.compile(r"[a-z].*")
# As packaging writes a marker, whichever of the two stands first.
EXTRA = re.compile(r'\bextra == "([^"]+)"|"([^"]+)" == extra\b')
MOST_NAMED = 40  # versions of Python that are followed
_INTERPRETER = re.compile(r"(?P<kind>cp|pp|py|graalpy)(?P<major>\d)(?P<minor>\d*)")
_IMPLEMENTATIONS = {"pp": ("PyPy", "pypy"), "graalpy": ("GraalVM", "graalpy")}
_ANY = ("linux_x86_64", "linux_aarch64", "macosx_11_0_arm64", "win_amd64")
_SYSTEMS = {
    "linux": ("posix", "linux", "Linux"),
    "macosx": ("posix", "darwin", "Darwin"),
    "win": ("nt", "win32", "Windows"),
}
_MACHINES = ("x86_64", "aarch64", "arm64", "i686", "ppc64le", "s390x", "armv7l", "riscv64", "universal2")

Environment = dict[str, str]


def environments(
    tags: Iterable[Tag], requires_python: SpecifierSet, named: Iterable[tuple[int, str]] = ()
) -> list[Environment]:
    """Return one set of marker values for each Python and machine that the tags and Requires-Python allow.

    :param named: more versions of Python to try, as ``named_pythons`` returns them.
    """
    more = list(named)
    found: dict[tuple[tuple[str, str], ...], Environment] = {}
    for tag in tags:
        for python in _pythons(tag, more):
            # pip asks Requires-Python of the three numbers alone, and so lets a release candidate in.
            if requires_python.contains(_EARLY.sub("", python["python_full_version"]), prereleases=True):
                for machine in _machines(tag.platform):
                    environment = {**python, **machine, "extra": ""}
                    found[tuple(sorted(environment.items()))] = environment
    return list(found.values())


def holds(line: Requirement, environment: Environment) -> bool:
    """Say whether an installer asks for a required project in an environment."""
    try:
        return line.marker is None or line.marker.evaluate(environment)
    except (UndefinedComparison, UndefinedEnvironmentName, InvalidVersion, ValueError, RecursionError):
        return False  # no installer gets as far


def named_extras(lines: Iterable[Requirement]) -> list[str]:
    """Return the extras that the lines' markers ask for."""
    found = (EXTRA.finditer(str(line.marker)) for line in lines if line.marker)
    return list(dict.fromkeys(match[1] or match[2] for matches in found for match in matches))


def named_pythons(texts: Iterable[str]) -> list[tuple[int, str]]:
    """Return each version of Python that markers or specifiers name, and those next to it: minor, and the whole."""
    found: dict[tuple[int, str], None] = {}
    for text in texts:
        for match in _FULL.finditer(text):
            minor, patch = int(match["minor"]), int(match["patch"] or 0)
            if match["early"]:
                found[minor, f"3.{minor}.{patch}{match['early']}"] = None
            if match["patch"]:
                found.update({(minor, f"3.{minor}.{near}"): None for near in range(max(patch - 1, 0), patch + 2)})
    return list(found)


def _pythons(tag: Tag, more: Iterable[tuple[int, str]]) -> Iterator[Environment]:
    match = _INTERPRETER.match(tag.interpreter)
    if not match or match["major"] != "3":
        return
    named = int(match["minor"]) if match["minor"] else None
    # A wheel for one Python serves later ones, when it is for the stable ABI, or tagged py311-none; cp311-none is for
    # that one alone: `packaging.tags.compatible_tags`.
    later = tag.abi.startswith("abi3") or (tag.abi == "none" and match["kind"] == "py")
    first = _OLDEST if named is None else named
    name, short = _IMPLEMENTATIONS.get(match["kind"], ("CPython", "cpython"))
    for minor in range(first, max(_NEWEST, first) + 1) if later or named is None else (first,):
        versions = [f"3.{minor}.{patch}" for patch in _PATCHES] + [full for of, full in more if of == minor]
        for version in versions:
            yield {
                "implementation_name": short,
                "implementation_version": version,
                "platform_python_implementation": name,
                "python_full_version": version,
                "python_version": f"3.{minor}",
            }


def _machines(platform: str) -> Iterator[Environment]:
    for name in _ANY if platform == "any" else (platform,):
        kind = next((key for key in _SYSTEMS if key in name), "linux")
        os_name, sys_platform, system = _SYSTEMS[kind]
        machine = next((arch for arch in _MACHINES if name.endswith(arch)), name.rpartition("_")[2])
        machines = {"universal2": ("arm64", "x86_64"), "amd64": ("AMD64",)}.get(machine, (machine,))
        for arch in machines:
            yield {
                "os_name": os_name,
                "sys_platform": sys_platform,
                "platform_system": system,
                "platform_machine": arch,
                # Of the machine itself: no tag says anything of them.
                "platform_release": "",
                "platform_version": "",
            }
