"""Repos of a Hub on this machine: branches, commits that follow each other, and large files beside git."""

from __future__ import annotations

import base64
import hashlib
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from typing import Any

_LARGE = 10 << 20


class RefusedError(Exception):
    """An answer that is not 200: its status, what it says, and the Hub's own code for it."""

    def __init__(self, status: int, message: str = "", code: str = "") -> None:
        super().__init__(message)
        self.status, self.message, self.code = status, message, code


@dataclass
class Commit:
    """One commit: every file as it is there, and which commit wrote each."""

    oid: str
    parent: str | None
    title: str
    when: datetime
    files: dict[str, bytes]
    writers: dict[str, str]


@dataclass
class Repo:
    """One repo. ``files`` are those of main, and may be changed in place, as if they had always been so.

    :param kind: as in the API's addresses: models, datasets, spaces or kernels.
    :param token: what readers must send; None lets anybody read.
    :param write_token: what writers must send; None lets anybody write.
    :param faults: path → what is sent in its place, or a status.
    :param full: it takes no more large files: ``said`` by the protocol, or ``refused`` where they are sent.
    """

    first: dict[str, bytes] = field(default_factory=dict)
    names: tuple[str, ...] = ("main", "v1")
    kind: str = "kernels"
    token: str | None = None
    write_token: str | None = None
    faults: dict[str, bytes | int] = field(default_factory=dict)
    full: str = ""
    large: dict[str, bytes] = field(default_factory=dict)
    commits: dict[str, Commit] = field(default_factory=dict)
    branches: dict[str, str] = field(default_factory=dict)
    lock: threading.RLock = field(default_factory=threading.RLock)

    def __post_init__(self) -> None:
        oid = self._record(None, "initial commit", self.first, self.first).oid
        self.branches = dict.fromkeys(self.names, oid)

    @property
    def commit(self) -> str:
        return self.branches["main"]

    @property
    def files(self) -> dict[str, bytes]:
        return self.commits[self.commit].files

    def at(self, revision: str) -> Commit:
        """Return the commit that a branch, or the whole or the beginning of a hash, names."""
        oid = self.branches.get(revision, revision)
        found = [self.commits[oid]] if oid in self.commits else []
        if not found and len(oid) >= 7:
            found = [commit for name, commit in self.commits.items() if name.startswith(oid)]
        if len(found) != 1:
            raise RefusedError(404, "Invalid rev id", "RevisionNotFound")
        return found[0]

    def history(self, revision: str) -> list[Commit]:
        """Return the commits from the newest to the first."""
        found = [self.at(revision)]
        while found[-1].parent:
            found.append(self.commits[found[-1].parent])
        return found

    def branch(self, name: str, start: str) -> None:
        with self.lock:
            if name in self.branches:
                raise RefusedError(409, "Reference already exists")
            self.branches[name] = self.at(start).oid

    def apply(self, branch: str, lines: Iterable[dict[str, Any]]) -> Commit:
        """Make a commit of the lines that the client sends: a header, then one line an operation."""
        header, *operations = ((line["key"], line["value"]) for line in lines)
        with self.lock:
            if branch not in self.branches:
                raise RefusedError(404, "Invalid rev id", "RevisionNotFound")
            head = self.commits[self.branches[branch]]
            parent = header[1].get("parentCommit")
            if parent and not head.oid.startswith(parent):
                raise RefusedError(412, "A commit has happened since. Please refresh and try again.")
            files, written = dict(head.files), {}
            for key, value in operations:
                if key in {"deletedFile", "deletedFolder"}:
                    self._remove(files, key, value["path"])
                else:
                    files[value["path"]] = written[value["path"]] = self._content(key, value)
            commit = self._record(head, header[1]["summary"], files, written)
            self.branches[branch] = commit.oid
            return commit

    def _content(self, key: str, value: dict[str, Any]) -> bytes:
        if key == "file":
            return base64.b64decode(value["content"])
        if key != "lfsFile" or value["oid"] not in self.large:
            raise RefusedError(400, "Your push was rejected: an LFS pointer points to a file that does not exist")
        return self.large[value["oid"]]

    @staticmethod
    def _remove(files: dict[str, bytes], key: str, path: str) -> None:
        gone = [path] if key == "deletedFile" else [name for name in files if name.startswith(path.rstrip("/") + "/")]
        if not gone or any(name not in files for name in gone):
            raise RefusedError(404, "A file with this name doesn't exist", "EntryNotFound")
        for name in gone:
            del files[name]

    def _record(self, parent: Commit | None, title: str, files: dict[str, bytes], written: Iterable[str]) -> Commit:
        text = f"{parent.oid if parent else ''} {title} {sorted(written)} {len(self.commits)}"
        if not parent:
            text += "".join(sorted(f"{name} {git_hash(data)}" for name, data in files.items()))
        oid = hashlib.sha1(text.encode()).hexdigest()
        writers = dict.fromkeys(files, oid) if parent is None else {**parent.writers, **dict.fromkeys(written, oid)}
        commit = Commit(oid, parent.oid if parent else None, title, datetime.now(UTC), files, writers)
        self.commits[oid] = commit
        return commit

    def described(self, commit: Commit, path: str, *, expand: bool = False) -> dict[str, Any]:
        """Return a file as the API's listings do."""
        data = commit.files[path]
        found: dict[str, Any] = {"type": "file", "path": path, "size": len(data), "oid": git_hash(data)}
        if is_large(data[:512], len(data)):
            pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{sha256(data)}\nsize {len(data)}\n"
            found["oid"] = git_hash(pointer.encode())
            found["lfs"] = {"oid": sha256(data), "size": len(data), "pointerSize": len(pointer)}
        if expand:
            writer = self.commits[commit.writers.get(path, commit.oid)]  # a test may put a file there by hand
            found["lastCommit"] = {"id": writer.oid, "title": writer.title, "date": written_date(writer.when)}
        return found


def folders(paths: Iterable[str]) -> set[str]:
    """Return every folder that these files lie in."""
    return {path.rsplit("/", depth)[0] for path in paths for depth in range(1, path.count("/") + 1)} - {""}


def is_large(sample: bytes, size: int) -> bool:
    """Say whether the Hub keeps a file beside git: a big one, or one that is no text."""
    return size > _LARGE or b"\0" in sample


def written_date(when: datetime) -> str:
    return when.strftime("%Y-%m-%dT%H:%M:%S.") + f"{when.microsecond // 1000:03d}Z"


@cache
def git_hash(data: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


@cache
def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
