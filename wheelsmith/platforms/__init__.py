"""What kernels are compiled for: compute platforms, their toolkits, capabilities, packages and drivers."""

from wheelsmith.platforms.cuda import (
    DEVELOPMENT,
    DRIVER_LIBRARIES,
    CudaToolkit,
    cuda_folder,
    cuda_of,
    cuda_packages,
    cuda_prefix,
    cuda_toolkits,
    driver_floors,
    parse_capability,
)
from wheelsmith.platforms.header_libraries import HeaderLibrary, header_libraries, header_library, python_headers
from wheelsmith.platforms.host_compilers import CxxToolchain, HostCompilers, cxx_toolchain, cxx_toolchains
from wheelsmith.platforms.known import CPU, compute_name, compute_order, platform_of, platforms
from wheelsmith.platforms.platform import DeviceCompile, Devices, Gpu, NotInImageError, Platform

__all__ = [
    "CPU",
    "DEVELOPMENT",
    "DRIVER_LIBRARIES",
    "CudaToolkit",
    "CxxToolchain",
    "DeviceCompile",
    "Devices",
    "Gpu",
    "HeaderLibrary",
    "HostCompilers",
    "NotInImageError",
    "Platform",
    "compute_name",
    "compute_order",
    "cuda_folder",
    "cuda_of",
    "cuda_packages",
    "cuda_prefix",
    "cuda_toolkits",
    "cxx_toolchain",
    "cxx_toolchains",
    "driver_floors",
    "header_libraries",
    "header_library",
    "parse_capability",
    "platform_of",
    "platforms",
    "python_headers",
]
