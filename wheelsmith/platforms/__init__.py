"""What kernels are compiled for: CUDA, its toolkits, capabilities, packages and drivers."""

from wheelsmith.platforms.cuda import (
    CudaPackages,
    CudaToolkit,
    DriverFloor,
    cuda_of,
    cuda_packages,
    cuda_prefix,
    cuda_toolkits,
    driver_floors,
    parse_capability,
)

__all__ = [
    "CudaPackages",
    "CudaToolkit",
    "DriverFloor",
    "cuda_of",
    "cuda_packages",
    "cuda_prefix",
    "cuda_toolkits",
    "driver_floors",
    "parse_capability",
]
