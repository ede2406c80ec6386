"""Frameworks that call a kernel's operators, their releases, and the local versions that name them."""

from wheelsmith.frameworks.framework import Exports, Framework
from wheelsmith.frameworks.known import framework, frameworks
from wheelsmith.frameworks.local_version import (
    STABLE,
    LocalVersion,
    cuda_major,
    cuda_release,
    find_outranked,
    local_version_of,
    names_cuda,
    read_local_version,
)
from wheelsmith.frameworks.torch import TorchRelease, patch_releases, torch_releases, why_incompatible
