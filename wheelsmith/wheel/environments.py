"""The environments that a wheel's tags let it into, as requirement markers ask of them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from packaging.specifiers import SpecifierSet
from packaging.tags import Tag

# Minors of Python 3: the oldest that the torch releases known here ran on, and more than there will be for years.
_OLDEST, _NEWEST = 8, 20
# A marker may draw its line between two patch releases.
_PATCHES = (0, 99)
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


def environments(tags: Iterable[Tag], requires_python: SpecifierSet) -> list[Environment]:
    """Return one set of marker values for each Python and machine that the tags and Requires-Python allow."""
    found: dict[tuple[tuple[str, str], ...], Environment] = {}
    for tag in tags:
        for python in _pythons(tag):
            if requires_python.contains(python["python_full_version"], prereleases=True):
                for machine in _machines(tag.platform):
                    environment = {**python, **machine, "extra": ""}
                    found[tuple(sorted(environment.items()))] = environment
    return list(found.values())


def _pythons(tag: Tag) -> Iterator[Environment]:
    match = _INTERPRETER.match(tag.interpreter)
    if not match or match["major"] != "3":
        return
    named = int(match["minor"]) if match["minor"] else None
    # A wheel for one Python serves later ones, when it is for the stable ABI or for none.
    later = tag.abi.startswith("abi3") or tag.abi == "none"
    first = _OLDEST if named is None else named
    name, short = _IMPLEMENTATIONS.get(match["kind"], ("CPython", "cpython"))
    for minor in range(first, max(_NEWEST, first) + 1) if later or named is None else (first,):
        for patch in _PATCHES:
            yield {
                "implementation_name": short,
                "implementation_version": f"3.{minor}.{patch}",
                "platform_python_implementation": name,
                "python_full_version": f"3.{minor}.{patch}",
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
