"""Read untrusted TOML files, and typed values from their tables. All mistakes are collected with their places."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from typing import Any

from wheelsmith.base.errors import BuildTomlError, Place, WheelsmithError
from wheelsmith.base.suggest import did_you_mean
from wheelsmith.base.units import show_binary_size

LONGEST = 1 << 20  # characters; the longest of kernels-community, aiter-flash-attn-ck, has half of it
# tomllib copies a dotted key, with its header, once for each of its names.
_MOST_COPIES = 20_000_000  # copied names, assuming that every dot is part of a key
_POSITION = re.compile(r"(.*) \(at line (\d+), column (\d+)\)")
_HEADER = re.compile(r"\s*+\[{1,2}+\s*+([^\]\s][^\]]*+)\]")
# A release that consists of numbers only.
_RELEASE = re.compile(r"\d{1,4}(\.\d{1,4}){0,3}", re.ASCII)
_LARGEST = 2**63 - 1  # TOML's limit of whole numbers
_SHOWN = 100  # characters of a value
_KEY = re.compile(r"\s*([A-Za-z0-9_.\"'-]+)\s*=")


def load_toml(text: str, file: str, mistake: type[WheelsmithError]) -> dict[str, Any]:
    """Return the content of a TOML file.

    :param mistake: the error to raise if it is invalid or too long.
    """
    if len(text) > LONGEST:
        raise mistake(f"longer than {show_binary_size(LONGEST)}", where=Place(file=file))
    dots = [line.count(".") for line in text.split("\n")]
    most = max(dots)
    if sum((count + 1) * (count + most + 1) for count in dots) > _MOST_COPIES:
        raise mistake(f"too many keys with up to {most} dots", where=Place(file=file))
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise mistake("nested too deeply", where=Place(file=file)) from None
    except ValueError as error:  # also for numbers with more digits than Python converts
        at = _POSITION.fullmatch(str(error))
        where = Place(file=file, line=int(at[2]), column=int(at[3])) if at else Place(file=file)
        raise mistake(f"not TOML: {at[1] if at else error}", where=where) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class TomlPlaces:
    """The places of tables and keys, which tomllib does not provide."""

    file: str
    lines: dict[tuple[str, ...], tuple[int, int]]

    @classmethod
    def scan(cls, text: str, file: str) -> TomlPlaces:
        """Find every table header and every key at the start of a line."""
        lines: dict[tuple[str, ...], tuple[int, int]] = {}
        table: tuple[str, ...] = ()
        for number, line in enumerate(text.splitlines(), 1):
            if header := _HEADER.match(line):
                table = _split(header[1])
                lines.setdefault(table, (number, header.start(1) + 1))
            elif key := _KEY.match(line):
                lines.setdefault((*table, *_split(key[1])), (number, key.start(1) + 1))
        return cls(file=file, lines=lines)

    def of(self, path: tuple[str, ...]) -> Place:
        """Return the place of a key, or of the nearest table around it."""
        while path and path not in self.lines:
            path = path[:-1]
        line, column = self.lines.get(path, (1, 0))
        return Place(file=self.file, line=line, column=column)


def _split(dotted: str) -> tuple[str, ...]:
    return tuple(part.strip().strip("\"'") for part in dotted.split("."))


class TableReader:
    """Reads typed values from a TOML table and collects mistakes, unknown keys included."""

    def __init__(self, table: Any, path: tuple[str, ...], places: TomlPlaces, mistakes: list[BuildTomlError]) -> None:
        self._path = path
        self._places = places
        self._mistakes = mistakes
        self._known_keys: list[str] = []
        self._table: dict[str, Any] = table if isinstance(table, dict) else {}
        if not isinstance(table, dict):
            self.add_mistake(f"{'.'.join(path)} must be a table")

    def __contains__(self, key: str) -> bool:
        """Return True if the table has the key."""
        return key in self._table

    def add_mistake(self, message: str, key: str | None = None, remedy: str | None = None) -> None:
        """Record a mistake with its place."""
        path = (*self._path, key) if key else self._path
        self._mistakes.append(BuildTomlError(message, where=self._places.of(path), remedy=remedy))

    def raw(self, key: str) -> Any:
        """Return a value of any type, or None."""
        self._known_keys.append(key)
        return self._table.get(key)

    def text(self, key: str) -> str | None:
        """Return a string, or None."""
        value = self.raw(key)
        if value is None or isinstance(value, str):
            return value
        self.add_mistake(f"{key} must be a string", key)
        return None

    def required(self, key: str) -> str:
        """Return a required string."""
        if key not in self._table:
            self._known_keys.append(key)
            self.add_mistake(f"{key} is missing in [{'.'.join(self._path)}]")
            return ""
        return self.text(key) or ""

    def integer(self, key: str) -> int | None:
        """Return a whole number that is not negative, or None."""
        value = self.raw(key)
        if value is None or (isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _LARGEST):
            return value
        self.add_mistake(f"{key} must be a whole number", key)
        return None

    def texts(self, key: str) -> tuple[str, ...]:
        """Return a list of strings; empty if the key is missing."""
        value = self.raw(key)
        if value is None:
            return ()
        if isinstance(value, list) and all(isinstance(item, str) for item in value):
            return tuple(value)
        self.add_mistake(f"{key} must be a list of strings", key)
        return ()

    def version(self, key: str) -> str | None:
        """Return a release such as 2.11 or 12.8.1, or None."""
        value = self.text(key)
        if value is not None and not _RELEASE.fullmatch(value):
            self.add_mistake(f"{key} must be a release such as 2.11, not {value[:_SHOWN]!r}", key)
            return None
        return value

    def table(self, key: str) -> TableReader | None:
        """Return a nested table, or None."""
        value = self.raw(key)
        if value is None:
            return None
        return TableReader(value, (*self._path, key), self._places, self._mistakes)

    def tables(self) -> tuple[tuple[str, TableReader], ...]:
        """Return every nested table, by name."""
        return tuple(
            (name, TableReader(value, (*self._path, name), self._places, self._mistakes))
            for name, value in self._table.items()
        )

    def check_unknown_keys(self) -> None:
        """Record a mistake for every key that was not read."""
        for key in self._table:
            if key not in self._known_keys:
                self.add_mistake(f"unknown key {key!r}", key, did_you_mean(key, sorted(self._known_keys)))
