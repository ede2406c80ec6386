"""Debian packages that were compared with their pin: their members, and the compilers of CUDA 12.4 among them."""

from __future__ import annotations

import lzma
import tarfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from wheelsmith.base.errors import ToolchainError

_MAGIC = b"!<arch>\n"
_HEADER = 60  # bytes: a name of 16, ten of size from 48 on, two to end it
_CONTENT = b"data.tar.xz"
_CHUNK = 1 << 20
_OWN = "./usr/lib/nvidia-cuda-toolkit"
# Where the package has them → where a toolkit does. Debian's nvcc.profile names folders of its own.
_PLACES = {
    f"{_OWN}/bin/nvcc": "bin/nvcc",
    f"{_OWN}/bin/crt/link.stub": "bin/crt/link.stub",
    f"{_OWN}/bin/crt/prelink.stub": "bin/crt/prelink.stub",
    f"{_OWN}/bin/cicc": "nvvm/bin/cicc",
    f"{_OWN}/libdevice/libdevice.10.bc": "nvvm/libdevice/libdevice.10.bc",
    **{f"./usr/bin/{name}": f"bin/{name}" for name in ("bin2c", "cudafe++", "fatbinary", "nvlink", "ptxas")},
}
_PROFILE = """
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
    """Yield the files, folders and links of a package, each with its content until the next one is asked for.

    :raises ToolchainError: it cannot be unpacked.
    """
    with _explained(package), package.open("rb") as file:
        _find_content(file)
        with tarfile.open(fileobj=file, mode="r|xz") as archive:
            for member in archive:
                yield member, _chunks(package, archive, member)


def write_member(member: tarfile.TarInfo, content: Iterable[bytes], path: Path) -> None:
    """Write a file of a package, with one of two plain modes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as target:
        target.writelines(content)
    path.chmod(0o755 if member.mode & 0o111 else 0o644)


def _chunks(package: Path, archive: tarfile.TarFile, member: tarfile.TarInfo) -> Iterator[bytes]:
    with _explained(package):
        content = archive.extractfile(member) if member.isreg() else None
        while content and (chunk := content.read(_CHUNK)):
            yield chunk


@contextmanager
def _explained(package: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, EOFError, ValueError, tarfile.TarError, lzma.LZMAError) as error:
        raise ToolchainError(f"{package.name} cannot be unpacked: {error}") from error


def _find_content(file: BinaryIO) -> None:
    """Go to where the files of a package begin."""
    if file.read(len(_MAGIC)) != _MAGIC:
        raise ValueError("it is no Debian package")
    while len(header := file.read(_HEADER)) == _HEADER:
        if header[:16].rstrip(b" /") == _CONTENT:
            return
        size = int(header[48:58])
        file.seek(size + size % 2, 1)
    raise ValueError(f"it has no {_CONTENT.decode()}")


def lay_out_compilers(package: Path, folder: Path) -> None:
    """Write the compilers of a package, which is the one that was pinned, into a toolkit.

    :raises ToolchainError: it lacks one.
    """
    lacking = dict(_PLACES)
    for member, content in package_members(package):
        if member.isreg() and member.name in lacking:
            write_member(member, content, folder / lacking.pop(member.name))
    if lacking:
        raise ToolchainError(f"{package.name} lacks {', '.join(sorted(lacking))}")
    (folder / "bin" / "nvcc.profile").write_text(_PROFILE)
