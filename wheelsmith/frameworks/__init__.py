"""What wheels are made for: torch, its releases and what each is built with, and how a version names them."""

from wheelsmith.frameworks.local_version import (
    STABLE,
    LocalVersion,
    cuda_major,
    cuda_release,
    local_version_of,
    outranked,
    read_local_version,
)
from wheelsmith.frameworks.torch_releases import (
    TorchRelease,
    patches_of,
    torch_prefix,
    torch_releases,
    why_incompatible,
)

__all__ = [
    "STABLE",
    "LocalVersion",
    "TorchRelease",
    "cuda_major",
    "cuda_release",
    "local_version_of",
    "outranked",
    "patches_of",
    "read_local_version",
    "torch_prefix",
    "torch_releases",
    "why_incompatible",
]
