"""What wheelsmith keeps for one build outside of its sandbox: no more than the build may write inside."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator

from wheelsmith.base.errors import OutputError


class Allowance:
    """Bytes that may be kept, shared by all calls of a build.

    :param most: of them.
    """

    def __init__(self, most: int) -> None:
        self._left = most
        self._lock = threading.Lock()

    @property
    def is_spent(self) -> bool:
        """Say whether nothing more may be kept."""
        return self._left < 0

    def take(self, size: int) -> None:
        """Count bytes that are kept from now on."""
        with self._lock:
            self._left -= size

    def counted(self, content: Iterable[bytes]) -> Iterator[bytes]:
        """Yield content that is kept.

        :raises OutputError: it is too much.
        """
        for chunk in content:
            self.take(len(chunk))
            if self.is_spent:
                raise OutputError("what the build has compiled is more than it may write")
            yield chunk
