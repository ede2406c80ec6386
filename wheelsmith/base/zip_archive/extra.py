"""Extra fields of a zip archive's headers: the two that change what a reader sees."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from wheelsmith.base.errors import WheelError

_HEAD = struct.Struct("<2H")
_ZIP64, _UNICODE_PATH = 0x0001, 0x7075
_UNICODE_HEAD = 5  # bytes: version and the checksum of the name in the header
_FULL = 0xFFFFFFFF


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtraFields:
    """What extra fields say that a reader may believe instead of the header.

    :param zip64: the numbers of a zip64 field; None where there is none.
    :param path: the name of a Unicode path field; None where there is none.
    """

    zip64: tuple[int, ...] | None
    path: bytes | None


def read_extra(data: bytes) -> ExtraFields:
    """Return what the extra fields of a header say.

    :raises WheelError: they cannot be told apart, or one stands there twice.
    """
    found: dict[int, bytes] = {}
    at = 0
    while len(data) - at >= _HEAD.size:
        kind, size = _HEAD.unpack_from(data, at)
        at += _HEAD.size
        if at + size > len(data):
            raise WheelError("an extra field is longer than its header")
        if kind in {_ZIP64, _UNICODE_PATH}:
            if kind in found:
                raise WheelError(f"extra field {kind:#06x} is there twice")
            found[kind] = data[at : at + size]
        at += size
    if any(data[at:]):
        raise WheelError("there is a part of an extra field")
    numbers, path = found.get(_ZIP64), found.get(_UNICODE_PATH)
    return ExtraFields(
        zip64=None if numbers is None else struct.unpack_from(f"<{min(len(numbers) // 8, 3)}Q", numbers),
        path=None if path is None else path[_UNICODE_HEAD:],
    )


def true_values(extra: ExtraFields, size: int, packed: int, start: int = 0) -> tuple[int, int, int]:
    """Return size, packed size and offset, each from the zip64 field where the header leaves it to that.

    :raises WheelError: the field lacks one, or says more, and other than the header.
    """
    given = [size, packed, start]
    left = [place for place, value in enumerate(given) if value == _FULL]
    numbers = extra.zip64 or ()
    if len(numbers) < len(left):
        raise WheelError("a size is left to a zip64 field, which lacks it")
    for place, number in zip(left, numbers, strict=False):
        given[place] = number
    # Some writers put every number there, and some readers take them in this order, whatever the header says.
    if len(numbers) > len(left) and list(numbers) != given[: len(numbers)]:
        raise WheelError("its zip64 field and its header say different things")
    return given[0], given[1], given[2]
