"""Intel GPUs. wheelsmith does not call their compiler: only kernels without compiled code have wheels for them."""

from __future__ import annotations

import re
from functools import cache

from wheelsmith.platforms.platform import Devices, Platform, Toolkit, read_toolkits


@cache
def one_api_toolkits() -> dict[str, Toolkit]:
    """Return every known release of Intel's oneAPI compilers by its ``major.minor``, oldest first."""
    return read_toolkits(__package__, "xpu.json")


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
    compute_shape = r"xpu20\d\d\.\d"
    version_pattern = re.compile(r"20[0-9]{2}\.[0-9]", re.ASCII)
    is_packaged = False
    compiles = False
    builds_projects = False
    section_keys = ("sycl-flags", "", "")
    capability_prefix = "xe"
    devices = IntelDevices()

    def toolkits(self) -> dict[str, Toolkit]:
        """Return every known release."""
        return one_api_toolkits()

    def torch_build(self, version: str) -> str:
        """Return ``xpu``: torch has one build for each of its releases."""
        return self.name
