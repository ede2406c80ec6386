"""What a file beside a wheel is here: where it lies, how the simple pages announce it, and who can make it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import IO, Any, ClassVar

from wheelsmith.index.entries.entry import IndexEntry, file_key


class SideFile(ABC):
    """One kind of file beside a wheel; its module is all that is known of it.

    :cvar suffix: what its name has after the wheel's.
    :cvar needs_address: whether pages announce it by its whole address, and not at all where that is not known.
    """

    suffix: ClassVar[str]
    needs_address: ClassVar[bool] = False

    @abstractmethod
    def of_wheel(self, wheel: Path | IO[bytes], filename: str) -> bytes | None:
        """Return the content that follows from the wheel; None where it does not, and has to be carried along.

        :raises PackageIndexError: the wheel cannot be read.
        """

    def of_another(self, filename: str, sha256: str, content: bytes) -> str | None:
        """Say why a content cannot be that which lies beside a wheel; None where it may be, which proves nothing."""
        return None

    @abstractmethod
    def json_keys(self, url: str, sha256: str) -> dict[str, Any]:
        """Return what announces it in the JSON of a simple page."""

    @abstractmethod
    def html_attributes(self, url: str, sha256: str) -> dict[str, str]:
        """Return what announces it in the HTML of a simple page."""

    def path(self, entry: IndexEntry, sha256: str) -> str:
        """Return where it lies: under its own hash, since a wheel may be signed twice and no file ever changes."""
        return file_key(sha256, f"{entry.filename}{self.suffix}")
