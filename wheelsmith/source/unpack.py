"""Unpack an archive that nobody trusts: regular files only, each beneath the folder, and no more than a source has.

A link becomes the file that it leads to, and is never made: nothing that is written here leads anywhere.
"""

from __future__ import annotations

import stat
import tarfile
from collections.abc import Callable, Iterable
from pathlib import Path, PurePosixPath

from wheelsmith.base.errors import SourceError, WheelError
from wheelsmith.base.tar_archive import BadArchiveError, TarMember, tar_members
from wheelsmith.base.zip_archive import Archive
from wheelsmith.source.links import LONGEST_LINK, MOST_LINKS, LinkResolver
from wheelsmith.source.tree import MOST_BYTES, MOST_FILES, check_path

_TAR, _ZIP = (".tar.gz", ".tgz"), (".zip",)
ARCHIVES = (*_TAR, *_ZIP)
_HEADERS = 64 << 20  # bytes of them in a tar, and of what fills its blocks
_CHUNK = 1 << 20  # bytes


def unpack(archive: Path, name: str, folder: Path) -> Path:
    """Write what an archive holds, and return the folder in which the project is: one that holds all is gone into.

    :param name: of the archive, whose ending says what it is.
    :param folder: is made.
    :raises SourceError: it cannot be unpacked, or holds what must not be used.
    """
    folder.mkdir()
    files = _Files(folder)
    read: Callable[[Path, _Files], None] = _read_zip if name.endswith(_ZIP) else _read_tar
    try:
        read(archive, files)
    except BadArchiveError as error:
        raise SourceError(str(error)) from error
    except WheelError as error:
        raise SourceError(error.message) from error
    if not files.names:
        raise SourceError("it holds no files")
    top, *others = {name.partition("/")[0] for name in files.names}
    return folder if others or top in files.names else folder / top


class _Files:
    """What was written to a folder so far, and how much more may be."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.folders: set[str] = set()
        self._left = MOST_BYTES
        self.names: set[str] = set()

    def place(self, name: str) -> str:
        """Return a member's name without what leads nowhere, which no other member has.

        :raises SourceError: it is unsafe, or another file has it.
        """
        path = _checked(name)
        if path in self.names:
            raise SourceError(f"it holds {path!r} twice")
        self._enter(path, {str(folder) for folder in PurePosixPath(path).parents})
        return path

    def pass_by(self, folder: str) -> None:
        """Look at the name of a folder, which is made once something is in it."""
        if PurePosixPath(folder).parts:
            path = _checked(folder)
            self._enter("", {path, *(str(parent) for parent in PurePosixPath(path).parents)})

    def _enter(self, path: str, folders: set[str]) -> None:
        clash = path if path in self.folders else next(iter(folders & self.names), None)
        if clash:
            raise SourceError(f"{clash!r} is a file, and the folder of others")
        self.folders |= folders
        if len(self.names) + len(self.folders) > MOST_FILES:
            raise SourceError(f"it holds more than {MOST_FILES} files and folders")

    def write(self, path: str, chunks: Iterable[bytes], *, executable: bool) -> None:
        """Write a file to its place."""
        self.names.add(path)
        real = self._folder / path
        real.parent.mkdir(parents=True, exist_ok=True)
        try:
            file = real.open("xb")
        except FileExistsError:
            raise SourceError(f"this file system takes {path!r} for another file's name") from None
        with file:
            for chunk in chunks:
                self._left -= len(chunk)
                if self._left < 0:
                    raise SourceError(f"it unpacks to more than {MOST_BYTES >> 20} MiB")
                file.write(chunk)
        # Whatever else its mode says, such as whose rights it takes, is nobody's business.
        real.chmod(0o755 if executable else 0o644)

    def copy(self, path: str, origin: str) -> None:
        """Write a file that has the content of another."""
        real = self._folder / origin
        with real.open("rb") as file:
            executable = bool(real.stat().st_mode & stat.S_IXUSR)
            self.write(path, iter(lambda: file.read(_CHUNK), b""), executable=executable)


def _checked(name: str) -> str:
    path = str(PurePosixPath(name))
    # Of the top folder's name nothing is left where it holds all.
    for part in path.split("/", 1):
        check_path(part or path)
    return path


def _read_zip(path: Path, files: _Files) -> None:
    with Archive(path) as archive:
        if len(archive.members) > MOST_FILES:
            raise SourceError(f"it holds more than {MOST_FILES} files")
        for name, member in archive.files.items():
            files.write(files.place(name), archive.chunks(name), executable=bool(member.mode & stat.S_IXUSR))


def _read_tar(path: Path, files: _Files) -> None:
    links: dict[str, str] = {}
    for member in tar_members(path, most_bytes=MOST_BYTES + _HEADERS):
        info = member.info
        if info.isdir():
            files.pass_by(info.name)
            continue
        name = files.place(info.name)
        if name in links:
            raise SourceError(f"it holds {name!r} twice")
        if info.issym():
            links[name] = info.linkname
        elif info.islnk():
            # The name of another member, where a link says the way from where it is.
            links[name] = info.linkname if info.linkname.startswith("/") else "../" * name.count("/") + info.linkname
        else:
            _write_regular(name, member, files)
        # Each is a way of so many steps, through so many others.
        if len(links) > MOST_LINKS or len(info.linkname.encode(errors="replace")) > LONGEST_LINK:
            raise SourceError(f"it holds more than {MOST_LINKS} links, or longer ones than {LONGEST_LINK} bytes")
    resolver = LinkResolver(links=links, files=frozenset(files.names), folders=frozenset(files.folders))
    for name in links:
        files.copy(files.place(name), resolver.file_of(name))


def _write_regular(name: str, member: TarMember, files: _Files) -> None:
    if member.info.type not in {tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.CONTTYPE}:
        raise SourceError(f"{name!r} is neither a file, a folder nor a link")
    files.write(name, member.chunks(), executable=bool(member.info.mode & stat.S_IXUSR))
