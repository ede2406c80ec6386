"""Check the handlers of a library: python check_jax_handlers.py LIBRARY OUTPUT FFI FUNCTION...

The script runs in the sandbox of a build. It asks each handler for the version of the FFI in its headers, as XLA does
when it registers a handler. FFI is the newest allowed version, e.g. ``0.1``, and OUTPUT is the file to create.

The structures are those of xla/ffi/api/c_api.h. Their sizes end at the last field that a handler with the oldest
headers knows, because handlers accept no other size.
"""

from __future__ import annotations

import ctypes
import sys
from ctypes import POINTER, Structure, c_int, c_int32, c_int64, c_size_t, c_void_p
from pathlib import Path

_UNSET = -1  # a handler writes its version over it
_METADATA = 1  # the type of the extension that asks a handler for its metadata


class Version(Structure):
    """XLA_FFI_Api_Version."""

    _fields_ = (("size", c_size_t), ("extensions", c_void_p), ("major", c_int), ("minor", c_int))


class Metadata(Structure):
    """XLA_FFI_Metadata."""

    _fields_ = (("size", c_size_t), ("version", Version), ("traits", c_int32), ("state", c_int64 * 4))


class MetadataExtension(Structure):
    """XLA_FFI_Metadata_Extension."""

    _fields_ = (("size", c_size_t), ("type", c_int), ("next", c_void_p), ("metadata", POINTER(Metadata)))


class CallFrame(Structure):
    """XLA_FFI_CallFrame. Only the first two fields have values."""

    _fields_ = (("size", c_size_t), ("extensions", POINTER(MetadataExtension)), ("rest", c_void_p * 64))


def read_ffi_version(handler: ctypes._NamedFuncPointer) -> tuple[int, int] | None:
    """Return the version of the FFI that a handler was compiled for, or None if the function is no handler."""
    metadata = Metadata(size=36, version=Version(size=ctypes.sizeof(Version), minor=_UNSET))
    extension = MetadataExtension(size=32, type=_METADATA, metadata=ctypes.pointer(metadata))
    handler.restype = c_void_p
    if handler(ctypes.byref(CallFrame(size=168, extensions=ctypes.pointer(extension)))):
        return None
    if metadata.version.minor == _UNSET:
        return None
    return metadata.version.major, metadata.version.minor


def check_handlers(library: str, newest: str, functions: list[str]) -> None:
    """Exit with a message if a function is missing or was compiled for a newer FFI."""
    loaded = ctypes.CDLL(library)
    for name in functions:
        handler = getattr(loaded, name, None)
        if handler is None:
            sys.exit(f"the library does not export {name}: define it with XLA_FFI_DEFINE_HANDLER_SYMBOL")
        found = read_ffi_version(handler)
        if found is None:
            sys.exit(f"{name} is not a handler of XLA: define it with XLA_FFI_DEFINE_HANDLER_SYMBOL")
        if found > tuple(map(int, newest.split("."))):
            sys.exit(
                f"{name} was compiled with headers of XLA FFI {found[0]}.{found[1]}, but the oldest supported jaxlib "
                f"has {newest}: remove xla/ffi/api from the sources, or name a newer release as stable-abi"
            )


def read_machine(path: str) -> bytes:
    """Return the CPU architecture of an ELF file, as its header encodes it."""
    with Path(path).open("rb") as file:
        return file.read(20)[18:]


if __name__ == "__main__":
    _library, _output, _newest, *_functions = sys.argv[1:]
    # A library for another CPU architecture cannot be loaded here.
    if read_machine(_library) == read_machine(sys.executable):
        check_handlers(_library, _newest, _functions)
    Path(_output).touch()
