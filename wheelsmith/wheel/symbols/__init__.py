"""The exported symbols of torch, CUDA, the platform and Python."""

from wheelsmith.wheel.symbols.libraries import LibraryExports, cuda_exports, platform_exports, python_exports
from wheelsmith.wheel.symbols.torch import (
    SymbolTable,
    TorchLibrary,
    fingerprint,
    prerelease_table,
    read_table,
    symbol_table,
)
