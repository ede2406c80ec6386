"""Files that appear whole or not at all, data files of packages, and the output of short programs."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import IO, Any

from wheelsmith.base.beneath import open_file, remove_tree

_CHUNK = 1 << 20
# What a file system says that has no second names, no more of them for this file, or none for this user.
_NO_LINKS = {errno.EPERM, errno.EACCES, errno.EMLINK, errno.EXDEV, errno.ENOSYS, errno.EOPNOTSUPP}
_PATIENCE = 60.0  # seconds: a first start of a Python on a cold disk, or of a driver that wakes its GPUs


def sha256_file(path: Path) -> str:
    """Return the sha256 (hex) of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_bounded(path: Path, most: int) -> bytes:
    """Return what a regular file holds; nothing else is opened or waited for.

    :param most: bytes.
    :raises ValueError: it holds more.
    :raises OSError: it is not there, or no such file.
    """
    with open_file(path) as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise ValueError(f"it holds more than {most} bytes")
    return data


def atomic_write(path: Path, data: bytes) -> None:
    """Write ``data`` so that ``path`` is either as it was or whole."""
    with _replacing(path.parent, path.name, lambda: path) as file:
        file.write(data)


def atomic_copy(source: Path, path: Path) -> None:
    """Copy a file so that ``path`` is either as it was or whole."""
    with _replacing(path.parent, path.name, lambda: path) as file, source.open("rb") as origin:
        shutil.copyfileobj(origin, file, _CHUNK)


def atomic_link(source: Path, path: Path) -> bool:
    """Return whether a file got a second name, in the place of what had it: not every file system has such names."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{path.name[:40]}.", dir=path.parent) as folder:
        linked = Path(folder, "linked")
        try:
            linked.hardlink_to(source)
        except OSError as error:
            if error.errno in _NO_LINKS:
                return False
            raise
        linked.replace(path)
    return True


def atomic_pour(chunks: Iterable[bytes], folder: Path, place: Callable[[], Path]) -> None:
    """Write a file whose name is known only once its content is: it appears whole, or not at all.

    :param folder: on the same file system, where it lies until then.
    :param place: gives its path, once all chunks were taken.
    """
    with _replacing(folder, "new", place) as file:
        file.writelines(chunks)


def mark_used(path: Path) -> None:
    """Note in its modification time that a file or folder of the cache was of use now."""
    with contextlib.suppress(OSError):  # a cache that cannot be written can still be read
        os.utime(path)


@contextmanager
def _replacing(folder: Path, name: str, place: Callable[[], Path]) -> Iterator[IO[bytes]]:
    """Yield a file in ``folder`` that is flushed to disk and renamed to its place when the block ends well."""
    folder.mkdir(parents=True, exist_ok=True)
    handle, temporary_name = tempfile.mkstemp(prefix=f".{name[:40]}.", dir=folder)
    temporary = Path(temporary_name)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(0o644)
        path = place()
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def publish_tree(temporary: Path, final: Path) -> bool:
    """Rename a finished folder into place, whose content is read-only.

    Gives False, and removes ``temporary``, when another process was first: both made the same thing.
    """
    # The folder itself must stay writable to be renamed by an ordinary user.
    temporary.chmod(0o755)
    try:
        temporary.rename(final)
    except OSError:
        if not final.is_dir():
            raise
        remove_tree(temporary)
        return False
    final.chmod(0o555)
    return True


def read_facts(package: str, name: str) -> Any:
    """Return what a data file of a package says, as JSON has it."""
    return json.loads(files(package).joinpath(name).read_text(encoding="utf-8"))


def output_of(argv: Sequence[str], variables: Mapping[str, str] | None = None) -> str:
    """Return what a program printed; nothing where it cannot be run or does not end.

    :param variables: all that it has; None gives it this process's own.
    """
    try:
        ended = subprocess.run(argv, capture_output=True, text=True, timeout=_PATIENCE, check=False, env=variables)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return ended.stdout


def answer_of(argv: Sequence[str], variables: Mapping[str, str] | None = None) -> Any:
    """Return the JSON of a program's last line; None where that is none.

    :param variables: as ``output_of`` takes them.
    """
    try:
        # A site hook may have printed something before.
        return json.loads(output_of(argv, variables).strip().rpartition("\n")[2])
    except ValueError:
        return None
