"""Read the archive of a wheel, and compare its files with RECORD."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from email import message_from_bytes, policy
from email.message import EmailMessage, Message
from email.parser import Parser
from pathlib import Path
from typing import cast

from wheelsmith.base.errors import Place, WheelError
from wheelsmith.base.units import counted
from wheelsmith.base.zip_archive import Archive
from wheelsmith.model import read_wheel_name

RECORDS = ("METADATA", "WHEEL", "RECORD")
# "sha256 or better": https://packaging.python.org/en/latest/specifications/binary-distribution-format/
_STRONG = frozenset({"sha256", "sha384", "sha512", "sha3_256", "sha3_384", "sha3_512", "blake2b", "blake2s"})
_SIGNATURES = ("RECORD.jws", "RECORD.p7s")
_FIELDS = 3
LONGEST_TEXT = 8 * 2**20  # bytes of METADATA or variant.json; some METADATA has a README with embedded images


@dataclass(frozen=True, slots=True, kw_only=True)
class WheelContents:
    """A wheel in memory.

    :param info: name of the ``.dist-info`` folder.
    :param files: path → content, without folders.
    """

    filename: str
    info: str
    files: dict[str, bytes]

    @property
    def metadata(self) -> EmailMessage:
        """Return METADATA's headers."""
        return self._headers("METADATA")

    @property
    def wheel(self) -> EmailMessage:
        """Return WHEEL's headers."""
        return self._headers("WHEEL")

    def _headers(self, name: str) -> EmailMessage:
        # typeshed does not know that the policy determines the type.
        return cast("EmailMessage", message_from_bytes(self.files[f"{self.info}/{name}"], policy=policy.compat32))


def read_headers(data: bytes) -> Message[str, str]:
    """Parse the headers of METADATA or WHEEL. ``defects`` of the result lists the mistakes."""
    return Parser(policy=policy.compat32).parsestr(data.decode("utf-8", "replace"), headersonly=True)


def open_wheel(path: Path) -> WheelContents:
    """Read a wheel into memory.

    :raises WheelError: it is not a wheel, or cannot be read.
    """
    with open_archive(path) as archive:
        info = info_folder(archive)
        return WheelContents(filename=path.name, info=info, files={name: archive.read(name) for name in archive.files})


def open_archive(path: Path) -> Archive:
    """Open a wheel's archive.

    :raises WheelError: its name is not that of a wheel, or it cannot be read.
    """
    try:
        read_wheel_name(path.name)
    except ValueError as error:
        raise WheelError(str(error), where=Place(file=path.name)) from None
    return Archive(path)


def info_folder(archive: Archive) -> str:
    """Return the name of the ``.dist-info`` folder.

    :raises WheelError: there is not exactly one, or it lacks METADATA, WHEEL or RECORD.
    """
    where = Place(file=archive.path.name)
    infos = sorted({name.split("/")[0] for name in archive.members if name.split("/")[0].endswith(".dist-info")})
    if len(infos) != 1:
        raise WheelError(f"it has {len(infos)} .dist-info folders, not one{_join_names(infos)}", where=where)
    for name in RECORDS:
        if f"{infos[0]}/{name}" not in archive.members:
            raise WheelError(f"it has no {infos[0]}/{name}", where=where)
    return infos[0]


def _join_names(infos: list[str]) -> str:
    return f": {', '.join(infos[:5])}" if infos else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Digest:
    """Size and hash of a file.

    :param size: in bytes.
    :param hash: in the format of RECORD: ``sha256=…``.
    """

    size: int
    hash: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordFile:
    """A parsed RECORD.

    :param rows: file → hash and size, unparsed.
    :param mistakes: descriptions of lines that are invalid or contradict each other.
    """

    rows: dict[str, tuple[str, str]]
    mistakes: tuple[str, ...]

    def algorithm(self, name: str) -> str:
        """Return the name of the hash algorithm for a file."""
        kind = self.rows.get(name, ("", ""))[0].partition("=")[0]
        return kind if kind in _STRONG else "sha256"


def read_record(data: bytes) -> RecordFile:
    """Parse a RECORD."""
    rows: dict[str, tuple[str, str]] = {}
    mistakes: list[str] = []
    try:
        for number, row in enumerate(csv.reader(io.StringIO(data.decode("utf-8"))), 1):
            if not row:
                continue
            if len(row) != _FIELDS:
                mistakes.append(f"line {number} of RECORD has {counted(len(row), 'field')}, not {_FIELDS}")
            name, kind, size = [*row, "", ""][:_FIELDS]
            if rows.setdefault(name, (kind, size)) != (kind, size):
                mistakes.append(f"RECORD has contradictory lines for {name}")
    except UnicodeDecodeError as error:
        return RecordFile(rows={}, mistakes=(f"RECORD is not UTF-8: {error.reason} at byte {error.start}",))
    except csv.Error as error:
        return RecordFile(rows={}, mistakes=(f"RECORD cannot be read: {error}",))
    return RecordFile(rows=rows, mistakes=tuple(mistakes))


def compare_record(record: RecordFile, info: str, files: Mapping[str, Digest]) -> list[str]:
    """Compare a RECORD with the files of its wheel, and return the mistakes.

    :param info: name of the ``.dist-info`` folder.
    :param files: every file of the wheel, hashed with the algorithm of its row.
    """
    if record.mistakes and not record.rows:
        return list(record.mistakes)
    own = f"{info}/RECORD"
    signatures = {f"{info}/{name}" for name in _SIGNATURES}
    rows = record.rows
    mistakes = list(record.mistakes)
    mistakes += [f"{name} is not in RECORD" for name in files if name not in rows and name not in signatures]
    mistakes += [f"{name} is in RECORD but not in the wheel" for name in rows if name not in files]
    mistakes += [f"{name} signs RECORD, so it must not be in RECORD" for name in sorted(signatures & set(rows))]
    for name, digest in files.items():
        if name not in rows or name in signatures:
            continue
        recorded_hash, size = rows[name]
        if name == own:
            mistakes += [f"{name} lists its own hash or size"] if recorded_hash or size else []
        elif why := _row_mistake(recorded_hash, size, digest):
            mistakes.append(f"{name} {why}")
    return mistakes


def _row_mistake(recorded_hash: str, size: str, digest: Digest) -> str | None:
    kind = recorded_hash.partition("=")[0]
    if not recorded_hash:
        return "has no hash in RECORD"
    if kind not in _STRONG:
        return f"has a {kind[:20]!r} hash in RECORD, which is weaker than sha256"
    if recorded_hash != digest.hash or size not in {"", str(digest.size)}:
        return "differs from its hash or size in RECORD"
    return None


class Hasher:
    """Hashes a file in chunks, with the algorithm that RECORD uses for it.

    :raises WheelError: Python does not have the algorithm.
    """

    def __init__(self, algorithm: str) -> None:
        self._algorithm = algorithm
        try:
            self._hash = hashlib.new(algorithm, usedforsecurity=False)
        except ValueError as error:
            raise WheelError(f"RECORD uses the hash {algorithm}, which this Python does not support: {error}") from None
        self._size = 0

    def update(self, piece: bytes) -> None:
        """Add the next chunk of the file."""
        self._hash.update(piece)
        self._size += len(piece)

    def hash_chunks(self, pieces: Iterable[bytes]) -> Iterator[bytes]:
        """Yield the chunks of the file, and add each to the hash."""
        for piece in pieces:
            self.update(piece)
            yield piece

    def digest(self) -> Digest:
        """Return size and hash of all chunks so far."""
        text = base64.urlsafe_b64encode(self._hash.digest()).rstrip(b"=").decode()
        return Digest(size=self._size, hash=f"{self._algorithm}={text}")


def record_mistakes(contents: WheelContents) -> list[str]:
    """Compare every file of a wheel in memory with its RECORD, and return the mistakes."""
    record = read_record(contents.files[f"{contents.info}/RECORD"])
    files = {}
    for name, data in contents.files.items():
        hasher = Hasher(record.algorithm(name))
        hasher.update(data)
        files[name] = hasher.digest()
    return compare_record(record, contents.info, files)
