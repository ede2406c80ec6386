"""Compare two wheels: list the members that differ, and the first difference in each."""

from __future__ import annotations

import io
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

from wheelsmith.base.files import sha256_file
from wheelsmith.base.units import counted
from wheelsmith.base.zip_archive import Archive
from wheelsmith.wheel.archive import open_archive
from wheelsmith.wheel.elf import section_at

_SHOWN = 20  # members
_MAX_READ = 256 << 20  # bytes; a larger member is not read into memory
_MAX_LINE = 100  # characters


def wheel_differences(given: Path, rebuilt: Path) -> list[str]:
    """Return the differences between a wheel and its rebuild; none if name and bytes are the same.

    :raises WheelError: one of the wheels cannot be read.
    """
    name_difference = [f"the rebuilt wheel is named {rebuilt.name}"] if given.name != rebuilt.name else []
    if sha256_file(given) == sha256_file(rebuilt):
        return name_difference
    with open_archive(given) as one, open_archive(rebuilt) as other:
        found = [*name_difference, *_member_differences(one, other)]
    more = len(found) - _SHOWN
    rest = [f"and {counted(more, 'more difference')}"] if more > 0 else []
    return [*found[:_SHOWN], *rest] or ["all files are the same, but the archives differ"]


def _member_differences(given: Archive, rebuilt: Archive) -> Iterator[str]:
    for name in sorted(given.files.keys() - rebuilt.files.keys()):
        yield f"{name} is not in the rebuilt wheel"
    for name in sorted(rebuilt.files.keys() - given.files.keys()):
        yield f"{name} is only in the rebuilt wheel"
    # RECORD last: it differs if any other file does.
    both = sorted(given.files.keys() & rebuilt.files.keys(), key=lambda name: (name.endswith("/RECORD"), name))
    for name in both:
        place = _first_difference(given.chunks(name), rebuilt.chunks(name))
        if place is not None:
            large = max(given.files[name].size, rebuilt.files[name].size) > _MAX_READ
            where = "" if large else _describe_place(given.read(name), rebuilt.read(name), place)
            yield f"{name} differs at byte {place}{where}"


def _first_difference(one: Iterator[bytes], other: Iterator[bytes]) -> int | None:
    """Return the offset of the first different byte, or the length of the shorter content; None if both are equal.

    :param one: chunks of the same size as those of ``other``.
    """
    place = 0
    for left, right in zip_longest(one, other, fillvalue=b""):
        if left != right:
            return place + next(at for at in range(len(left) + 1) if left[at : at + 1] != right[at : at + 1])
        place += len(left)
    return None


def _describe_place(given: bytes, rebuilt: bytes, place: int) -> str:
    """Return the ELF section that contains a byte, or the differing lines of two text files."""
    if rebuilt.startswith(b"\x7fELF"):
        section = section_at(io.BytesIO(rebuilt), place)
        return f", in {section}" if section else ""
    lines = [content[content.rfind(b"\n", 0, place) + 1 :].partition(b"\n")[0] for content in (given, rebuilt)]
    texts = [line.decode("utf-8", "replace")[:_MAX_LINE] for line in lines]
    if not all(text.isprintable() and "\ufffd" not in text for text in texts):
        return ""
    return f": it has {texts[0]!r}, the rebuilt wheel has {texts[1]!r}"
