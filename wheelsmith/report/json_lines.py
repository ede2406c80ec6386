"""Events as JSON, a line each, on stdout."""

from __future__ import annotations

import dataclasses
import json
import sys
from typing import Self

from wheelsmith.base.record import Record
from wheelsmith.model import Event


class JsonReporter:
    """Writes every event with its type's name under ``event``."""

    def __enter__(self) -> Self:
        """Begin."""
        return self

    def __exit__(self, *_: object) -> None:
        """End."""

    def __call__(self, event: Event) -> None:
        """Write the event."""
        fields = {field.name: _plain(getattr(event, field.name)) for field in dataclasses.fields(event)}
        sys.stdout.write(json.dumps({"event": type(event).__name__, **fields}) + "\n")
        sys.stdout.flush()


def _plain(value: object) -> object:
    if isinstance(value, Record):
        return value.to_json()
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    return value
