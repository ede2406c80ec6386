"""A bare repository in the cache: what was fetched from one address.

``refs/wheelsmith/…`` keeps the commit that a revision was when it was last fetched.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

from wheelsmith.base.errors import SourceError
from wheelsmith.base.git_address import GitAddress
from wheelsmith.base.offline import VENDOR, is_offline
from wheelsmith.base.units import parse_size
from wheelsmith.model import Listener, Transfer
from wheelsmith.source.git.program import GitError, explain_fetch, git

COMMIT = re.compile(r"[0-9a-f]{40}")
# What a server itself says begins with its name: remote.
_RECEIVED = re.compile(rb"(?:^|[\r\n])Receiving objects: [^,\r\n]*, ([1-9][0-9]{0,8}(?:\.[0-9]{1,9})? [KMG]iB)")
_MOST_PRINTED = 64 << 20  # bytes: a listing of half a million files
_MOST_BYTES = 4 << 30  # of all files of a repository, of which the source may be a part
# No filter, line end or keyword of the repository's own .gitattributes: these come first.
_ATTRIBUTES = "* -filter -text -eol -ident -working-tree-encoding\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Repository:
    """What is in the cache of one repository; one process at a time uses it.

    :param address: where it is fetched from.
    :param folder: in the cache.
    :param listen: hears of a download.
    """

    address: GitAddress
    folder: Path
    listen: Listener

    def fetch(self, revision: str) -> str:
        """Return the commit that a revision names now; a commit that is here needs no network.

        :raises SourceError: it cannot be had.
        :raises GitError: what is here is damaged.
        """
        if COMMIT.fullmatch(revision) and self._find(revision):
            return revision
        ref = f"refs/wheelsmith/{hashlib.sha256(revision.encode()).hexdigest()}"
        before = self._find(ref)
        try:
            git(self.folder, "init", "--quiet", "--bare", "--template=", str(self.folder))
            self._remove_unfinished()
            self._fetch(revision, ref)
        except GitError as error:
            self._remove_unfinished()
            git(self.folder, "rev-list", "--quiet", "--objects", "--all")
            raise explain_fetch(self.address, revision, str(error), before) from None
        commit = self._find(ref)
        if commit is None:
            raise SourceError(f"{revision} of {self.address.shown} is no commit", remedy="name a branch, tag or commit")
        return commit

    def check_out(self, commit: str, folder: Path) -> dict[str, str]:
        """Write the files and links of a commit to a folder; return path and commit of its submodules.

        :raises SourceError: there is more than any source has.
        :raises GitError: it cannot be read, or has unsafe names.
        """
        # With its folders: folders in folders without end, which hold no file, would print nothing.
        listing = self._ask("ls-tree", "-r", "-t", "-z", "--long", "--full-tree", commit)
        entries = [(*item.partition("\t")[0].split(), item.partition("\t")[2]) for item in listing.split("\0")[:-1]]
        size = sum(int(size) for _, kind, _, size, _ in entries if kind == "blob")
        if size > _MOST_BYTES:
            raise SourceError(f"{self.address.shown} is no kernel's source: more than {_MOST_BYTES >> 20} MiB")
        (self.folder / "info").mkdir(exist_ok=True)
        (self.folder / "info/attributes").write_text(_ATTRIBUTES)
        git(self.folder, "read-tree", commit)
        git(self.folder, f"--work-tree={folder}", "checkout-index", "--all", "--force")
        return {path: name for _, kind, name, _, path in entries if kind == "commit"}

    def submodules(self, commit: str) -> dict[str, str]:
        """Return the addresses of submodules by their path, empty for one that is never fetched.

        :raises SourceError: .gitmodules cannot be read.
        """
        try:
            # By itself git reads the files of this machine that a blob includes.
            text = self._ask("config", f"--blob={commit}:.gitmodules", "--no-includes", "--null", "--list")
        except GitError as error:
            raise SourceError(f".gitmodules cannot be read: {error}") from None
        sections: dict[str, dict[str, str]] = {}
        for item in text.split("\0"):
            name, _, value = item.partition("\n")
            section, _, key = name.rpartition(".")
            sections.setdefault(section, {})[key] = value
        return {
            each["path"].rstrip("/"): "" if each.get("update") == "none" else each["url"]
            for each in sections.values()
            if "path" in each and each.get("url")
        }

    def _ask(self, *argv: str) -> str:
        return git(self.folder, *argv, most=_MOST_PRINTED)

    def _find(self, name: str) -> str | None:
        """Return the commit of a ref, or of an id, that is here."""
        if not self.folder.is_dir():
            return None
        try:
            return self._ask("rev-parse", "--quiet", "--verify", f"{name}^{{commit}}").strip()
        except GitError:
            return None

    def _fetch(self, revision: str, ref: str) -> None:
        try:
            self._download(f"+{revision}:{ref}", depth="1")
        except GitError as error:
            if not (COMMIT.fullmatch(revision) and "unadvertised object" in str(error)):
                raise
            # An old server gives only what it has a name for: the commit is among what leads there.
            names = ("+refs/heads/*:refs/wheelsmith/heads/*", "+refs/tags/*:refs/wheelsmith/tags/*")
            self._download(*names, depth="2147483647")  # as git itself writes --unshallow
            self._ask("update-ref", ref, revision)

    def _download(self, *refs: str, depth: str) -> None:
        if is_offline() and not self.address.is_local:
            raise SourceError(
                f"{self.address.shown} is not asked: wheelsmith is offline, and the cache does not have what is wanted",
                remedy=VENDOR,
            )
        received = 0

        def hear(messages: bytes) -> None:
            nonlocal received
            size = max((parse_size(size.decode()) for size in _RECEIVED.findall(messages)), default=0)
            if size > received:
                received = size
                self.listen(Transfer(name=self.address.shown, done=received, total=0))

        quiet = ("--progress", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules", f"--depth={depth}")
        git(self.folder, "fetch", *quiet, "--", self.address.text, *refs, hear=hear)
        if received:
            self.listen(Transfer(name=self.address.shown, done=received, total=received))

    def _remove_unfinished(self) -> None:
        """Remove what a killed git left; no other process uses the repository now."""
        for pattern in ("objects/pack/tmp_*", "*.lock", "refs/**/*.lock"):
            for path in self.folder.glob(pattern):
                path.unlink()
