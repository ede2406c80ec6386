"""Take files out of a wheel, each compared with RECORD, and nothing outside the target folder."""

from __future__ import annotations

import base64
import hashlib
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path, PurePosixPath

from installer.records import InvalidRecordEntry, parse_record_file

from wheelsmith.base.errors import ToolchainError
from wheelsmith.model import PinnedFile

# What zipfile raises of a member that is packed in a way of its own, or whose bytes changed.
_BROKEN = (EOFError, RuntimeError, ValueError, zlib.error)
_PACKINGS = {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}
_LONGEST_RECORD = 64 << 20  # bytes: torch's is 1.2 MB


def unpack(pin: PinnedFile, wheel: Path, target: Path, place: Callable[[str], str | None]) -> None:
    """Write the members that ``place`` gives a path to under ``target``.

    :param place: member name → path relative to ``target``, or None to leave it out.
    :raises ToolchainError: the wheel is broken, or a file is not what RECORD says.
    """
    try:
        with zipfile.ZipFile(wheel) as archive:
            if odd := next((each for each in archive.infolist() if each.compress_type not in _PACKINGS), None):
                raise ToolchainError(f"{pin.filename}: {odd.filename} is packed as no wheel's files are")
            record = _record(pin, archive)
            _check_whole(pin, record, archive, place)
            for member in archive.infolist():
                path = None if member.is_dir() else place(member.filename)
                if path is not None:
                    _write(pin, archive, member, record, target / _inside(pin, path))
    except (zipfile.BadZipFile, InvalidRecordEntry, *_BROKEN) as error:
        raise ToolchainError(
            f"{pin.filename} cannot be unpacked: {error}",
            remedy="try again; if it stays so, the index serves a broken file: report it to its owner",
        ) from error


def _record(pin: PinnedFile, archive: zipfile.ZipFile) -> dict[str, tuple[str, str]]:
    """Return each member's hash and size as RECORD writes them, once RECORD itself is proven where it was pinned."""
    name = next((n for n in archive.namelist() if n.endswith(".dist-info/RECORD") and n.count("/") == 1), None)
    if name is None:
        raise ToolchainError(f"{pin.filename} has no RECORD")
    if archive.getinfo(name).file_size > _LONGEST_RECORD:
        raise ToolchainError(f"{pin.filename}: RECORD is larger than {_LONGEST_RECORD >> 20} MiB")
    data = archive.read(name)
    if pin.record_sha256 and hashlib.sha256(data).hexdigest() != pin.record_sha256:
        raise ToolchainError(f"{pin.filename}: RECORD is not the one that was pinned")
    return {path: (digest, size) for path, digest, size in parse_record_file(data.decode("utf-8").splitlines())}


def _check_whole(
    pin: PinnedFile,
    record: dict[str, tuple[str, str]],
    archive: zipfile.ZipFile,
    place: Callable[[str], str | None],
) -> None:
    """Refuse a wheel that lacks what RECORD has: a compiler would take another file of that name, or none."""
    names = set(archive.namelist())
    if missing := next((name for name in record if place(name) is not None and name not in names), None):
        raise ToolchainError(f"{pin.filename}: {missing} is not there, and RECORD says that it is")


def _write(
    pin: PinnedFile,
    archive: zipfile.ZipFile,
    member: zipfile.ZipInfo,
    record: dict[str, tuple[str, str]],
    path: Path,
) -> None:
    digest, size = record.get(member.filename, ("", ""))
    # No more is unpacked than it has.
    data = archive.read(member) if str(member.file_size) == size else b""
    found = "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    if found != digest:
        raise ToolchainError(
            f"{pin.filename}: {member.filename} is not what RECORD says",
            remedy="try again; if it stays so, the index serves a broken file: report it to its owner",
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    path.chmod(0o755 if member.external_attr >> 16 & 0o111 else 0o644)


def _inside(pin: PinnedFile, path: str) -> PurePosixPath:
    relative = PurePosixPath(path)
    if relative.is_absolute() or ".." in relative.parts:
        raise ToolchainError(f"{pin.filename} would write outside its folder: {path!r}")
    return relative
