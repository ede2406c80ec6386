"""The cache folder, atomic writes, the data files of packages, and the output of short programs."""

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

CACHE_TAG = "CACHEDIR.TAG"  # marks a folder as a cache: https://bford.info/cachedir
_CHUNK = 1 << 20
# Errors of hard links: the file system has none, the file has too many, or the user may not create one.
_NO_LINKS = {errno.EPERM, errno.EACCES, errno.EMLINK, errno.EXDEV, errno.ENOSYS, errno.EOPNOTSUPP}
_TIMEOUT = 60.0  # seconds; covers a first start of Python on a cold disk, and of a driver that wakes its GPUs


def default_cache() -> Path:
    """Return the user's cache folder: WHEELSMITH_CACHE, or the platform's default."""
    if named := os.environ.get("WHEELSMITH_CACHE"):
        return Path(named).absolute()
    from platformdirs import user_cache_path

    return user_cache_path("wheelsmith")


def mark_cache(folder: Path) -> None:
    """Create a folder, and mark it as a cache, which is neither source nor worth a backup."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / CACHE_TAG).write_text("Signature: 8a477f597d28d172789f06886806bc55\n# A remote cache of wheelsmith\n")


def sha256_file(path: Path) -> str:
    """Return the sha256 (hex) of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_bounded(path: Path, most: int) -> bytes:
    """Return the content of a regular file. Pipes and devices are not opened.

    :param most: the largest allowed size in bytes.
    :raises ValueError: the file is larger.
    :raises OSError: it does not exist or is not a regular file.
    """
    with open_file(path) as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise ValueError(f"it holds more than {most} bytes")
    return data


def atomic_write(path: Path, data: bytes) -> None:
    """Write ``data`` so that ``path`` has either its old content or all of the new."""
    with _atomic_file(path.parent, path.name, lambda: path) as file:
        file.write(data)


def atomic_copy(source: Path, path: Path) -> None:
    """Copy a file so that ``path`` has either its old content or all of the new."""
    with _atomic_file(path.parent, path.name, lambda: path) as file, source.open("rb") as origin:
        shutil.copyfileobj(origin, file, _CHUNK)


def atomic_link(source: Path, path: Path) -> bool:
    """Replace ``path`` by a hard link to ``source``. Return False if the file system or its limits do not allow it."""
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


def atomic_write_chunks(chunks: Iterable[bytes], folder: Path, place: Callable[[], Path]) -> None:
    """Write a file atomically, for example one that is named after the hash of its content.

    :param folder: holds the temporary file; must be on the same file system.
    :param place: returns the path. It is called after the last chunk.
    """
    with _atomic_file(folder, "new", place) as file:
        file.writelines(chunks)


def mark_used(path: Path) -> None:
    """Set the modification time of a file or folder of the cache to now, so that pruning keeps it."""
    with contextlib.suppress(OSError):  # the cache may be read-only
        os.utime(path)


@contextmanager
def _atomic_file(folder: Path, name: str, place: Callable[[], Path]) -> Iterator[IO[bytes]]:
    """Yield a temporary file in ``folder``. If the block succeeds, flush it to disk and rename it to its place."""
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
    """Rename a finished folder with read-only content to its final path.

    Return False and remove ``temporary`` if another process has created the same folder first.
    """
    # An ordinary user can rename only a writable folder.
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
    """Return the content of a JSON data file in a package."""
    return json.loads(files(package).joinpath(name).read_text(encoding="utf-8"))


def run_for_output(argv: Sequence[str], variables: Mapping[str, str] | None = None) -> str:
    """Return the stdout of a program, or an empty string if it cannot be started or does not end in time.

    :param variables: its complete environment; None means the environment of this process.
    """
    try:
        completed = subprocess.run(argv, capture_output=True, text=True, timeout=_TIMEOUT, check=False, env=variables)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return completed.stdout


def run_for_json(argv: Sequence[str], variables: Mapping[str, str] | None = None) -> Any:
    """Return the last line of a program's stdout as JSON, or None if it is not JSON.

    :param variables: as for ``run_for_output``.
    """
    try:
        # A site hook of Python may print lines first.
        return json.loads(run_for_output(argv, variables).strip().rpartition("\n")[2])
    except ValueError:
        return None
