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
from dataclasses import dataclass
from pathlib import Path

from wheelsmith.base.files import atomic_write, sha256_file
from wheelsmith.base.json_dataclass import Record, parse_json

# The status of a file: mode (kind and permissions), owner, size in bytes, mtime and ctime in ns. No program can set the
# ctime, so it reveals a concealed change. Copying a cache changes it too; then every byte is compared.
Look = tuple[int, int, int, int, int]


# Raise it when folders are finished differently. Then folders of an older format are made again.
_FORMAT = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof(Record):
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


def proof_path(folder: Path) -> Path:
    """Return the path of a folder's record. It is outside of the folder, where no build can see it."""
    return folder.with_name(f".{folder.name}.proof")


def prove(folder: Path, final: Path) -> None:
    """Record the state of a finished folder before it is renamed.

    :param final: the path that the folder will have.
    :raises OSError: the folder cannot be read or the record not written.
    """
    files = dict(_looks(folder))
    _keep(final, files, {name: _content(folder / name, look) for name, look in files.items() if not _is_folder(look)})


def why_unproven(folder: Path) -> str | None:
    """Return a change of a folder since it was made, or None. This compares statuses and reads few files.

    If only times or owners of a file differ, as after a copy of the cache, this compares the content and records the
    new status. Adding or removing a hard link also changes the ctime.
    """
    proof = _read(folder)
    if proof is None:
        return "its record is missing or invalid"
    files = dict(_looks(folder))
    if _digest(files) == proof.looks:
        return None
    if difference := _difference(proof.files, files):
        return difference
    if changed := _changed_content(folder, proof, [name for name, look in files.items() if look != proof.files[name]]):
        return changed
    _keep(folder, files, proof.contents)
    return None


def why_changed(folder: Path) -> str | None:
    """Return a change of a folder since it was made, or None. This compares every byte."""
    proof = _read(folder)
    if proof is None:
        return "its record is missing or invalid"
    return _difference(proof.files, dict(_looks(folder))) or _changed_content(folder, proof, proof.files)


def _keep(folder: Path, files: dict[str, Look], contents: dict[str, str]) -> None:
    data = {
        "looks": _digest(files),
        "files": {name: list(look) for name, look in files.items()},
        "contents": contents,
        "finished": _FORMAT,
    }
    atomic_write(proof_path(folder), json.dumps(data, sort_keys=True).encode())


def _read(folder: Path) -> Proof | None:
    try:
        proof = Proof.from_json(parse_json(proof_path(folder).read_bytes()))
    except (OSError, ValueError):
        return None
    return proof if proof.finished == _FORMAT else None


def _digest(files: dict[str, Look]) -> str:
    # json escapes to ASCII, because names in an archive need not be valid text.
    return hashlib.sha256(json.dumps(sorted(files.items())).encode("ascii")).hexdigest()


def _looks(folder: Path) -> Iterator[tuple[str, Look]]:
    """Yield every path below a folder with its status.

    The folder itself is excluded, because renaming it and marking its last use change its status.
    """
    left = [""]
    while left:
        below = left.pop()
        with os.scandir(folder / below) as entries:
            for entry in entries:
                name = f"{below}{entry.name}"
                look = _look(entry.stat(follow_symlinks=False))
                if _is_folder(look):
                    left.append(f"{name}/")
                yield name, look


def _look(found: os.stat_result) -> Look:
    if stat.S_ISDIR(found.st_mode):
        # The names below a folder cover its content, and its size depends on the file system.
        return (found.st_mode, found.st_uid, 0, 0, 0)
    return (found.st_mode, found.st_uid, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def _difference(was: dict[str, tuple[int, ...]], now: dict[str, Look]) -> str | None:
    """Describe the first path that is missing, new, or has another kind, size or permissions."""
    if gone := sorted(was.keys() - now.keys()):
        return f"{gone[0]} is missing"
    if new := sorted(now.keys() - was.keys()):
        return f"{new[0]} was added"
    for name, (mode, _, size, *_) in sorted(was.items()):
        if mode != now[name][0]:
            return f"the permissions or the kind of {name} changed"
        if size != now[name][2]:
            return f"the size of {name} changed"
    return None


def _changed_content(folder: Path, proof: Proof, names: Iterable[str]) -> str | None:
    for name in sorted(names):
        mode = proof.files[name][0]
        if not stat.S_ISDIR(mode) and _content(folder / name, (mode, 0, 0, 0, 0)) != proof.contents.get(name):
            return f"the content of {name} changed"
    return None


def _content(path: Path, look: Look) -> str:
    if stat.S_ISLNK(look[0]):
        return hashlib.sha256(os.fsencode(path.readlink())).hexdigest()
    return sha256_file(path)


def _is_folder(look: Look) -> bool:
    return stat.S_ISDIR(look[0])
