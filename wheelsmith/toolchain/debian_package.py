"""Read Debian packages, which were compared with what was pinned."""

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
