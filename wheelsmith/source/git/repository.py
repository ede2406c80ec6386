"""A bare repository in the cache: what was fetched from one address, never checked out.

``refs/wheelsmith/commits/…`` keeps what is here whole; ``refs/wheelsmith/asked/…`` is what a name was, last time.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from filelock import FileLock

from wheelsmith.base.beneath import open_file, remove_tree
from wheelsmith.base.errors import SourceError
from wheelsmith.base.files import mark_used
from wheelsmith.base.git_address import GitAddress
from wheelsmith.base.offline import VENDOR, is_offline
from wheelsmith.model import Listener
from wheelsmith.source.git.entries import TreeEntry, read_entries
from wheelsmith.source.git.program import MOST_WRITTEN, TOO_LARGE, GitError, git, git_output
from wheelsmith.source.git.progress import Progress
from wheelsmith.source.git.reasons import explain_fetch

_COMMIT = re.compile(r"[0-9a-f]{40}")
_ALL = ("+refs/heads/*:refs/wheelsmith/heads/*", "+refs/tags/*:refs/wheelsmith/tags/*")
_CHUNK = 1 << 20  # bytes
_LONGEST_HEADER = 200  # bytes before a blob's content: its id, its type and its size


class DamagedError(Exception):
    """What is in the cache of a repository cannot be read.

    :param repository: whose it is.
    :param said: why, in one line.
    """

    def __init__(self, repository: Repository, said: str) -> None:
        super().__init__(said)
        self.repository = repository
        self.said = said


@dataclass(frozen=True, slots=True, kw_only=True)
class Repository:
    """What is in the cache of one repository.

    :param address: where it is fetched from.
    :param root: its folder in the cache.
    :param listen: hears of a download.
    """

    address: GitAddress
    root: Path
    listen: Listener

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep other processes out of it while the block runs."""
        self.root.mkdir(parents=True, exist_ok=True)
        with FileLock(self.root.with_name(f".{self.root.name}.lock")):
            mark_used(self.root)
            yield

    def commit_of(self, revision: str) -> str:
        """Return the commit that a revision names now; a commit that is here needs no network.

        :raises SourceError: it cannot be had.
        :raises DamagedError: what is here is in the way.
        """
        if _COMMIT.fullmatch(revision) and self._find(_kept(revision)):
            return revision
        asked = f"refs/wheelsmith/asked/{hashlib.sha256(revision.encode()).hexdigest()}"
        before = self._find(asked)
        try:
            git(self._bare, "init", "--quiet", "--bare", "--template=", str(self._bare))
            self._remove_unfinished()
            self._fetch(revision, asked)
        except GitError as error:
            self._check()
            raise explain_fetch(self.address, revision, error.said, before) from None
        commit = self._find(asked)
        if commit is None:
            raise SourceError(f"{revision} of {self.address.shown} is no commit", remedy="name a branch, tag or commit")
        git(self._bare, "update-ref", _kept(commit), commit)
        return commit

    def entries(self, commit: str) -> Iterator[TreeEntry]:
        """Yield all that a commit holds; submodules are not gone into.

        :raises SourceError: something in it is nothing that a source has.
        :raises DamagedError: it cannot be read.
        """
        try:
            with closing(
                git_output(self._bare, "ls-tree", "-r", "-t", "-z", "--long", "--full-tree", commit)
            ) as output:
                yield from read_entries(output)
        except GitError as error:
            raise DamagedError(self, error.said) from None

    def settings(self, blob: str) -> list[tuple[str, str]]:
        """Return what stands in a file that is written as git's own configuration, in its order.

        :raises SourceError: it is not written so.
        """
        try:
            # By itself git reads the files of this machine that a blob includes.
            text = git(self._bare, "config", f"--blob={blob}", "--no-includes", "--null", "--list")
        except GitError as error:
            raise SourceError(f".gitmodules cannot be read: {error.said}") from None
        return [(name, value) for name, _, value in (item.partition("\n") for item in text.split("\0"))]

    def stored(self) -> int:
        """Return how many bytes were fetched of it, now and before."""
        return sum(path.stat().st_size for path in self._bare.glob("objects/*/*"))

    def blob(self, name: str) -> Path:
        """Return where a blob lies that was laid out."""
        return self.root / "blobs" / name[:2] / name[2:]

    def lay_out(self, blobs: Iterable[str]) -> None:
        """Have blobs as files, each with the content that its name says.

        :raises DamagedError: one cannot be read.
        :raises SourceError: the cache cannot be written.
        """
        wanted = [name for name in dict.fromkeys(blobs) if not self._is_whole(name)]
        given = "".join(f"{name}\n" for name in wanted).encode()
        try:
            with closing(git_output(self._bare, "cat-file", "--batch", "--buffer", given=given)) as output:
                stream = _Stream(output)
                for name in wanted:
                    self._write(name, stream)
        except GitError as error:
            raise DamagedError(self, error.said) from None
        except OSError as error:
            raise SourceError(f"the cache cannot be written: {error.strerror or error}") from error

    def forget(self) -> None:
        """Remove what was fetched, so that it is fetched again; files that a build may read stay."""
        remove_tree(self._bare)

    @property
    def _bare(self) -> Path:
        return self.root / "repository.git"

    def _find(self, ref: str) -> str | None:
        """Return the commit that a ref of ours leads to."""
        if not self._bare.is_dir():
            return None
        try:
            return git(self._bare, "rev-parse", "--quiet", "--verify", f"{ref}^{{commit}}")
        except GitError:
            return None

    def _fetch(self, revision: str, ref: str) -> None:
        try:
            self._ask(f"+{revision}:{ref}", options=("--depth=1",))
        except GitError as error:
            if not (_COMMIT.fullmatch(revision) and "unadvertised object" in error.said):
                raise
            # An old server gives what it has a name for: the commit is among what leads there.
            self._ask(*_ALL, options=self._all_of_it())
            git(self._bare, "update-ref", ref, revision)

    def _check(self) -> None:
        try:
            git(self._bare, "rev-list", "--quiet", "--objects", "--all")
        except GitError as error:
            raise DamagedError(self, error.said) from None

    def _all_of_it(self) -> tuple[str, ...]:
        # As git itself says it.
        return ("--depth=2147483647",) if (self._bare / "shallow").exists() else ()

    def _ask(self, *refs: str, options: tuple[str, ...] = ()) -> None:
        if is_offline() and not self.address.is_local:
            raise SourceError(
                f"{self.address.shown} is not asked: wheelsmith is offline, and the cache does not have what is wanted",
                remedy=VENDOR,
            )
        quiet = ("--progress", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules")
        progress = Progress(self.address.shown, self.listen)
        try:
            git(self._bare, "fetch", *quiet, *options, "--", self.address.text, *refs, hear=progress.hear)
        except GitError:
            # What a fetch was ended at says nothing.
            if self._remove_unfinished() >= MOST_WRITTEN:
                raise GitError(f"{TOO_LARGE}: more than {MOST_WRITTEN >> 20} MiB") from None
            raise
        progress.end()

    def _remove_unfinished(self) -> int:
        """Remove what git was ended at, and return the size of the largest pack among it.

        Whoever calls this has the lock, so git's own locks are nobody's.
        """
        packs = list(self._bare.glob("objects/pack/tmp_*"))
        sizes = [path.stat().st_size for path in packs]
        for path in (*packs, *self._bare.glob("*.lock"), *self._bare.glob("refs/**/*.lock")):
            path.unlink()
        return max(sizes, default=0)

    def _is_whole(self, name: str) -> bool:
        try:
            with open_file(self.blob(name)) as file:
                size = os.fstat(file.fileno()).st_size
                return _blob_id(size, iter(lambda: file.read(_CHUNK), b"")) == name
        except OSError:
            return False

    def _write(self, name: str, stream: _Stream) -> None:
        """Write the blob that comes next; only what was asked for is taken for it."""
        said, kind, size = [*stream.line().split(), b"", b""][:3]
        if (said, kind) != (name.encode(), b"blob"):
            raise DamagedError(self, f"{name} is missing")
        path = self.blob(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        # Whoever writes has the lock, so this name is free, or what a killed process left.
        part = self.root / "blobs" / "part"
        with part.open("wb") as file:
            found = _blob_id(int(size), _copied(stream.take(int(size)), file))
        stream.line()
        if found != name:
            raise DamagedError(self, f"{name} has another content")
        part.replace(path)


class _Stream:
    """Bytes that come in pieces."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._left = b""

    def line(self) -> bytes:
        """Return what comes before the next line end; all of it where there is none for too long."""
        while b"\n" not in self._left and len(self._left) < _LONGEST_HEADER:
            chunk = next(self._chunks, b"")
            if not chunk:
                break
            self._left += chunk
        found, _, self._left = self._left.partition(b"\n")
        return found

    def take(self, size: int) -> Iterator[bytes]:
        """Yield the next so many bytes, or those that there are."""
        while size and (chunk := self._left or next(self._chunks, b"")):
            self._left = chunk[size:]
            yield chunk[:size]
            size -= min(size, len(chunk))


def _copied(chunks: Iterator[bytes], file: IO[bytes]) -> Iterator[bytes]:
    for chunk in chunks:
        file.write(chunk)
        yield chunk


def _blob_id(size: int, chunks: Iterator[bytes]) -> str:
    """Return git's name of a blob of so many bytes."""
    digest = hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)
    for chunk in chunks:
        digest.update(chunk)
    return digest.hexdigest()


def _kept(commit: str) -> str:
    return f"refs/wheelsmith/commits/{commit}"
