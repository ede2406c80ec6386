"""Prove that a folder is what it was when it was made: by names, sizes, times and owners, or by every byte.

A build reads its toolchain read-only; but whoever may write the cache, a failing disk, or a tidy-up of temporary files
can change it afterwards, and a wheel must not be taken for the work of a compiler that it was not made with.
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

# How a file looks: kind and permissions, owner, size, and the times of its content and of its entry. Nobody can set the
# last one, so a change that was covered up shows; copying a cache sets it too, and then every byte is compared.
Look = tuple[int, int, int, int, int]


# Raised when a folder is finished in another way: one that was finished before is made again.
_FORMAT = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof(Record):
    """What a folder holds.

    :param looks: the digest of every file's and folder's look, which is all that a run compares.
    :param files: path below the folder → its look.
    :param contents: path below the folder → the sha256 of a file, or where a link leads.
    :param finished: the way in which it was finished.
    """

    looks: str
    files: dict[str, tuple[int, ...]]
    contents: dict[str, str]
    finished: int = 1


def proof_path(folder: Path) -> Path:
    """Return where the proof of a folder is kept: beside it, where no build sees it."""
    return folder.with_name(f".{folder.name}.proof")


def prove(folder: Path, final: Path) -> None:
    """Keep what a finished folder holds as the proof of the folder that it is about to become.

    :raises OSError: it cannot be read, or the proof not written.
    """
    files = dict(_looks(folder))
    _keep(final, files, {name: _content(folder / name, look) for name, look in files.items() if not _is_folder(look)})


def why_unproven(folder: Path) -> str | None:
    """Say what of a folder is not as it was made, or return None when nothing tells of a change.

    Files of which only times or owners differ, as after a copy of the cache, are compared byte by byte, and their new
    looks kept. A second name for a file, given or taken away, changes the time of its entry, too.
    """
    proof = _read(folder)
    if proof is None:
        return "nothing says what it held when it was made"
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
    """Say what of a folder is not as it was made, comparing every byte, or return None."""
    proof = _read(folder)
    if proof is None:
        return "nothing says what it held when it was made"
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
    # As ASCII, for an archive may have names that are no text.
    return hashlib.sha256(json.dumps(sorted(files.items())).encode("ascii")).hexdigest()


def _looks(folder: Path) -> Iterator[tuple[str, Look]]:
    """Yield every path below a folder, and how it looks. The folder itself is renamed, and told when it is of use."""
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
        # What a folder holds is told by the names below it; file systems differ in its size.
        return (found.st_mode, found.st_uid, 0, 0, 0)
    return (found.st_mode, found.st_uid, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def _difference(was: dict[str, tuple[int, ...]], now: dict[str, Look]) -> str | None:
    """Name the first thing that is gone, new, or of another kind, size or permissions."""
    if gone := sorted(was.keys() - now.keys()):
        return f"{gone[0]} is gone"
    if new := sorted(now.keys() - was.keys()):
        return f"{new[0]} was added"
    for name, (mode, _, size, *_) in sorted(was.items()):
        if mode != now[name][0]:
            return f"{name} has other permissions or is of another kind"
        if size != now[name][2]:
            return f"{name} has another size"
    return None


def _changed_content(folder: Path, proof: Proof, names: Iterable[str]) -> str | None:
    for name in sorted(names):
        mode = proof.files[name][0]
        if not stat.S_ISDIR(mode) and _content(folder / name, (mode, 0, 0, 0, 0)) != proof.contents.get(name):
            return f"the content of {name} is another"
    return None


def _content(path: Path, look: Look) -> str:
    if stat.S_ISLNK(look[0]):
        return hashlib.sha256(os.fsencode(path.readlink())).hexdigest()
    return sha256_file(path)


def _is_folder(look: Look) -> bool:
    return stat.S_ISDIR(look[0])
