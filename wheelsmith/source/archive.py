"""Read a project from an archive, which the worker unpacks once into the cache."""

from __future__ import annotations

import gzip
import stat
import tarfile
import zlib
from pathlib import Path, PurePosixPath
from typing import Any

from wheelsmith.base.errors import Place, SourceError, WheelError
from wheelsmith.base.files import sha256_file
from wheelsmith.base.units import show_binary_size
from wheelsmith.base.zip_archive import Archive
from wheelsmith.model import SourceId
from wheelsmith.source.cached import make_cached
from wheelsmith.source.tree import MAX_BYTES, MAX_FILES, SourceTree, check_path, walk
from wheelsmith.worker import Worker, WorkerLimits

_TAR, _ZIP = (".tar.gz", ".tgz"), (".zip",)
ARCHIVES = (*_TAR, *_ZIP)
_UNPACKED = "unpacked"
_FAILURES = (tarfile.TarError, zlib.error, EOFError, OSError)
_CHUNK = 1 << 20  # bytes


def read_archive(path: Path, cache: Path) -> SourceTree:
    """Return the source in a local archive.

    :raises SourceError: it is not a supported archive, or its content is refused.
    """
    if not path.name.endswith(ARCHIVES):
        raise SourceError(
            f"{path.name} is neither a folder nor a supported archive ({', '.join(ARCHIVES)})",
            remedy="fix path in matrix.yaml",
        )
    sha256 = sha256_file(path)
    found = unpack_cached(path, path.name, archive_id(f"archive:{path.name}", sha256), cache)
    if sha256_file(path) != sha256:
        raise SourceError(f"{path.name} was changed while it was read", remedy="run the same command again")
    return found


def archive_id(origin: str, sha256: str) -> SourceId:
    """Return the identity of an archive's tree, without the tree's digest."""
    return SourceId(origin=origin, revision=None, commit=sha256, tree="")


def unpack_cached(archive: Path, name: str, origin: SourceId, cache: Path) -> SourceTree:
    """Return an archive's tree. Unpack it into the cache if it is not there.

    :param name: the file name of the archive; its ending determines the format.
    :param origin: the identity of the tree; ``commit`` is the archive's sha256.
    :raises SourceError: it cannot be unpacked, or its content is refused.
    """
    try:
        return make_cached(
            str(origin.commit), cache, origin, lambda scratch: walk(unpack(archive, name, scratch / "unpacked"))
        )
    except SourceError as error:
        raise SourceError(error.message, where=error.where or Place(file=name), remedy=error.remedy) from None


def unpack(archive: Path, name: str, folder: Path) -> Path:
    """Unpack an archive in a worker. Return the folder of the project.

    :param name: the file name of the archive; its ending determines the format.
    :param folder: the folder to create.
    :raises SourceError: it cannot be unpacked.
    :raises WorkerError: it exceeds the worker's limits.
    """
    with Worker(WorkerLimits(file_size=MAX_BYTES), beside=folder.parent) as worker:
        request = {"archive": str(archive.absolute()), "name": name}
        worker.call("wheelsmith.source.archive:unpack_in_worker", request, subject=name)
        (worker.folder / _UNPACKED).rename(folder)
    found = list(folder.iterdir())
    if not found:
        raise SourceError("it contains no files")
    # An sdist has one top folder.
    return found[0] if len(found) == 1 and found[0].is_dir() and not found[0].is_symlink() else folder


def unpack_in_worker(request: dict[str, Any]) -> dict[str, Any]:
    """Unpack an archive into the working folder. This runs in the worker. Links stay links."""
    archive, folder = Path(request["archive"]), Path(_UNPACKED).absolute()
    folder.mkdir()
    try:
        if request["name"].endswith(_ZIP):
            _unpack_zip(archive, folder)
        else:
            _unpack_tar(archive, folder)
    except WheelError as error:
        raise SourceError(error.message) from error
    except _FAILURES as error:
        raise SourceError(f"it cannot be unpacked: {error}") from error
    return {}


def _unpack_zip(archive: Path, folder: Path) -> None:
    with Archive(archive) as opened:
        _check_size(len(opened.members), sum(member.size for member in opened.members.values()))
        for name, member in opened.files.items():
            _check_name(name)
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("xb") as file:
                file.writelines(opened.chunks(name))
            path.chmod(0o755 if member.mode & stat.S_IXUSR else 0o644)


def _unpack_tar(archive: Path, folder: Path) -> None:
    count = size = 0
    links: dict[Path, str] = {}
    with gzip.open(archive) as stream, tarfile.open(fileobj=stream, mode="r:", encoding="utf-8") as opened:
        for info in opened:
            count, size = count + 1, size + info.size
            _check_size(count, size)
            info.name = str(PurePosixPath(info.name))
            if info.name == "." and info.isdir():
                continue
            _check_name(info.name)
            if info.issym():
                links[folder / info.name] = info.linkname
            elif info.islnk():
                # Replace a hard link, which names another member, by a relative symbolic link.
                links[folder / info.name] = "../" * info.name.count("/") + info.linkname
            elif info.isreg() or info.isdir():
                opened.extract(info, folder, filter="data")
            else:
                raise SourceError(f"{info.name!r} is neither a file, a folder nor a link")
        while stream.read(_CHUNK):  # tarfile stops before the checksum of gzip
            pass
    # Create links last, so that no file is written through a link.
    for path, target in links.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.parent.resolve() != path.parent:
            raise SourceError(f"{path.relative_to(folder)} is in a folder that is a link")
        path.symlink_to(target)


def _check_name(name: str) -> None:
    # The top folder is not part of later paths if it is the only one, so check its name separately.
    for part in name.split("/", 1):
        check_path(part or name)


def _check_size(count: int, size: int) -> None:
    if count > MAX_FILES or size > MAX_BYTES:
        raise SourceError(f"it contains more than {MAX_FILES} files and folders, or {show_binary_size(MAX_BYTES)}")
