"""Names of members: those that every file system takes as they are, and that pip unpacks."""

from __future__ import annotations

import re
import stat
import unicodedata
from collections.abc import Iterable

from wheelsmith.base.errors import WheelError
from wheelsmith.base.zip_archive.members import Member

_LONGEST_PART, _LONGEST = 255, 4096  # bytes: NAME_MAX and PATH_MAX of Linux
_DRIVE = re.compile(r"[A-Za-z]:")


def check_names(members: Iterable[Member]) -> None:
    """Refuse names that lead out of a folder, that meet on some file system, or that no file can have.

    :raises WheelError: there is one.
    """
    seen: dict[str, str] = {}
    folders: dict[str, str] = {}
    for member in members:
        name = member.name
        _check_name(name)
        _check_kind(member)
        folded = _folded(name)
        if folded in seen:
            other = "" if seen[folded] == name else f", also as {seen[folded]!r}"
            raise WheelError(f"it holds {name!r} twice{other}")
        seen[folded] = name
        parts = folded.split("/")
        folders.update(("/".join(parts[:depth]), name) for depth in range(1, len(parts)))
    for folded, name in seen.items():
        if folded in folders and not name.endswith("/"):
            raise WheelError(f"{name!r} is a file, and the folder of {folders[folded]!r}")


def _check_name(name: str) -> None:
    parts = name.removesuffix("/").split("/")
    if name.startswith("/") or ".." in parts or "\\" in name or not name.isprintable() or _DRIVE.match(name):
        raise WheelError(f"it holds a file with an unsafe name: {name!r}")
    if "" in parts or "." in parts or any(part != part.rstrip(". ") for part in parts):
        raise WheelError(f"it holds a file with a roundabout name: {name!r}")
    if len(name.encode()) > _LONGEST or max(len(part.encode()) for part in parts) > _LONGEST_PART:
        raise WheelError(f"it holds a file with a name that is too long: {name[:60]!r}…")


def _check_kind(member: Member) -> None:
    name, kind = member.name, stat.S_IFMT(member.mode)
    if kind == stat.S_IFLNK:
        raise WheelError(f"{name!r} is a link")
    if kind not in {0, stat.S_IFREG, stat.S_IFDIR}:
        raise WheelError(f"{name!r} is not a plain file")
    folder = name.endswith("/")
    if kind and folder != (kind == stat.S_IFDIR):
        raise WheelError(f"{name!r} is a folder by its name or by its mode, and a file by the other")
    if folder and member.size:
        raise WheelError(f"the folder {name!r} has content")


def _folded(name: str) -> str:
    """Return what file systems that ignore case and Unicode's forms make of a name."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold()).removesuffix("/")
