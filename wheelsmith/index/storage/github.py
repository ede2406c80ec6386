"""An index on GitHub: wheels are assets of releases, and all other files are in a branch.

Every change of the branch is one commit on top of the newest one. GitHub refuses to move the branch if another commit
came first, so compare and swap works for transactions. GitHub has no conditional writes of assets. Therefore an asset
is uploaded before the branch names it, is never replaced, and is removed by its number after a commit said so.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import quote

from wheelsmith.base.errors import PackageIndexError
from wheelsmith.index.storage.compare_and_swap import backoff
from wheelsmith.index.storage.github_api import GitHubApi, message_of, parse_target
from wheelsmith.index.storage.github_releases import ASSET, Releases, Uploader
from wheelsmith.index.storage.protocol import (
    ConflictError,
    Listed,
    Staged,
    Storage,
    Stored,
    T,
    Write,
    commit_message,
    read_pieces,
)

# The numbers of the assets that a commit removed. Every writer deletes them before it looks at the assets.
_REMOVED = "_state/.removed-assets.json"
_PAGES_MARK = ".nojekyll"  # lets GitHub Pages serve the branch as it is
_COMMITS = 100  # attempts
_TREE_SIZE = 4 << 20  # bytes of files in one request


def open_github(target: str) -> GitHubRepo:
    """Open the index at ``github://OWNER/REPO[@BRANCH][/FOLDER]``. This sends no request yet.

    :raises PackageIndexError: the target names no repository, or GITHUB_API_URL is not safe for a token.
    """
    return GitHubRepo(GitHubApi(parse_target(target)))


class _Files:
    """The files of an index at one commit, and its releases.

    :param commit: None for a branch that does not exist yet.
    """

    def __init__(self, api: GitHubApi, commit: str | None) -> None:
        self._api, self.commit = api, commit
        self.releases = Releases(api)

    @cached_property
    def tree(self) -> dict[str, tuple[str, int]]:
        """Return the files in the branch: key → git's hash and size."""
        if self.commit is None:
            return {}
        found = self._api.send("GET", f"/git/trees/{self.commit}", params={"recursive": "1"}).json()
        folder = self._api.target.folder
        if found["truncated"]:
            raise PackageIndexError(f"{self._api.target.name} has more files than GitHub lists", remedy="use a bucket")
        blobs = (item for item in found["tree"] if item["type"] == "blob" and item["path"].startswith(folder))
        blobs = (item for item in blobs if item["path"] != _PAGES_MARK)
        return {item["path"].removeprefix(folder): (item["sha"], item["size"]) for item in blobs}

    def read(self, key: str) -> Stored | None:
        """Return a file, or None if it does not exist."""
        if not ASSET.fullmatch(key):
            sha, _ = self.tree.get(key, (None, 0))
            return Stored(self._api.blob(sha), sha) if sha else None
        asset = self.releases.asset(key)
        data = self._api.download(asset["id"]) if asset and asset["state"] == "uploaded" else None
        return None if data is None else Stored(data, hashlib.sha256(data).hexdigest())


class GitHubRepo(Storage):
    """Files of an index on GitHub.

    :param files: if given, files are read from this state. Otherwise they are read from the newest commit.
    """

    def __init__(self, api: GitHubApi, files: _Files | None = None) -> None:
        self._api, self._fixed = api, files
        self._newest: _Files | None = None

    @property
    def name(self) -> str:
        """Return the repository as a ``github://`` address."""
        return self._api.target.name

    @property
    def _files(self) -> _Files:
        if self._fixed:
            return self._fixed
        head, newest = self._api.head(), self._newest
        if newest is None or newest.commit != head:
            newest = self._newest = _Files(self._api, head)
        return newest

    def read(self, key: str) -> Stored | None:
        """Return a file, or None if it does not exist."""
        return self._files.read(key)

    def stat(self, key: str) -> Listed | None:
        """Return the size of a file, or None if it does not exist."""
        files = self._files
        if ASSET.fullmatch(key):
            asset = files.releases.asset(key)
            return files.releases.listed(key, asset) if asset else None
        sha, size = files.tree.get(key, ("", 0))
        return Listed(key, size, 0.0) if sha else None

    def listing(self, prefix: str) -> Iterator[Listed]:
        """Yield every file whose key begins with ``prefix``.

        Git has no times. A file in the branch needs none, because the commit that adds it also refers to it.
        """
        files = self._files
        yield from (Listed(key, size, 0.0) for key, (_, size) in files.tree.items() if key.startswith(prefix))
        if "files/".startswith(prefix[:6]):
            found = ((key, asset) for key, asset in files.releases.list_assets() if key.startswith(prefix))
            yield from (files.releases.listed(key, asset) for key, asset in found)

    def served_at(self, key: str) -> str | None:
        """Return the URL of an asset.

        :raises PackageIndexError: GitHub would change the name of the file.
        """
        found = ASSET.fullmatch(key)
        if found is None:
            return None
        if "!" in found["name"]:
            raise PackageIndexError(
                f"{found['wheel']}: GitHub replaces the ! of an epoch in file names", remedy="publish to a bucket"
            )
        tag = self._api.target.tag(found["wheel"])
        return f"{self._api.web}/{self._api.target.repo}/releases/download/{tag}/{quote(found['name'])}"

    def put(self, key: str, content: Path | bytes) -> None:
        """Write a file in a commit of its own."""
        self.transaction(lambda storage: storage.put(key, content))

    def swap(self, key: str, data: bytes, tag: str | None) -> None:
        """Replace a file in a commit of its own if its tag is ``tag``."""

        def work(storage: Storage) -> None:
            now = storage.read(key)
            if (now.tag if now else None) != tag:
                raise ConflictError(f"{key} in {self.name} was changed by another process")
            storage.swap(key, data, tag)

        self.transaction(work)

    def delete(self, key: str) -> None:
        """Remove a file in a commit of its own."""
        self.transaction(lambda storage: storage.delete(key))

    def transaction(self, work: Callable[[Storage], T]) -> T:
        """Run ``work`` on the newest commit, upload its wheels and commit its changes. Repeat it after a conflict.

        :raises PackageIndexError: GitHub refused, kept failing, or other commits always came first.
        """
        for number in range(_COMMITS):
            files = _Files(self._api, self._api.head())
            staged = Staged(GitHubRepo(self._api, files))
            if removed := files.read(_REMOVED):
                for asset in json.loads(removed.data):
                    self._api.delete_asset(asset)
                staged.delete(_REMOVED)
            result = work(staged)
            self._newest = None
            if self._apply(files, staged.writes):
                return result
            backoff(number)
        raise PackageIndexError(f"other commits to {self.name} always came first", remedy="try again later")

    def _apply(self, files: _Files, writes: Sequence[Write]) -> bool:
        """Upload, commit, and then remove assets. Return False if another commit came first."""
        wheels = [write for write in writes if ASSET.fullmatch(write.key)]
        Uploader(self._api, files.releases).upload([write for write in wheels if write.content is not None])
        removed = [
            asset["id"] for write in wheels if write.content is None and (asset := files.releases.asset(write.key))
        ]
        changes = _changes(files, [write for write in writes if write not in wheels])
        if removed:
            changes[_REMOVED] = json.dumps(removed).encode()
        if changes and not _commit(self._api, files, changes, commit_message(writes)):
            return False
        if removed:
            self.transaction(lambda _: None)  # deletes the assets, and then the list of them
        return True


def _changes(files: _Files, writes: Sequence[Write]) -> dict[str, bytes | None]:
    """Return the writes that change a file in the branch: key → content, or None to remove it."""
    changes: dict[str, bytes | None] = {}
    for write in writes:
        data = b"".join(read_pieces(write.content, write.key)) if isinstance(write.content, Path) else write.content
        sha = None if data is None else hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()
        if sha != files.tree.get(write.key, (None, 0))[0]:
            changes[write.key] = data
    return changes


def _commit(api: GitHubApi, files: _Files, changes: Mapping[str, bytes | None], message: tuple[str, str]) -> bool:
    """Commit changes of the branch. Return False if another commit came first."""
    branch, tree, parents = api.target.branch, None, []
    items = [_tree_item(api, api.target.folder + key, data) for key, data in changes.items()]
    if files.commit:
        tree, parents = api.send("GET", f"/git/commits/{files.commit}").json()["tree"]["sha"], [files.commit]
    else:
        items.append(_tree_item(api, _PAGES_MARK, b""))
    while items:
        size, number = 0, 0
        while number < len(items) and size <= _TREE_SIZE:
            size, number = size + len(items[number].get("content") or ""), number + 1
        part = {"tree": items[:number], **({"base_tree": tree} if tree else {})}
        tree, items = api.send("POST", "/git/trees", json=part).json()["sha"], items[number:]
    plain = {"message": "\n\n".join(filter(None, message)), "tree": tree, "parents": parents}
    commit = api.send("POST", "/git/commits", json=plain).json()["sha"]
    if parents:
        response = api.send("PATCH", f"/git/refs/heads/{branch}", 409, 422, json={"sha": commit, "force": False})
    else:
        response = api.send("POST", "/git/refs", 409, 422, json={"ref": f"refs/heads/{branch}", "sha": commit})
    if response.is_success:
        return True
    # GitHub answers with the same status if a rule protects the branch.
    if not re.search("fast.forward|exist", message_of(response)) and api.head() == files.commit:
        raise api.refusal(response)
    return False


def _tree_item(api: GitHubApi, path: str, data: bytes | None) -> dict[str, Any]:
    """Return the entry of a file in a new tree. Text is a part of the entry, other content is sent before."""
    item = {"path": path, "mode": "100644", "type": "blob"}
    if data is None:
        return {**item, "sha": None}
    try:
        return {**item, "content": data.decode()}
    except UnicodeDecodeError:
        plain = {"content": base64.b64encode(data).decode(), "encoding": "base64"}
        return {**item, "sha": api.send("POST", "/git/blobs", json=plain).json()["sha"]}
