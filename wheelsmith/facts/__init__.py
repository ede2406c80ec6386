"""What is true of torch and CUDA, read from data files that name their source and date."""

from wheelsmith.facts.load import (
    CudaToolkit,
    Dependency,
    DriverFloor,
    KnownProjects,
    PinnedFile,
    TorchRelease,
    bytecode_numbers,
    cuda_prefix,
    cuda_toolkits,
    dependencies,
    driver_floors,
    known_projects,
    torch_prefix,
    torch_releases,
    why_incompatible,
)

__all__ = [
    "CudaToolkit",
    "Dependency",
    "DriverFloor",
    "KnownProjects",
    "PinnedFile",
    "TorchRelease",
    "bytecode_numbers",
    "cuda_prefix",
    "cuda_toolkits",
    "dependencies",
    "driver_floors",
    "known_projects",
    "torch_prefix",
    "torch_releases",
    "why_incompatible",
]
