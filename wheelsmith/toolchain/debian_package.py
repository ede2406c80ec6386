"""Unpack Debian packages and ``.tar.xz`` archives. Callers compare the hash first."""

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


def package_members(package: Path) -> Iterator[tuple[tarfile.TarInfo, Iterator[bytes]]]:
    """Yield the files, folders and links of a package or archive. The content of each must be read before the next.

    :raises ToolchainError: it cannot be unpacked.
    """
    with _wrap_errors(package), package.open("rb") as file:
        if package.suffix == ".deb":
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
