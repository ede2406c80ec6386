"""RECORD: which files a wheel has, and the hash of each."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from wheelsmith.base.errors import WheelError
from wheelsmith.base.units import counted

# What the binary distribution format calls "sha256 or better".
_STRONG = frozenset({"sha256", "sha384", "sha512", "sha3_256", "sha3_384", "sha3_512", "blake2b", "blake2s"})
_SIGNATURES = ("RECORD.jws", "RECORD.p7s")
_FIELDS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Digest:
    """A file as it is.

    :param size: in bytes.
    :param hash: as RECORD writes it: ``sha256=…``.
    """

    size: int
    hash: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordFile:
    """What a RECORD says.

    :param rows: file → its hash and size, as they stand there.
    :param wrong: what cannot be understood, or is said twice.
    """

    rows: dict[str, tuple[str, str]]
    wrong: tuple[str, ...]

    def algorithm(self, name: str) -> str:
        """Return the name of the hash that a file is to be compared by."""
        kind = self.rows.get(name, ("", ""))[0].partition("=")[0]
        return kind if kind in _STRONG else "sha256"


def read_record(data: bytes, most: int) -> RecordFile:
    """Read a RECORD.

    :param most: rows that make sense for this wheel; what follows is not read.
    """
    rows: dict[str, tuple[str, str]] = {}
    wrong: list[str] = []
    try:
        for number, row in enumerate(csv.reader(io.StringIO(data.decode("utf-8"))), 1):
            if number > most:
                wrong.append(f"RECORD has more than {most} lines")
                break
            if not row:
                continue
            if len(row) != _FIELDS:
                wrong.append(f"line {number} of RECORD has {counted(len(row), 'field')}, not {_FIELDS}")
            name, kind, size = [*row, "", ""][:_FIELDS]
            if rows.setdefault(name, (kind, size)) != (kind, size):
                wrong.append(f"RECORD says two things of {name}")
    except UnicodeDecodeError as error:
        return RecordFile(rows={}, wrong=(f"RECORD is not UTF-8: {error.reason} at byte {error.start}",))
    except csv.Error as error:
        return RecordFile(rows={}, wrong=(f"RECORD cannot be read: {error}",))
    return RecordFile(rows=rows, wrong=tuple(wrong))


def compare_record(record: RecordFile, info: str, files: Mapping[str, Digest]) -> list[str]:
    """Return what RECORD says wrongly.

    :param info: the name of the ``.dist-info`` folder.
    :param files: every file of the wheel, hashed as RECORD wants it.
    """
    if record.wrong and not record.rows:
        return list(record.wrong)
    own = f"{info}/RECORD"
    signatures = {f"{info}/{name}" for name in _SIGNATURES}
    rows = record.rows
    wrong = list(record.wrong)
    wrong += [f"{name} is not in RECORD" for name in files if name not in rows and name not in signatures]
    wrong += [f"{name} is in RECORD but not in the wheel" for name in rows if name not in files]
    wrong += [f"{name} is in RECORD, which it signs" for name in sorted(signatures & set(rows))]
    for name, digest in files.items():
        if name not in rows or name in signatures:
            continue
        said, size = rows[name]
        if name == own:
            wrong += [f"{name} lists its own hash or size"] if said or size else []
        elif why := _mistake(said, size, digest):
            wrong.append(f"{name} {why}")
    return wrong


def _mistake(said: str, size: str, digest: Digest) -> str | None:
    kind = said.partition("=")[0]
    if not said:
        return "has no hash in RECORD"
    if kind not in _STRONG:
        return f"is hashed by {kind[:20]!r} in RECORD: sha256 is the weakest that may be"
    if said != digest.hash or size not in {"", str(digest.size)}:
        return "is not what RECORD says"
    return None


class Hasher:
    """Hash a file piece by piece, the way that RECORD wants it."""

    def __init__(self, algorithm: str) -> None:
        self._algorithm = algorithm
        try:
            self._hash = hashlib.new(algorithm, usedforsecurity=False)
        except ValueError as error:
            raise WheelError(f"RECORD uses {algorithm}, which this Python does not have: {error}") from None
        self._size = 0

    def hashed(self, pieces: Iterable[bytes]) -> Iterator[bytes]:
        """Yield the pieces of the file, hashing each."""
        for piece in pieces:
            self._hash.update(piece)
            self._size += len(piece)
            yield piece

    def digest(self) -> Digest:
        """Return size and hash of all that was taken."""
        text = base64.urlsafe_b64encode(self._hash.digest()).rstrip(b"=").decode()
        return Digest(size=self._size, hash=f"{self._algorithm}={text}")


def digest_of(data: bytes, algorithm: str) -> Digest:
    """Return size and hash of a file in memory."""
    hasher = Hasher(algorithm)
    for _ in hasher.hashed([data]):
        pass
    return hasher.digest()
