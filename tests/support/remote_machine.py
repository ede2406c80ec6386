"""Machines with empty caches that share a remote cache."""

import io
import threading
from collections.abc import Callable
from pathlib import Path

from wheelsmith.model import Notice
from wheelsmith.run.remote_cache import fetch_wheels
from wheelsmith.store import Objects, RemoteCache, Store
from wheelsmith.store.remote import RemoteFiles

KEY = "a" * 64
DIGEST = "d" * 64


class Machine:
    """A machine with an empty cache."""

    def __init__(self, root: Path, files: RemoteFiles) -> None:
        self.events: list[Notice] = []
        self.root = root
        self.remote = RemoteCache(files, self.events.append)
        self.objects = Objects(root / "objects", self.remote)
        self.store = Store(root / "store")

    def compile(self, content: bytes = b"code", key: str = KEY) -> None:
        self.objects.put(key, {"x.o": [content]}, ("a line",))
        self.remote.close()

    def find(self, key: str = KEY) -> bytes | None:
        action = self.objects.find(key)
        if action is None:
            return None
        file = io.BytesIO()
        self.objects.copy(action.outputs["x.o"], file)
        return file.getvalue()

    def fetch(self) -> bool:
        (self.root / "work").mkdir(parents=True, exist_ok=True)
        return bool(fetch_wheels(self.remote, self.store, [DIGEST], self.root / "work", threading.Event()))

    @property
    def warnings(self) -> list[str]:
        return [event.text for event in self.events]


def machines(root: Path, files: RemoteFiles) -> Callable[..., Machine]:
    """Return a function that makes one more machine with these files, or others."""
    return lambda files=files: Machine(root / str(len(list(root.iterdir()))), files)
