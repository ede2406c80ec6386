"""Find the compilers and GPU toolkits of this machine, for cells whose compilers no package contains.

The survey of this machine does not include them, because hashing them takes a while. That of an image does.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from wheelsmith.engine.backend import survey
from wheelsmith.model import BuildHost
from wheelsmith.model.build_host import ToolkitHome, Toolset

# PATH of commands. The user's PATH and /usr/local are not visible in a sandbox.
SYSTEM_PROGRAMS = "/usr/bin:/bin"


def with_installed_toolset(build_host: BuildHost, arch: str) -> BuildHost:
    """Add the C++ compilers of this machine for an architecture, if there are any."""
    if build_host.image or build_host.toolset(arch):
        return build_host
    found = _find_toolset(arch, SYSTEM_PROGRAMS)
    return replace(build_host, toolsets=(found,) if found else ())


def with_installed_toolkit(build_host: BuildHost, platform: str) -> BuildHost:
    """Add the toolkit of this machine for a platform whose toolkits are not on a package index, if there is one."""
    if build_host.image or platform not in _SURVEYS:
        return build_host
    found = _find_toolkit(platform)
    return replace(build_host, toolkits={platform: found} if found else {})


_SURVEYS = {"rocm": survey.rocm}


@cache
def _find_toolset(arch: str, programs: str) -> Toolset | None:
    found = survey.toolset(arch, programs)
    return Toolset.from_json(found) if found else None


@cache
def _find_toolkit(platform: str) -> ToolkitHome | None:
    found = _SURVEYS[platform]()
    return ToolkitHome.from_json(found) if found else None
