"""The exports of the libraries that wheels may use: torch's, CUDA's, the platform's and Python's."""

from wheelsmith.wheel.symbols.libraries import LibraryExports, cuda_exports, platform_exports, python_exports
from wheelsmith.wheel.symbols.torch import SymbolTable, TorchLibrary, fingerprint, read_table, symbol_table
