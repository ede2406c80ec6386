"""Frameworks that call a kernel's operators, their releases, and the local versions that name them."""

from wheelsmith.frameworks.framework import Exports, Framework, LoaderInputs
from wheelsmith.frameworks.known import framework, frameworks
from wheelsmith.frameworks.local_version import (
    LocalVersion,
    cuda_major,
    cuda_release,
    find_outranked,
    local_version_of,
    names_cuda,
    read_local_version,
)
from wheelsmith.frameworks.torch import (
    HIPIFIED,
    HIPIFY,
    Torch,
    TorchRelease,
    facts_folder,
    facts_path,
    patch_releases,
    read_prerelease_facts,
    torch_releases,
    why_incompatible,
)
from wheelsmith.frameworks.torch_index import (
    NIGHTLY,
    TORCH_INDEX,
    TORCH_INDEX_VARIABLE,
    prerelease_index,
    prerelease_indexes,
    read_prerelease,
    torch_index,
)
