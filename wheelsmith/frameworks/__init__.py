"""What calls a kernel's operators: frameworks, their releases, and how a version names them."""

from wheelsmith.frameworks.framework import Exports, Framework, Release
from wheelsmith.frameworks.known import framework, frameworks
from wheelsmith.frameworks.local_version import (
    STABLE,
    LocalVersion,
    cuda_major,
    cuda_release,
    local_version_of,
    names_cuda,
    outranked,
    read_local_version,
)
from wheelsmith.frameworks.torch import TorchRelease, patches_of, torch_releases, why_incompatible

__all__ = [
    "STABLE",
    "Exports",
    "Framework",
    "LocalVersion",
    "Release",
    "TorchRelease",
    "cuda_major",
    "cuda_release",
    "framework",
    "frameworks",
    "local_version_of",
    "names_cuda",
    "outranked",
    "patches_of",
    "read_local_version",
    "torch_releases",
    "why_incompatible",
]
