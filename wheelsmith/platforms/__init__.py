"""Compute platforms: toolkits, GPU architectures, packages and drivers."""

from wheelsmith.platforms.cpu_features import features_of_flags, machine_features
from wheelsmith.platforms.cuda import (
    DEVELOPMENT,
    DRIVER_LIBRARIES,
    CudaToolkit,
    cuda_drivers,
    cuda_folder,
    cuda_packages,
    cuda_prefix,
    cuda_toolkits,
    cuda_version_of,
    parse_capability,
)
from wheelsmith.platforms.header_libraries import HeaderLibrary, header_libraries, header_library, python_headers
from wheelsmith.platforms.host_compilers import CxxToolchain, HostCompilers, cxx_toolchain, cxx_toolchains, gcc_folder
from wheelsmith.platforms.known import (
    CPU,
    capability_order,
    check_capability,
    compute_name,
    compute_order,
    compute_shape,
    platform_name,
    platform_of,
    platforms,
)
from wheelsmith.platforms.platform import DeviceCompile, Devices, Gpu, GpuMemory, NotInstalledError, Platform
from wheelsmith.platforms.rocm import Rocm, amd_processor, is_runtime_library, runtime_library
