"""Unpack Debian packages, such as the one with the compilers of CUDA 12.4. Callers compare the hash first."""

from __future__ import annotations

import lzma
import tarfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from wheelsmith.base.errors import ToolchainError

_MAGIC = b"!<arch>\n"
_HEADER_SIZE = 60  # bytes; the name is at 0 to 15, the size at 48 to 57
_DATA = b"data.tar.xz"
_CHUNK = 1 << 20
_NVIDIA_FOLDER = "./usr/lib/nvidia-cuda-toolkit"
# Path in the package → path in a toolkit.
_TOOLKIT_PATHS = {
    f"{_NVIDIA_FOLDER}/bin/nvcc": "bin/nvcc",
    f"{_NVIDIA_FOLDER}/bin/crt/link.stub": "bin/crt/link.stub",
    f"{_NVIDIA_FOLDER}/bin/crt/prelink.stub": "bin/crt/prelink.stub",
    f"{_NVIDIA_FOLDER}/bin/cicc": "nvvm/bin/cicc",
    f"{_NVIDIA_FOLDER}/libdevice/libdevice.10.bc": "nvvm/libdevice/libdevice.10.bc",
    **{f"./usr/bin/{name}": f"bin/{name}" for name in ("bin2c", "cudafe++", "fatbinary", "nvlink", "ptxas")},
}
# This replaces Debian's nvcc.profile, which names Debian's folders.
_NVCC_PROFILE = """
TOP              = $(_HERE_)/..

CICC_PATH        = $(TOP)/nvvm/bin
NVVMIR_LIBRARY_DIR = $(TOP)/nvvm/libdevice

LD_LIBRARY_PATH += $(TOP)/lib:
PATH            += $(CICC_PATH):$(_HERE_):

INCLUDES        +=  "-I$(TOP)/include" $(_SPACE_)

LIBRARIES        =+ $(_SPACE_) "-L$(TOP)/lib64/stubs" "-L$(TOP)/lib64"

CUDAFE_FLAGS    +=
PTXAS_FLAGS     +=
"""


def package_members(package: Path) -> Iterator[tuple[tarfile.TarInfo, Iterator[bytes]]]:
    """Yield the files, folders and links of a package. The content of each must be read before the next.

    :raises ToolchainError: it cannot be unpacked.
    """
    with _wrap_errors(package), package.open("rb") as file:
        _seek_to_data(file)
        with tarfile.open(fileobj=file, mode="r|xz") as archive:
            for member in archive:
                yield member, _read_chunks(package, archive, member)


def write_member(member: tarfile.TarInfo, content: Iterable[bytes], path: Path) -> None:
    """Write a file of a package. Its mode is 755 if it is executable and 644 otherwise."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as target:
        target.writelines(content)
    path.chmod(0o755 if member.mode & 0o111 else 0o644)


def _read_chunks(package: Path, archive: tarfile.TarFile, member: tarfile.TarInfo) -> Iterator[bytes]:
    with _wrap_errors(package):
        content = archive.extractfile(member) if member.isreg() else None
        while content and (chunk := content.read(_CHUNK)):
            yield chunk


@contextmanager
def _wrap_errors(package: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, EOFError, ValueError, tarfile.TarError, lzma.LZMAError) as error:
        raise ToolchainError(f"{package.name} cannot be unpacked: {error}") from error


def _seek_to_data(file: BinaryIO) -> None:
    """Seek to the archive with the package's files."""
    if file.read(len(_MAGIC)) != _MAGIC:
        raise ValueError("it is not a Debian package")
    while len(header := file.read(_HEADER_SIZE)) == _HEADER_SIZE:
        if header[:16].rstrip(b" /") == _DATA:
            return
        size = int(header[48:58])
        file.seek(size + size % 2, 1)
    raise ValueError(f"it has no {_DATA.decode()}")


def install_compilers(package: Path, folder: Path) -> None:
    """Write the compilers of a verified package into a toolkit.

    :raises ToolchainError: the package lacks one of them.
    """
    missing = dict(_TOOLKIT_PATHS)
    for member, content in package_members(package):
        if member.isreg() and member.name in missing:
            write_member(member, content, folder / missing.pop(member.name))
    if missing:
        raise ToolchainError(f"{package.name} lacks {', '.join(sorted(missing))}")
    (folder / "bin" / "nvcc.profile").write_text(_NVCC_PROFILE)
