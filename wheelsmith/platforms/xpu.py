"""Intel GPUs. wheelsmith does not call their compiler: only kernels without compiled code have wheels for them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from wheelsmith.base.files import read_facts
from wheelsmith.model import StepKind
from wheelsmith.platforms.platform import Devices, Platform, Toolkit

_PREFIX = "xpu"
_RELEASE = re.compile(r"20[0-9]{2}\.[0-9]", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class OneApiToolkit(Toolkit):
    """A release of Intel's oneAPI compilers."""

    @property
    def prefers_image(self) -> bool:
        """True, because no package index has its compilers."""
        return True


@cache
def one_api_toolkits() -> dict[str, OneApiToolkit]:
    """Return every known release by its ``major.minor``, oldest first."""
    known = read_facts(__package__, "xpu.json")["toolkits"]
    return {item["version"]: OneApiToolkit.from_json(item) for item in known}


class IntelDevices(Devices):
    """Intel GPUs, which wheelsmith does not look for: wheels for them contain no code that depends on the GPU."""

    compatibility_rule = "the same release of oneAPI"

    def describe_driver(self, version: str | None) -> str:
        """Return the absence of a driver, in words."""
        return "no known Intel driver"


class Xpu(Platform):
    """Intel GPUs, with the releases of oneAPI that torch was built with."""

    name = "xpu"
    title = "XPU"
    compute_shape = rf"{_PREFIX}20\d\d\.\d"
    version_pattern = _RELEASE
    device_suffixes = ()
    step_kind = StepKind.CXX
    is_packaged = False
    compiles = False
    builds_projects = False
    mount_point = ""
    section_keys = ("sycl-flags", "", "")
    capability_prefix = "xe"
    devices = IntelDevices()

    def toolkits(self) -> dict[str, OneApiToolkit]:
        """Return every known release."""
        return one_api_toolkits()

    def version_of(self, compute: str) -> str | None:
        """Return ``2025.3`` for ``xpu2025.3``."""
        release = compute.removeprefix(_PREFIX)
        return release if release != compute and _RELEASE.fullmatch(release) else None

    def compute(self, version: str) -> str:
        """Return ``xpu2025.3`` for ``2025.3``."""
        return _PREFIX + version

    def torch_build(self, version: str) -> str:
        """Return ``xpu``: torch has one build for each of its releases."""
        return _PREFIX
