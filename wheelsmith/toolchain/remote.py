"""Fetch pinned files, or only a few members of a big wheel by range requests."""

from __future__ import annotations

import hashlib
import itertools
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path

import httpx

from wheelsmith.base.deadline import require_progress
from wheelsmith.base.errors import ToolchainError
from wheelsmith.base.files import sha256_file
from wheelsmith.model import Listener, PinnedFile, Transfer
from wheelsmith.toolchain.http import REQUEST_ERRORS, failure_reason, open_response
from wheelsmith.toolchain.package_index import Location

# Bytes at the end of a wheel to fetch for the archive's directory, which has 1.2 MB in torch's wheels and 2.9 MB in
# TensorFlow's. The long tail is fetched if the directory does not fit into the first.
_TAIL_SIZE, _LONG_TAIL_SIZE = 2 << 20, 16 << 20
# Bytes. Reading across such a gap is cheaper than another request.
_MAX_GAP = 512 << 10
_REPORT_INTERVAL = 1 << 18  # bytes between two progress events


def fetch_whole(pin: PinnedFile, location: Location, target: Path, client: httpx.Client, listen: Listener) -> Path:
    """Fetch a pinned file, verify its hash, and return its path.

    :raises ToolchainError: it cannot be fetched, or is not the pinned file.
    """
    path = location.path
    if path is None:
        path = target / pin.filename
        download(pin.filename, str(location.url), path, client, listen, most=pin.size, total=pin.size)
    if sha256_file(path) != pin.sha256:
        raise ToolchainError(
            f"{pin.filename} is not the pinned file: its sha256 differs",
            remedy="try again; if it fails again, report the changed file to the owner of the index",
        )
    return path


def fetch_part(
    pin: PinnedFile,
    location: Location,
    target: Path,
    wanted: Callable[[str], bool],
    client: httpx.Client,
    listen: Listener,
) -> Path:
    """Fetch the wanted members of a wheel and the archive's directory.

    The result is a file of the wheel's size, with holes for the other members. If the server does not support range
    requests, the complete wheel is fetched and its hash verified.

    :param wanted: returns True for the name of a member to fetch.
    :raises ToolchainError: it cannot be fetched, or is not the pinned file.
    """
    if location.path is not None:
        return fetch_whole(pin, location, target, client, listen)
    url = str(location.url)
    path = target / pin.filename
    try:
        with path.open("wb") as file:
            file.truncate(pin.size)
        members = _fetch_directory(pin, url, path, client)
        if members is None:
            return fetch_whole(pin, location, target, client, listen)
        ranges = list(_wanted_ranges(members, wanted, pin.size))
        total = sum(end - start for start, end in ranges)
        done = 0
        for start, end in ranges:
            _fetch_range(url, start, end, path, client)
            done += end - start
            listen(Transfer(name=pin.filename, done=done, total=total))
    except REQUEST_ERRORS as error:
        raise _transfer_error(pin.filename, error) from error
    except zipfile.BadZipFile as error:
        raise ToolchainError(f"{pin.filename} is not the pinned archive: {error}") from error
    return path


def _fetch_directory(pin: PinnedFile, url: str, path: Path, client: httpx.Client) -> list[zipfile.ZipInfo] | None:
    """Fetch the end of a wheel and return the archive's members, or None if the server has no range requests.

    :raises zipfile.BadZipFile: it is not an archive.
    """
    if not _fetch_range(url, max(0, pin.size - _TAIL_SIZE), pin.size, path, client):
        return None
    try:
        return _members(path)
    except zipfile.BadZipFile:
        _fetch_range(url, max(0, pin.size - _LONG_TAIL_SIZE), pin.size, path, client)
        return _members(path)


def _members(wheel: Path) -> list[zipfile.ZipInfo]:
    with zipfile.ZipFile(wheel) as archive:
        return archive.infolist()


def _wanted_ranges(
    members: list[zipfile.ZipInfo], wanted: Callable[[str], bool], size: int
) -> Iterable[tuple[int, int]]:
    """Yield the byte ranges (start, end) of the wanted members. Close ranges are joined."""
    starts = [*sorted(member.header_offset for member in members), size]
    ends = dict(itertools.pairwise(starts))
    current: tuple[int, int] | None = None
    for start in sorted(member.header_offset for member in members if wanted(member.filename)):
        if current and start - current[1] <= _MAX_GAP:
            current = (current[0], ends[start])
            continue
        if current:
            yield current
        current = (start, ends[start])
    if current:
        yield current


def _fetch_range(url: str, start: int, end: int, path: Path, client: httpx.Client) -> bool:
    """Fetch bytes ``start`` to ``end`` (exclusive) to their place in the file.

    Return False if the server does not support range requests.
    """
    with open_response(client, url, {"Range": f"bytes={start}-{end - 1}"}) as response:
        if response.status_code == httpx.codes.OK:
            return False
        response.raise_for_status()
        with path.open("r+b") as file:
            file.seek(start)
            received = 0
            for chunk in require_progress(response.iter_raw()):
                received += len(chunk)
                if received > end - start:
                    break
                file.write(chunk)
    if received != end - start:
        raise httpx.ReadError(f"expected {end - start} bytes, got {received}")
    return True


def remote_size(filename: str, location: Location, client: httpx.Client) -> int:
    """Return the size of a file in bytes. Only its first byte is fetched.

    :raises ToolchainError: the server does not say it.
    """
    if location.path:
        return location.path.stat().st_size
    try:
        with open_response(client, str(location.url), {"Range": "bytes=0-0"}) as response:
            response.raise_for_status()
            told = response.headers.get("content-range", "").rpartition("/")[2]
            return int(told or response.headers["content-length"])
    except REQUEST_ERRORS as error:
        raise _transfer_error(filename, error) from error
    except (KeyError, ValueError):
        raise ToolchainError(f"{filename} cannot be fetched: its server does not say its size") from None


def download(
    filename: str, url: str, path: Path, client: httpx.Client, listen: Listener, *, most: int, total: int = 0
) -> None:
    """Fetch a file. Stop early if it exceeds ``most`` bytes; the caller then finds a wrong hash.

    :param filename: the name in events and messages.
    :param total: the size in bytes; 0 if it is not known.
    :raises ToolchainError: the transfer failed.
    """
    try:
        with open_response(client, url) as response, path.open("wb") as file:
            response.raise_for_status()
            done = reported = 0
            for chunk in require_progress(response.iter_raw()):
                done += len(chunk)
                if done > most:
                    break  # do not fill the disk
                file.write(chunk)
                if done - reported >= _REPORT_INTERVAL and done != total:
                    listen(Transfer(name=filename, done=done, total=total))
                    reported = done
            listen(Transfer(name=filename, done=done, total=done))
    except REQUEST_ERRORS as error:
        raise _transfer_error(filename, error) from error


def _transfer_error(filename: str, error: Exception) -> ToolchainError:
    return ToolchainError(
        f"{filename} could not be fetched: {failure_reason(error)}",
        remedy="check the network and pip's configuration (python3 -m pip config list), then run the command again",
    )


def sha256_bytes(data: bytes) -> str:
    """Return the sha256 (hex) of ``data``."""
    return hashlib.sha256(data).hexdigest()
