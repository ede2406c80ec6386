"""What kernels are compiled for: compute platforms, their toolkits, capabilities, packages and drivers."""

from wheelsmith.platforms.cuda import (
    DEVELOPMENT,
    DRIVER_LIBRARIES,
    CudaPackages,
    CudaToolkit,
    DriverFloor,
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
from wheelsmith.platforms.platform import DeviceCompile, Devices, Driver, Gpu, NotInImageError, Platform, Toolkit

__all__ = [
    "CPU",
    "DEVELOPMENT",
    "DRIVER_LIBRARIES",
    "CudaPackages",
    "CudaToolkit",
    "CxxToolchain",
    "DeviceCompile",
    "Devices",
    "Driver",
    "DriverFloor",
    "Gpu",
    "HeaderLibrary",
    "HostCompilers",
    "NotInImageError",
    "Platform",
    "Toolkit",
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
