"""Judge a wheel as it comes over the wire: its bytes, its side-car, and parts of it."""

from __future__ import annotations

import hashlib
import io
import re
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from email.message import Message
from email.parser import BytesParser

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from wheelsmith.index.doctor.exchange import Exchange
from wheelsmith.index.doctor.finding import BOTH, PIP, UV, IndexFinding, Severity, finding
from wheelsmith.index.doctor.names import variant_of, wheel_of
from wheelsmith.index.doctor.page import Link
from wheelsmith.index.doctor.reach import is_downgraded
from wheelsmith.index.doctor.visit import WheelVisit

_PARTIAL = 206
_SERVER_ERROR = 500
_SPAN = re.compile(r"bytes (\d+)-(\d+)/(\d+)")
# Central directories and METADATA of honest wheels are far smaller; bytes.
_MOST = 8 * 2**20
# What pip compares between side-car and wheel, and ends over.
_COMPARED: Mapping[str, Callable[[str], object]] = {
    "Name": canonicalize_name,
    "Version": Version,
    "Requires-Dist": Requirement,
    "Requires-Python": SpecifierSet,
    "Provides-Extra": canonicalize_name,
}


class UnreadableWheelError(Exception):
    """A wheel whose METADATA cannot be read."""


def judge_wheel(visit: WheelVisit) -> Iterator[IndexFinding]:
    """Judge everything that installers ask of a wheel."""
    yield from _judge_plus(visit)
    if not visit.whole.ok:
        if visit.raw is None or not visit.raw.ok:
            message = f"a wheel that is listed is answered with {visit.whole.answer.removeprefix('status ')}"
            yield finding("wheel-missing", Severity.ERROR, message, visit.whole, BOTH)
        return
    yield from _judge_bytes(visit)
    yield from _judge_side_car(visit)
    if not _encoding(visit.whole):
        yield from _judge_metadata(visit)
        yield from _judge_ranges(visit)
    yield from _judge_head(visit)
    if is_downgraded(visit.whole):
        message = "a wheel is redirected from https to http"
        yield finding("downgrade", Severity.WARNING, message, visit.whole, BOTH)


def judge_variants(link: Link, whole: Exchange) -> Iterator[IndexFinding]:
    """Judge the file that describes the variants of a version, whose hash uv checks."""
    if not whole.ok:
        message = f"a file that describes variants is answered with {whole.answer.removeprefix('status ')}"
        yield finding("variants", Severity.ERROR, message, whole, (UV,))
    elif not whole.truncated and _lies(link.hashes, whole.body):
        message = "a file that describes variants is not what its page says: another hash"
        yield finding("variants", Severity.ERROR, message, whole, (UV,))


def metadata_of(visit: WheelVisit) -> bytes:
    """Return the METADATA in the wheel, read from all of it or from its end.

    :raises UnreadableWheelError: it is no wheel, or METADATA is not in what was fetched.
    """
    whole = visit.whole
    if not whole.truncated:
        return _metadata(whole.body, 0)
    span = _span(visit.end) if visit.end else None
    if visit.end is None or span is None or visit.end.truncated:
        raise UnreadableWheelError("the wheel is larger than is fetched whole, and its end was not to be had")
    return _metadata(visit.end.body, span[0])


def _judge_plus(visit: WheelVisit) -> Iterator[IndexFinding]:
    if visit.raw is None:
        return
    if visit.raw.ok and not visit.whole.ok:
        message = "a file name with + is not found by its URL with %2B, which is what pip asks for"
        yield finding("plus-quoted", Severity.ERROR, message, visit.whole, (PIP,))
    elif visit.whole.ok and not visit.raw.ok:
        message = "links write + where %2B is meant, and the host reads it as something else: uv does not find the file"
        yield finding("plus-raw", Severity.ERROR, message, visit.raw, (UV,))
    else:
        message = "links write + where %2B is meant: on a host that reads it as a space, uv would not find the file"
        yield finding("plus-raw", Severity.ADVICE, message, visit.raw, (UV,), place=visit.page)


def _judge_bytes(visit: WheelVisit) -> Iterator[IndexFinding]:
    whole, link = visit.whole, visit.link
    if encoding := _encoding(whole):
        message = f"wheels are sent in the encoding {encoding[:40]} to who asked for none: pip sees another hash"
        yield finding("wheel-encoding", Severity.ERROR, message, whole, (PIP,))
        return
    if whole.truncated:
        return
    if _lies(link.hashes, whole.body):
        message = "a wheel is not what its page says: another hash"
        yield finding("wheel-hash", Severity.ERROR, message, whole, BOTH)
        return
    if link.size is not None and link.size != len(whole.body):
        message = "a wheel has another size than its page says"
        yield finding("wheel-size", Severity.WARNING, message, whole, (UV,))


def _judge_side_car(visit: WheelVisit) -> Iterator[IndexFinding]:
    side_car, announced = visit.side_car, visit.link.metadata
    if side_car is None or not announced:
        return
    if not side_car.ok:
        message = f"a side-car that pages announce is answered with {side_car.answer.removeprefix('status ')}"
        yield finding("side-car-missing", Severity.ERROR, message, side_car, BOTH)
        return
    if _encoding(side_car):
        message = "side-cars are sent compressed to who asked for none: pip sees another hash"
        yield finding("side-car-encoding", Severity.ERROR, message, side_car, (PIP,))
        return
    if isinstance(announced, Mapping) and _lies(announced, side_car.body):
        message = "a side-car is not what its page says: another hash"
        yield finding("side-car-hash", Severity.ERROR, message, side_car, BOTH)


def _judge_metadata(visit: WheelVisit) -> Iterator[IndexFinding]:
    try:
        metadata = metadata_of(visit)
    except UnreadableWheelError as error:
        if not visit.whole.truncated:
            yield finding("wheel-broken", Severity.ERROR, f"a wheel cannot be opened: {error}", visit.whole, BOTH)
        return
    wheel = _fields(metadata)
    if not _is_named(visit.link.filename, wheel):
        message = "name or version in a wheel's METADATA is not its file name's: installers refuse it"
        yield finding("wheel-lies", Severity.ERROR, message, visit.whole, BOTH)
    side_car = visit.side_car
    if side_car is None or not side_car.ok or _encoding(side_car):
        return
    beside = _fields(side_car.body)
    if differing := [name for name in _COMPARED if wheel[name] != beside[name]]:
        message = f"side-car and wheel disagree in {', '.join(differing)}"
        yield finding("side-car-differs", Severity.ERROR, message, side_car, ("pip from 26.2",))
    elif metadata != side_car.body:
        message = "a side-car is not byte for byte what the wheel holds, as the standard wants it"
        yield finding("side-car-differs", Severity.WARNING, message, side_car, ("mirrors",))


def _judge_ranges(visit: WheelVisit) -> Iterator[IndexFinding]:
    size = _size(visit)
    for part in (visit.start, visit.end):
        if part is None or part.failure or size is None:
            continue
        span = _span(part)
        if part.status != _PARTIAL:
            message = "wheels are not sent in parts: what was broken off begins anew"
            message += "" if visit.link.metadata else ", and uv fetches all of a wheel to resolve"
            yield finding("ranges", Severity.WARNING, message, part, BOTH)
            return
        if span is None or span[1] - span[0] != len(part.body) or span[2] != size or not _fits(visit.whole, span, part):
            message = "parts of a wheel are not the bytes that were asked for: what is taken up again has another hash"
            yield finding("wrong-ranges", Severity.WARNING, message, part, BOTH)
            return


def _judge_head(visit: WheelVisit) -> Iterator[IndexFinding]:
    # uv asks with HEAD only where there is no side-car.
    if visit.link.metadata or visit.head.ok:
        return
    fatal = visit.head.failure is not None or visit.head.status >= _SERVER_ERROR
    message = f"HEAD of a wheel is answered with {visit.head.answer.removeprefix('status ')}: uv "
    message += "fails" if fatal else "fetches all of a wheel to resolve"
    yield finding("head", Severity.ERROR if fatal else Severity.WARNING, message, visit.head, (UV,))


def _size(visit: WheelVisit) -> int | None:
    if not visit.whole.truncated:
        return len(visit.whole.body)
    length = visit.whole.headers.get("content-length", "")
    return int(length) if length.isascii() and length.isdigit() else None


def _span(part: Exchange) -> tuple[int, int, int] | None:
    """Return start, end (exclusive) and the size of the whole."""
    match = _SPAN.fullmatch(part.headers.get("content-range", ""))
    return (int(match[1]), int(match[2]) + 1, int(match[3])) if match else None


def _fits(whole: Exchange, span: tuple[int, int, int], part: Exchange) -> bool:
    start, end, _ = span
    return end > len(whole.body) or whole.body[start:end] == part.body


def _lies(hashes: Mapping[str, object], data: bytes) -> bool:
    return any(_digest(name, data) not in {None, str(digest).lower()} for name, digest in hashes.items())


def _digest(algorithm: str, data: bytes) -> str | None:
    """Return a digest in hexadecimal digits, or None where the algorithm is not one of those with a fixed length."""
    if algorithm not in hashlib.algorithms_guaranteed or algorithm.startswith("shake"):
        return None
    return hashlib.new(algorithm, data, usedforsecurity=False).hexdigest()


def _encoding(exchange: Exchange) -> str:
    found = exchange.headers.get("content-encoding", "").strip().lower()
    return "" if found == "identity" else found


def _fields(metadata: bytes) -> dict[str, frozenset[str]]:
    message: Message = BytesParser().parsebytes(metadata, headersonly=True)
    return {
        name: frozenset(_canonical(read, str(value).strip()) for value in message.get_all(name, ()))
        for name, read in _COMPARED.items()
    }


def _canonical(read: Callable[[str], object], text: str) -> str:
    try:
        return str(read(text))
    except ValueError:  # what packaging raises on all that is none
        return text


def _is_named(filename: str, fields: Mapping[str, frozenset[str]]) -> bool:
    named = wheel_of(filename) or variant_of(filename)
    return named is not None and fields["Name"] == {named[0]} and fields["Version"] == {str(named[1])}


def _metadata(data: bytes, start: int) -> bytes:
    try:
        with zipfile.ZipFile(_Part(data, start)) as archive:
            for name in archive.namelist():
                if name.endswith(".dist-info/METADATA") and name.count("/") == 1:
                    with archive.open(name) as file:
                        found = file.read(_MOST + 1)
                    if len(found) > _MOST:
                        raise UnreadableWheelError("METADATA is too large to be true")
                    return found
    # What zipfile raises on archives that were made to break it.
    except (zipfile.BadZipFile, zlib.error, OSError, ValueError, NotImplementedError, RuntimeError, EOFError) as error:
        raise UnreadableWheelError(str(error)[:100] or "it is no archive") from None
    raise UnreadableWheelError("it holds no METADATA")


class _Part(io.RawIOBase):
    """The end of a file as if all of it were there; what lies before it, or would not fit in memory, is not read."""

    def __init__(self, data: bytes, start: int) -> None:
        self._data = data
        self._start = start
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._start + len(self._data)}[whence]
        self._at = base + offset
        if self._at < 0:
            raise OSError("it points before its beginning")
        return self._at

    def read(self, size: int = -1) -> bytes:
        if size > _MOST:
            raise OSError("its directory is too large to be true")
        begin = self._at - self._start
        if begin < 0:
            raise OSError("METADATA is not at its end")
        found = self._data[begin:] if size < 0 else self._data[begin : begin + size]
        self._at += len(found)
        return found
