"""Events as JSON, a line each, on stdout."""

from __future__ import annotations

import json
import sys
from typing import Self

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
        sys.stdout.write(json.dumps({"event": type(event).__name__, **event.to_json()}) + "\n")
        sys.stdout.flush()
