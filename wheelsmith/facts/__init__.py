"""What is true of torch and CUDA, read from data files that name their source and date."""

from wheelsmith.facts.host_view import HostView, Sight, host_view
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
from wheelsmith.facts.system_calls import ArgumentIs, CallFilter, CallRule, Way, system_calls

__all__ = [
    "ArgumentIs",
    "CallFilter",
    "CallRule",
    "CudaToolkit",
    "Dependency",
    "DriverFloor",
    "HostView",
    "KnownProjects",
    "PinnedFile",
    "Sight",
    "TorchRelease",
    "Way",
    "bytecode_numbers",
    "cuda_prefix",
    "cuda_toolkits",
    "dependencies",
    "driver_floors",
    "host_view",
    "known_projects",
    "system_calls",
    "torch_prefix",
    "torch_releases",
    "why_incompatible",
]
