"""Check downloads: a wheel's bytes, its metadata file, and parts of it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from wheelsmith.index.doctor.finding import IndexFinding, Severity, finding
from wheelsmith.index.doctor.http_checks import check_wheel_caching
from wheelsmith.index.doctor.http_exchange import Exchange
from wheelsmith.index.doctor.page_checks import PageFile

_PARTIAL = 206


@dataclass(frozen=True, slots=True, kw_only=True)
class WheelExchanges:
    """Requests for one wheel.

    :param whole: all of it, at the URL with ``%2B`` that pip makes of the link.
    :param raw: the first bytes at the URL as the page writes it, if that has a ``+``.
    :param part: a range of it; ``side_car``: its ``.metadata``. Both only after a successful download.
    """

    file: PageFile
    whole: Exchange
    raw: Exchange | None = None
    part: Exchange | None = None
    side_car: Exchange | None = None


def check_wheel(wheel: WheelExchanges) -> Iterator[IndexFinding]:
    """Check everything that installers request for a wheel."""
    whole, raw = wheel.whole, wheel.raw
    if raw is not None and raw.ok and not whole.ok:
        yield finding("plus-quoted", whole)
    elif raw is not None:
        yield finding("plus-raw", raw, severity=Severity.ADVICE if raw.ok else None)
    if not whole.ok:
        if raw is None or not raw.ok:
            yield finding("wheel-missing", whole, answer=whole.answer)
        return
    yield from check_wheel_caching(whole)
    encoding = whole.headers.get("content-encoding", "identity")
    if encoding != "identity":
        yield finding("wheel-encoding", whole, encoding=encoding)
        return
    if not whole.truncated and not _matches(wheel.file.hashes, whole.body):
        yield finding("wheel-hash", whole)
    yield from _check_part(wheel)
    yield from _check_side_car(wheel)


def _check_part(wheel: WheelExchanges) -> Iterator[IndexFinding]:
    part = wheel.part
    if part is not None and (part.status != _PARTIAL or not wheel.whole.body.startswith(part.body)):
        yield finding("ranges", part)


def _check_side_car(wheel: WheelExchanges) -> Iterator[IndexFinding]:
    announced, side_car = wheel.file.core_metadata, wheel.side_car
    if not announced or side_car is None:
        return
    if not side_car.ok:
        yield finding("side-car-missing", side_car, answer=side_car.answer)
    elif isinstance(announced, dict) and not _matches(announced, side_car.body):
        yield finding("side-car-hash", side_car)


def _matches(hashes: Mapping[str, str], data: bytes) -> bool:
    known = hashes.keys() & {"sha256", "sha384", "sha512", "md5"}
    return all(hashlib.new(name, data, usedforsecurity=False).hexdigest() == hashes[name].lower() for name in known)
