"""Open a wheel that nobody trusts: names, sizes and hashes are checked before its content is used."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import lzma
import stat
import struct
import zipfile
import zlib
from dataclasses import dataclass
from email import message_from_bytes, policy
from email.message import EmailMessage
from pathlib import Path, PurePosixPath
from typing import cast

from wheelsmith.errors import Place, WheelError
from wheelsmith.tags import read_wheel_name

MOST_MEMBERS = 20_000
MOST_BYTES = 8 * 2**30
_GROWTH = 100
_HARMLESS = 256 * 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class WheelContents:
    """A wheel in memory.

    :param info: the name of the ``.dist-info`` folder.
    :param files: path → content, of every member that is not a folder.
    """

    filename: str
    info: str
    files: dict[str, bytes]

    @property
    def metadata(self) -> EmailMessage:
        """Give METADATA's headers."""
        return self._headers("METADATA")

    @property
    def wheel(self) -> EmailMessage:
        """Give WHEEL's headers."""
        return self._headers("WHEEL")

    @property
    def extensions(self) -> dict[str, bytes]:
        """Give every ELF file."""
        return {name: data for name, data in self.files.items() if data[:4] == b"\x7fELF"}

    def _headers(self, name: str) -> EmailMessage:
        # email.message_from_bytes gives what its policy makes.
        return cast("EmailMessage", message_from_bytes(self.files[f"{self.info}/{name}"], policy=policy.compat32))


def open_wheel(path: Path) -> WheelContents:
    """Read a wheel.

    :raises WheelError: it is no wheel, or holds what a wheel must not hold.
    """
    try:
        read_wheel_name(path.name)
    except ValueError as error:
        raise _bad(path, str(error)) from None
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            _check_members(path, members)
            _check_growth(path, members)
            files = {m.filename: archive.read(m) for m in members if not m.is_dir()}
    except FileNotFoundError:
        raise WheelError(f"there is no {path}") from None
    except (
        *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error, EOFError),
        *(NotImplementedError, RuntimeError, ValueError, OverflowError, MemoryError),
    ) as error:
        # zipfile meets broken archives with whatever Python raises where they break.
        raise _bad(path, f"not a readable zip archive: {error}", "build or download it again") from None
    except OSError as error:
        raise WheelError(f"{path} cannot be read: {error.strerror or error}") from None
    infos = {name.split("/")[0] for name in files if name.split("/")[0].endswith(".dist-info")}
    if len(infos) != 1:
        raise _bad(path, f"it has {len(infos)} .dist-info folders, not one")
    info = infos.pop()
    for name in ("METADATA", "WHEEL", "RECORD"):
        if f"{info}/{name}" not in files:
            raise _bad(path, f"it has no {info}/{name}")
    return WheelContents(filename=path.name, info=info, files=files)


def record_mistakes(contents: WheelContents) -> list[str]:
    """Compare every file with RECORD; give what is wrong."""
    own = f"{contents.info}/RECORD"
    try:
        rows = list(csv.reader(io.StringIO(contents.files[own].decode("utf-8"))))
    except (UnicodeDecodeError, csv.Error) as error:
        return [f"RECORD cannot be read: {error}"]
    recorded = {row[0]: row[1:] for row in rows if row}
    wrong = [f"{name} is not in RECORD" for name in contents.files if name not in recorded]
    wrong += [f"{name} is in RECORD but not in the wheel" for name in recorded if name not in contents.files]
    for name, data in contents.files.items():
        if name == own or name not in recorded:
            continue
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        if recorded[name] != [f"sha256={digest}", str(len(data))]:
            wrong.append(f"{name} is not what RECORD says")
    return wrong


def _check_members(path: Path, members: list[zipfile.ZipInfo]) -> None:
    if len(members) > MOST_MEMBERS or sum(member.file_size for member in members) > MOST_BYTES:
        raise _bad(path, f"it unpacks to more than {MOST_MEMBERS} files or {MOST_BYTES >> 30} GiB")
    seen: set[str] = set()
    for member in members:
        name = member.filename
        parts = PurePosixPath(name).parts
        if not parts or name.startswith("/") or ".." in parts or "\\" in name or not name.isprintable():
            raise _bad(path, f"it holds a file with an unsafe name: {name!r}")
        if name.rstrip("/") != str(PurePosixPath(name)):
            raise _bad(path, f"it holds a file with a roundabout name: {name!r}")
        if name.lower() in seen:
            raise _bad(path, f"it holds {name!r} twice")
        seen.add(name.lower())
        if stat.S_ISLNK(member.external_attr >> 16):
            raise _bad(path, f"{name!r} is a link")
        if stat.S_IFMT(member.external_attr >> 16) not in {0, stat.S_IFREG, stat.S_IFDIR}:
            raise _bad(path, f"{name!r} is not a plain file")


def _check_growth(path: Path, members: list[zipfile.ZipInfo]) -> None:
    """Refuse an archive that is small only because it is made to burst; compiled code shrinks by ten at the most."""
    total = sum(member.file_size for member in members)
    if total > _HARMLESS and total > _GROWTH * path.stat().st_size:
        raise _bad(path, f"it unpacks to {total // path.stat().st_size} times its size")


def _bad(path: Path, message: str, remedy: str | None = None) -> WheelError:
    return WheelError(message, where=Place(file=path.name), remedy=remedy)
