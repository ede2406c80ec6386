"""Find the GPU toolkit of this machine, for platforms whose toolkits are not on a package index."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from wheelsmith.engine.backend import survey
from wheelsmith.model import BuildHost
from wheelsmith.model.build_host import ToolkitHome


def with_installed_toolkit(build_host: BuildHost, platform: str) -> BuildHost:
    """Add the toolkit of this machine for a platform, if there is one. The survey of an image has it already."""
    if build_host.image or platform not in _SURVEYS:
        return build_host
    found = _find(platform)
    return replace(build_host, toolkits={platform: found} if found else {})


_SURVEYS = {"rocm": survey.rocm}


@cache
def _find(platform: str) -> ToolkitHome | None:
    found = _SURVEYS[platform]()
    return ToolkitHome.from_json(found) if found else None
