"""Plain data that can be written as JSON and read again."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import types
import typing
from enum import StrEnum
from functools import cache
from typing import Any, Self


class Record:
    """A frozen dataclass that can be written as JSON and read again."""

    __slots__ = ()

    def to_json(self) -> dict[str, Any]:
        """Give plain data: dicts, lists, strings, numbers, booleans and None."""
        return {f.name: _plain(getattr(self, f.name)) for f in dataclasses.fields(self)}  # type: ignore[arg-type]  # every Record is a dataclass

    @classmethod
    def from_json(cls, data: Any) -> Self:
        """Read what ``to_json`` wrote.

        :raises ValueError: a field is missing, unknown or of another type.
        """
        if not isinstance(data, dict):
            # Callers treat a record of another shape as a wrong value, not as a mistake in their code.
            raise ValueError(f"expected {cls.__name__}, not {data!r}")  # noqa: TRY004
        hints: dict[str, Any] = _hints(cls)  # type: ignore[arg-type]  # classes are hashable; mypy doubts it of Self
        if unknown := data.keys() - hints.keys():
            raise ValueError(f"{cls.__name__} has no field {', '.join(sorted(unknown))}")
        try:
            return cls(**{name: _typed(hints[name], value) for name, value in data.items()})
        except TypeError as error:
            raise ValueError(f"{cls.__name__}: {error}") from error


def canonical_digest(data: object) -> str:
    """Give the sha256 (hex) of ``data`` as JSON with sorted keys and no spaces."""
    text = json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


@cache
def _hints(cls: Any) -> dict[str, Any]:
    return typing.get_type_hints(cls)


def _plain(value: object) -> Any:
    if isinstance(value, Record):
        return value.to_json()
    if isinstance(value, (tuple, list)):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return value


def _typed(hint: Any, value: Any) -> Any:
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin in {typing.Union, types.UnionType}:
        if value is None:
            return None
        return _typed(next(arg for arg in args if arg is not type(None)), value)
    if origin is tuple:
        if not isinstance(value, list):
            raise ValueError(f"expected a list, not {value!r}")
        if args[1:] != (...,):
            return tuple(_typed(arg, item) for arg, item in zip(args, value, strict=True))
        return tuple(_typed(args[0], item) for item in value)
    if origin is dict:
        return {key: _typed(args[1], item) for key, item in value.items()}
    if isinstance(hint, type) and issubclass(hint, Record):
        return hint.from_json(value)
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return hint(value)
    if isinstance(hint, type) and not isinstance(value, (int, float) if hint is float else hint):
        raise ValueError(f"expected {hint.__name__}, not {value!r}")  # noqa: TRY004  # as above
    return value
