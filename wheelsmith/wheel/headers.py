"""METADATA and WHEEL: files of headers, read so that no reader can see others."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

# Bytes of METADATA or WHEEL. The longest of real wheels have a README with pictures inside.
LONGEST_TEXT = 8 * 2**20

_LONGEST = 512 * 2**10  # characters of headers, without the text behind them
_MOST = 10_000  # lines of headers
_FIELD = re.compile(r"([!-9;-~]+):(.*)", re.DOTALL)  # RFC 5322, 2.2
# Fields that are compared or obeyed: readers disagree on how to join one that goes over several lines.
_ONE_LINE = frozenset(
    {
        *("metadata-version", "name", "version", "requires-dist", "requires-python", "provides-extra", "dynamic"),
        *("wheel-version", "root-is-purelib", "tag", "build"),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Headers:
    """The headers of a file.

    :param fields: name in lower case → its values, in the order of the file.
    :param wrong: what one reader may see and another not.
    :param block: the headers as they are, without the text behind them.
    """

    fields: dict[str, tuple[str, ...]]
    wrong: tuple[str, ...]
    block: bytes

    def get(self, name: str) -> str | None:
        """Return the first value of a field, or None where there is none."""
        return next(iter(self.get_all(name)), None)

    def get_all(self, name: str) -> tuple[str, ...]:
        """Return every value of a field."""
        return self.fields.get(name.lower(), ())


def read_headers(data: bytes) -> Headers:
    """Read the headers at the beginning of a file, up to the first empty line."""
    block = re.split(rb"\r?\n\r?\n", data[: _LONGEST + 1], maxsplit=1)[0]
    if len(block) > _LONGEST or block.count(b"\n") > _MOST:
        return _unread(f"its headers are longer than {_LONGEST} bytes or {_MOST} lines")
    try:
        lines = block.decode("utf-8").replace("\r\n", "\n").split("\n")
    except UnicodeDecodeError as error:
        return _unread(f"it is not UTF-8: {error.reason} at byte {error.start}")
    return replace(_read(lines), block=block)


def _read(lines: list[str]) -> Headers:
    found: list[tuple[str, list[str]]] = []
    wrong: list[str] = []
    for number, line in enumerate(lines, 1):
        if not line:
            continue
        if not line.replace("\t", " ").isprintable() and _has_control(line):
            wrong.append(f"line {number} has a control character")
        field = _FIELD.fullmatch(line)
        if line[0] in " \t" and found:
            found[-1][1].append(line)
        elif field:
            found.append((field[1].lower(), [field[2].lstrip(" \t")]))
        else:
            # A reader of mail takes all that follows for the text.
            wrong.append(f"line {number} is no header: {line[:60]!r}")
            break
    wrong += [f"{name} goes over several lines" for name, parts in found if len(parts) > 1 and name in _ONE_LINE]
    fields: dict[str, list[str]] = {}
    for name, parts in found:
        fields.setdefault(name, []).append("\n".join(parts))
    return Headers(fields={name: tuple(values) for name, values in fields.items()}, wrong=tuple(wrong), block=b"")


def _has_control(line: str) -> bool:
    return any(ord(character) < ord(" ") and character != "\t" for character in line) or bool(
        re.search("[\x7f-\x9f\u2028\u2029]", line)
    )


def _unread(reason: str) -> Headers:
    return Headers(fields={}, wrong=(reason,), block=b"")
