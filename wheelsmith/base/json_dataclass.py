"""Dataclasses with a strict JSON form.

The JSON may be forged, and the libraries are too lenient: msgspec 0.22 accepts fields that a dataclass does not have,
and cattrs 26 accepts "12" as 12.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import types
import typing
from collections.abc import Callable, Mapping
from enum import StrEnum
from functools import cache
from pathlib import PurePath
from typing import Any, Self

_MAX_MESSAGE = 300  # characters
# json.dumps creates an encoder for each call, and with an indent it does not use the one in C.
_ENCODER = json.JSONEncoder(sort_keys=True)
_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False)
# Most values are of these types, and a run writes a million of them.
_PLAIN = frozenset({str, int, bool, type(None)})


class Record:
    """Base class of frozen dataclasses with a JSON form."""

    __slots__ = ()

    def to_json(self) -> dict[str, Any]:
        """Return plain data: dicts, lists, strings, numbers, booleans and None."""
        data = {}
        for name in _readers(type(self)):  # type: ignore[arg-type]  # as below
            value = getattr(self, name)
            data[name] = value if type(value) in _PLAIN else _to_plain(value)
        return data

    @classmethod
    def from_json(cls, data: Any) -> Self:
        """Return the record from the output of ``to_json``.

        :raises ValueError: a field is missing or unknown, or has another type.
        """
        if not isinstance(data, dict):
            raise ValueError(f"expected {cls.__name__}, not {data!r}")  # noqa: TRY004  # a wrong value, not a bug
        readers = _readers(cls)  # type: ignore[arg-type]  # classes are hashable; mypy doubts it of Self
        if unknown := data.keys() - readers.keys():
            raise ValueError(f"{cls.__name__} has no field {', '.join(sorted(unknown))}")
        try:
            return cls(**{name: readers[name](value) for name, value in data.items()})
        except TypeError as error:
            raise ValueError(f"{cls.__name__}: {error}") from error


def canonical_digest(data: object) -> str:
    """Return the sha256 (hex) of ``data`` as ``canonical_json`` writes it."""
    return hashlib.sha256(canonical_json(data)).hexdigest()


def canonical_json(data: object) -> bytes:
    """Return ``data`` as JSON with sorted keys and no spaces."""
    return _CANONICAL.encode(data).encode()


def dumps_pretty(data: Mapping[str, Any]) -> bytes:
    """Return JSON for line diffs: each key and each item of a list is on a separate line."""
    encode, lines = _ENCODER.encode, []
    for key in sorted(data):
        value = data[key]
        text = "[\n" + ",\n".join(map(encode, value)) + "]" if value and isinstance(value, list) else encode(value)
        lines.append(f"{encode(key)}: {text}")
    return ("{" + ",\n".join(lines) + "}\n").encode()


def parse_json(text: str | bytes) -> Any:
    """Parse JSON. Lone surrogates are allowed, because file names need not be valid text.

    :raises ValueError: it is not JSON or nested too deeply.
    """
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def read_json(data: bytes) -> Any:
    """Parse JSON without lone surrogates, because text with a lone surrogate cannot be encoded as UTF-8.

    :raises ValueError: it is not JSON, contains a lone surrogate, or is nested too deeply.
    """
    text = data.decode()
    plain = parse_json(text)
    if "\\ud" in text or "\\uD" in text:
        json.dumps(plain, ensure_ascii=False).encode()
    return plain


def in_one_line(error: Exception) -> str:
    """Return the message of an error on one line, truncated: some errors quote all of their input."""
    return " ".join(str(error).split())[:_MAX_MESSAGE]


@cache
def _readers(cls: Any) -> dict[str, Callable[[Any], Any]]:
    hints = typing.get_type_hints(cls)
    # A record computes its fields with init=False itself.
    return {field.name: _reader(hints[field.name]) for field in dataclasses.fields(cls) if field.init}


def _to_plain(value: object) -> Any:
    if value is None or isinstance(value, (str, int)):
        return value
    if isinstance(value, Record):
        return value.to_json()
    if isinstance(value, (tuple, list)):
        return [item if type(item) in _PLAIN else _to_plain(item) for item in value]
    if isinstance(value, dict):
        return {key: item if type(item) in _PLAIN else _to_plain(item) for key, item in value.items()}
    return str(value) if isinstance(value, PurePath) else value


@cache
def _reader(hint: Any) -> Callable[[Any], Any]:
    """Return the function that reads a value of this type. It is cached, because an index may have 100,000 records."""
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin in {typing.Union, types.UnionType}:
        return _optional_reader(_reader(next(arg for arg in args if arg is not type(None))))
    if origin is tuple and args[1:] == (...,):
        return _list_reader(_reader(args[0]))
    if origin is tuple:
        return _tuple_reader(tuple(_reader(arg) for arg in args))
    if origin is dict:
        read = _reader(args[1])
        return lambda value: {key: read(item) for key, item in _expect(dict, "a table", value).items()}
    if isinstance(hint, type) and issubclass(hint, Record):
        return hint.from_json
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return hint
    if isinstance(hint, type) and issubclass(hint, PurePath):
        return lambda value: hint(_expect(str, "a path", value))
    # Any is a class since Python 3.11.
    return _scalar_reader(hint) if isinstance(hint, type) and hint is not Any else lambda value: value


def _optional_reader(read: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else read(value)


def _list_reader(read: Callable[[Any], Any]) -> Callable[[Any], tuple[Any, ...]]:
    return lambda value: tuple(map(read, _expect(list, "a list", value)))


def _tuple_reader(readers: tuple[Callable[[Any], Any], ...]) -> Callable[[Any], tuple[Any, ...]]:
    def read(value: Any) -> tuple[Any, ...]:
        items = _expect(list, "a list", value)
        return tuple(each(item) for each, item in zip(readers, items, strict=True))

    return read


def _scalar_reader(hint: type) -> Callable[[Any], Any]:
    kinds = (int, float) if hint is float else hint
    return lambda value: _expect(kinds, hint.__name__, value)


def _expect(kinds: Any, name: str, value: Any) -> Any:
    # bool is a subclass of int in Python, but JSON distinguishes them.
    if not isinstance(value, kinds) or (isinstance(value, bool) and kinds is not bool):
        raise ValueError(f"expected {name}, not {value!r}")
    return value
