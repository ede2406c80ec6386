"""Detect changes of a finished folder, by names, sizes, times and owners, or by every byte.

A build reads its toolchain read-only. But a user with access to the cache, a failing disk, or a cleanup of temporary
files can change a toolchain later. A wheel must never record a compiler other than the one that built it.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from wheelsmith.base.files import atomic_write, sha256_file
from wheelsmith.base.json_dataclass import Record, parse_json

# The status of a file: mode (kind and permissions), owner, size in bytes, mtime and ctime in ns. No program can set the
# ctime, so it reveals a concealed change. Copying a cache changes it too; then every byte is compared.
FileStatus = tuple[int, int, int, int, int]


# Raise it when folders are finished differently. Then folders of an older format are made again.
_FORMAT = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderManifest(Record):
    """The recorded state of a finished folder.

    :param looks: digest of the status of all files and folders. A run normally compares only this.
    :param files: path below the folder → status.
    :param contents: path below the folder → sha256 (hex) of a file's content or of a link's target.
    :param finished: the format; see ``_FORMAT``.
    """

    looks: str
    files: dict[str, tuple[int, ...]]
    contents: dict[str, str]
    finished: int = 1


def manifest_path(folder: Path) -> Path:
    """Return the path of a folder's manifest. It is outside of the folder, where no build can see it."""
    return folder.with_name(f".{folder.name}.proof")


def write_manifest(folder: Path, final: Path) -> None:
    """Write the manifest of a finished folder before it is renamed.

    :param final: the path that the folder will have.
    :raises OSError: the folder cannot be read or the manifest not written.
    """
    files = dict(_walk_statuses(folder))
    contents = {name: _content(folder / name, status) for name, status in files.items() if not _is_folder(status)}
    _save(final, files, contents)


def find_change(folder: Path) -> str | None:
    """Return a change of a folder since it was made, or None. This compares statuses and reads few files.

    If only times or owners of a file differ, as after a copy of the cache, this compares the content and records the
    new status. Adding or removing a hard link also changes the ctime.
    """
    manifest = _load(folder)
    if manifest is None:
        return "its manifest is missing or invalid"
    files = dict(_walk_statuses(folder))
    if _digest(files) == manifest.looks:
        return None
    if difference := _first_difference(manifest.files, files):
        return difference
    to_compare = [name for name, status in files.items() if status != manifest.files[name]]
    if changed := _first_changed_content(folder, manifest, to_compare):
        return changed
    with suppress(OSError):  # the cache may be read-only; then every run compares the content
        _save(folder, files, manifest.contents)
    return None


def content_hash(folder: Path, name: str) -> str:
    """Return the sha256 (hex) of a file in a finished folder. It is read only if its status is not the recorded one."""
    status, manifest = _status((folder / name).stat()), _load_once(folder)
    if manifest and manifest.files.get(name) == status:
        return manifest.contents[name]
    return _hash_once(folder / name, status)


@cache
def _load_once(folder: Path) -> FolderManifest | None:
    return _load(folder)


@cache
def _hash_once(path: Path, status: FileStatus) -> str:
    del status
    return sha256_file(path)


def find_change_by_content(folder: Path) -> str | None:
    """Return a change of a folder since it was made, or None. This compares every byte."""
    manifest = _load(folder)
    if manifest is None:
        return "its manifest is missing or invalid"
    files = dict(_walk_statuses(folder))
    return _first_difference(manifest.files, files) or _first_changed_content(folder, manifest, manifest.files)


def _save(folder: Path, files: dict[str, FileStatus], contents: dict[str, str]) -> None:
    data = {
        "looks": _digest(files),
        "files": {name: list(status) for name, status in files.items()},
        "contents": contents,
        "finished": _FORMAT,
    }
    atomic_write(manifest_path(folder), json.dumps(data, sort_keys=True).encode())


def _load(folder: Path) -> FolderManifest | None:
    try:
        manifest = FolderManifest.from_json(parse_json(manifest_path(folder).read_bytes()))
    except (OSError, ValueError):
        return None
    return manifest if manifest.finished == _FORMAT else None


def _digest(files: dict[str, FileStatus]) -> str:
    # json escapes to ASCII, because names in an archive need not be valid text.
    return hashlib.sha256(json.dumps(sorted(files.items())).encode("ascii")).hexdigest()


def _walk_statuses(folder: Path) -> Iterator[tuple[str, FileStatus]]:
    """Yield every path below a folder with its status.

    The folder itself is excluded, because renaming it and marking its last use change its status.
    """
    todo = [""]
    while todo:
        below = todo.pop()
        with os.scandir(folder / below) as entries:
            for entry in entries:
                name = f"{below}{entry.name}"
                status = _status(entry.stat(follow_symlinks=False))
                if _is_folder(status):
                    todo.append(f"{name}/")
                yield name, status


def _status(result: os.stat_result) -> FileStatus:
    if stat.S_ISDIR(result.st_mode):
        # The names below a folder cover its content, and its size depends on the file system.
        return (result.st_mode, result.st_uid, 0, 0, 0)
    return (result.st_mode, result.st_uid, result.st_size, result.st_mtime_ns, result.st_ctime_ns)


def _first_difference(was: dict[str, tuple[int, ...]], now: dict[str, FileStatus]) -> str | None:
    """Describe the first path that is missing, new, or has another kind, size or permissions."""
    if missing := sorted(was.keys() - now.keys()):
        return f"{missing[0]} is missing"
    if new := sorted(now.keys() - was.keys()):
        return f"{new[0]} was added"
    for name, (mode, _, size, *_) in sorted(was.items()):
        if mode != now[name][0]:
            return f"the permissions or the kind of {name} changed"
        if size != now[name][2]:
            return f"the size of {name} changed"
    return None


def _first_changed_content(folder: Path, manifest: FolderManifest, names: Iterable[str]) -> str | None:
    for name in sorted(names):
        mode = manifest.files[name][0]
        if not stat.S_ISDIR(mode) and _content(folder / name, (mode, 0, 0, 0, 0)) != manifest.contents.get(name):
            return f"the content of {name} changed"
    return None


def _content(path: Path, status: FileStatus) -> str:
    if stat.S_ISLNK(status[0]):
        return hashlib.sha256(os.fsencode(path.readlink())).hexdigest()
    return sha256_file(path)


def _is_folder(status: FileStatus) -> bool:
    return stat.S_ISDIR(status[0])
