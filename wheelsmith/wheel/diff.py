"""Compare two wheels, and say where they differ: which members, and where in them."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

from wheelsmith.base.files import sha256_file
from wheelsmith.base.units import counted
from wheelsmith.base.zip_archive import Archive
from wheelsmith.wheel.archive import open_archive
from wheelsmith.wheel.elf import section_at

_MOST_NAMED = 20  # members
_LONGEST_ELF = 1 << 30  # bytes of a file whose sections are read
_LONGEST_LINE = 100  # characters


def wheel_differences(given: Path, rebuilt: Path) -> list[str]:
    """Return where a wheel differs from the one that it was built again to; nothing where name and bytes are the same.

    :raises WheelError: one of them cannot be read.
    """
    called = [f"built again it is called {rebuilt.name}"] if given.name != rebuilt.name else []
    if sha256_file(given) == sha256_file(rebuilt):
        return called
    with open_archive(given) as one, open_archive(rebuilt) as other:
        found = [*called, *_members(one, other)]
    more = len(found) - _MOST_NAMED
    rest = [f"and {counted(more, 'more difference')}"] if more > 0 else []
    return [*found[:_MOST_NAMED], *rest] or ["the files in it are the same, and packed otherwise"]


def _members(given: Archive, rebuilt: Archive) -> Iterator[str]:
    for name in sorted(given.files.keys() - rebuilt.files.keys()):
        yield f"{name} is not in the one that was built again"
    for name in sorted(rebuilt.files.keys() - given.files.keys()):
        yield f"{name} is missing"
    # RECORD last: it differs wherever anything does.
    both = sorted(given.files.keys() & rebuilt.files.keys(), key=lambda name: (name.endswith("/RECORD"), name))
    for name in both:
        place = _first_difference(given.chunks(name), rebuilt.chunks(name))
        if place is not None:
            yield f"{name} differs {_where(given, rebuilt, name, place)}"


def _first_difference(one: Iterator[bytes], other: Iterator[bytes]) -> int | None:
    """Return the offset of the first byte that differs, or at which one of them ends."""
    place, left, right = 0, b"", b""
    while True:
        left, right = left or next(one, b""), right or next(other, b"")
        size = min(len(left), len(right))
        if left[:size] != right[:size]:
            pairs = enumerate(zip(left, right, strict=False))
            return place + next(at for at, (a, b) in pairs if a != b)
        place, left, right = place + size, left[size:], right[size:]
        if not size:
            return place if left or right else None


def _where(given: Archive, rebuilt: Archive, name: str, place: int) -> str:
    if section := _section(rebuilt, name, place):
        return f"at byte {place}, in {section}"
    texts = [_line(archive, name, place) for archive in (given, rebuilt)]
    if all(text is not None for text in texts):
        return f"at byte {place}: it has {texts[0]!r}, and built again {texts[1]!r}"
    return f"at byte {place}"


def _section(archive: Archive, name: str, place: int) -> str | None:
    """Return the section of an ELF file that a byte is in."""
    if archive.files[name].size > _LONGEST_ELF:
        return None
    content = archive.read(name, _LONGEST_ELF)
    if not content.startswith(b"\x7fELF"):
        return None
    return section_at(io.BytesIO(content), place)


def _line(archive: Archive, name: str, place: int) -> str | None:
    """Return the line of a text that a byte is in; None of what is no text."""
    start, before = 0, b""
    for chunk in archive.chunks(name):
        if start + len(chunk) > place:
            at = place - start + len(before)
            window = before + chunk
            line = window[window.rfind(b"\n", 0, at) + 1 :].partition(b"\n")[0]
            return _text(line)
        start, before = start + len(chunk), chunk[-_LONGEST_LINE:]
    return ""


def _text(line: bytes) -> str | None:
    shown = line[: 4 * _LONGEST_LINE].decode("utf-8", "ignore")[:_LONGEST_LINE]
    return shown if shown.isprintable() and len(shown.encode()) >= min(len(line), _LONGEST_LINE) else None
