"""What kernels are compiled for: compute platforms, their toolkits, capabilities, packages and drivers."""

from wheelsmith.platforms.cuda import (
    CudaPackages,
    CudaToolkit,
    DriverFloor,
    cuda_of,
    cuda_packages,
    cuda_prefix,
    cuda_toolkits,
    driver_floors,
)
from wheelsmith.platforms.cuda_capabilities import parse_capability
from wheelsmith.platforms.header_libraries import HeaderLibrary, header_libraries
from wheelsmith.platforms.known import CPU, compute_name, compute_order, platform_of, platforms
from wheelsmith.platforms.platform import DeviceCompile, Platform, Toolkit

__all__ = [
    "CPU",
    "CudaPackages",
    "CudaToolkit",
    "DeviceCompile",
    "DriverFloor",
    "HeaderLibrary",
    "Platform",
    "Toolkit",
    "compute_name",
    "compute_order",
    "cuda_of",
    "cuda_packages",
    "cuda_prefix",
    "cuda_toolkits",
    "driver_floors",
    "header_libraries",
    "parse_capability",
    "platform_of",
    "platforms",
]
