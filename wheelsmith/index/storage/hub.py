"""An index in a Hub repo. Every change is one commit on top of the newest commit.

A commit on the Hub is atomic. The Hub refuses it with status 412 if another commit came first, so compare and swap
works for transactions, not for single files. Messages of the client may contain a token, so they are replaced.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from json import JSONDecodeError
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from wheelsmith.base.errors import AddressError, PackageIndexError
from wheelsmith.index.storage.compare_and_swap import backoff
from wheelsmith.index.storage.protocol import (
    ConflictError,
    Listed,
    Staged,
    Storage,
    Stored,
    T,
    Write,
    commit_message,
    hash_in_key,
)

if TYPE_CHECKING:
    from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi
    from huggingface_hub.hf_api import RepoFile

_SYNTAX = "write hf://[datasets/|spaces/|kernels/]org/name[@branch][/folder]"
_FORBIDDEN_FOLDERS = {"", ".", "..", ".git", ".cache"}
_TEMPORARY_STATUSES = {HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS}
_REQUEST_ATTEMPTS = 8
# Read timeout in seconds. The client has none by default.
_READ_TIMEOUT = 120.0


class TransientError(Exception):  # not a WheelsmithError: it never reaches users
    """The Hub failed temporarily. The message is the reason."""


class BusyBranchError(ConflictError):
    """The Hub is processing another commit, which may or may not change the branch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HubTarget:
    """The repo, branch and folder of an ``hf://`` target.

    :param kind: ``model``, ``dataset``, ``space`` or ``kernel``.
    :param folder: path in the repo, with a trailing slash; empty for the top of the repo.
    """

    repo: str
    kind: str
    branch: str
    folder: str

    @property
    def name(self) -> str:
        """Return the target as an ``hf://`` address."""
        kind = "" if self.kind == "model" else f"{self.kind}s/"
        branch = "" if self.branch == "main" else f"@{quote(self.branch, safe='')}"
        return f"hf://{kind}{self.repo}{branch}/{self.folder}".rstrip("/")


def parse_target(target: str) -> HubTarget:
    """Read ``hf://[datasets/|spaces/|kernels/]org/name[@branch][/folder]``.

    :raises AddressError: the target names no repo. The message omits the target because it may contain a token.
    """
    from huggingface_hub import parse_hf_uri
    from huggingface_hub.errors import HfUriError

    try:
        uri = parse_hf_uri(target)
    except HfUriError:
        raise AddressError("the hf:// target names no repo on the Hub", remedy=_SYNTAX) from None
    if not uri.is_repo:
        raise AddressError("buckets of the Hub have no atomic commits, which an index needs", remedy=_SYNTAX)
    folder = uri.path_in_repo.strip("/")
    if folder and (_FORBIDDEN_FOLDERS & set(folder.split("/")) or not folder.isprintable()):
        raise AddressError("the folder in the hf:// target cannot hold an index", remedy=_SYNTAX)
    return HubTarget(repo=uri.id, kind=uri.type, branch=uri.revision or "main", folder=f"{folder}/" if folder else "")


def kernel_branch(target: str) -> str | None:
    """Return the branch from which the ``kernels`` library reads builds, or None if it reads none from the target.

    The library reads only the top folder of kernel repos. An index in a subfolder therefore has no such builds.

    :raises AddressError: the target begins with ``hf://`` but names no repo.
    """
    if not target.startswith("hf://"):
        return None
    parsed = parse_target(target)
    return parsed.branch if parsed.kind == "kernel" and not parsed.folder else None


def send_request(target: HubTarget, request: Callable[[], T]) -> T:
    """Send a request to the Hub, and repeat it after temporary failures.

    :raises ConflictError: the Hub refused a commit because of another commit.
    :raises PackageIndexError: the Hub refused the request, or all attempts failed.
    """
    for number in range(_REQUEST_ATTEMPTS):
        try:
            return _send_once(target, request)
        except TransientError as error:
            reason = str(error)
        backoff(number)
    raise PackageIndexError(
        f"{target.name} cannot be reached: {reason}", remedy="check the network and HF_ENDPOINT, then try again"
    )


def _send_once(target: HubTarget, request: Callable[[], T]) -> T:
    from huggingface_hub import get_session

    session = get_session()
    if session.timeout.read is None:
        session.timeout = _READ_TIMEOUT
    try:
        return request()
    except (PackageIndexError, TransientError):
        raise
    except Exception as error:  # noqa: BLE001  # the client may raise the errors of any HTTP library
        # If an upload fails, the client raises a RuntimeError. Its cause has the reason.
        cause = error.__cause__ if isinstance(error, RuntimeError) else None
        raise _convert_error(target, cause if isinstance(cause, Exception) else error) from None


def _convert_error(target: HubTarget, error: Exception) -> Exception:
    from huggingface_hub import errors

    kind = "" if target.kind == "model" else f" --type {target.kind}"
    if isinstance(error, errors.OfflineModeIsEnabled):
        return PackageIndexError(
            f"{target.name} cannot be reached: the Hub is in offline mode (HF_HUB_OFFLINE)",
            remedy="unset HF_HUB_OFFLINE",
        )
    if isinstance(error, errors.RevisionNotFoundError):
        return missing_branch_error(target)
    if isinstance(error, (errors.GatedRepoError, errors.DisabledRepoError)):
        return PackageIndexError(
            f"this account has no access to {target.name}",
            remedy="request access from its owner, then: hf auth login, or set HF_TOKEN",
        )
    if isinstance(error, errors.RepositoryNotFoundError):
        return PackageIndexError(
            f"there is no {target.kind} repo {target.repo} on the Hub, or this account cannot see it",
            remedy=f"hf repos create {target.repo}{kind}; for an existing repo: hf auth login, or set HF_TOKEN",
        )
    if isinstance(error, errors.HfHubHTTPError):
        return _convert_status(target, error.response.status_code, error.server_message)
    if isinstance(error, errors.HFValidationError):
        return PackageIndexError(f"{target.name} has a name that the Hub does not allow", remedy=_SYNTAX)
    if isinstance(error, ValueError) and not isinstance(error, JSONDecodeError):
        # The client raises ValueError for unsupported operations and for large files that the Hub rejects.
        return PackageIndexError(
            f"{target.name} rejected the upload",
            remedy="check on its page if its storage is full; or pip install --upgrade huggingface_hub",
        )
    return TransientError(type(error).__name__)


def missing_branch_error(target: HubTarget) -> PackageIndexError:
    """Return the error for a missing branch."""
    kind = "" if target.kind == "model" else f" --type {target.kind}"
    return PackageIndexError(
        f"{target.repo} has no branch {target.branch!r}",
        remedy=f"hf repos branch create {target.repo} {target.branch}{kind}",
    )


def no_write_access_error(target: HubTarget, details: str = "") -> PackageIndexError:
    """Return the error for an account without write access."""
    return PackageIndexError(
        f"this account may not write to {target.name}{details}",
        remedy="hf auth login with a write token, or set HF_TOKEN",
    )


def _convert_status(target: HubTarget, status: int, message: str | None) -> Exception:
    details = _redact_message(message)
    if status == HTTPStatus.PRECONDITION_FAILED:
        return ConflictError(f"{target.name} was changed by another process")
    if status == HTTPStatus.CONFLICT:
        return BusyBranchError(f"{target.name} is being changed by another process")
    if status in _TEMPORARY_STATUSES or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return TransientError(f"the Hub answered {status}{details}")
    if status in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
        return no_write_access_error(target, details)
    return PackageIndexError(
        f"the Hub refused the request for {target.name} with {status}{details}",
        remedy="fix the stated cause, then try again",
    )


def _redact_message(message: str | None) -> str:
    """Return a message of the Hub as one short line, with tokens removed."""
    text = "".join(char if char.isprintable() else " " for char in message or "")
    text = re.sub(r"\b(hf|api)_\w{6,}", "…", " ".join(text.split()))[:200]
    return f": {text}" if text else ""


# Files under the hash of their content. Readers find them through states only, so large releases commit them first.
_CONTENT_FOLDER = "files/"
# The Hub advises 50 to 100 (https://huggingface.co/docs/hub/repositories-recommendations).
_MAX_FILES_PER_COMMIT = 100
_COMMIT_ATTEMPTS = 100
# Number of times that an outdated head is attributed to a delay of the Hub. After that, it is accepted.
_MAX_STALE_HEADS = 5
# Replaces the repo's .gitignore, because the Hub silently leaves out the files that it matches.
_EMPTY_GITIGNORE = "# an index needs all of its files\n"


def open_repo(target: str) -> HubRepo:
    """Open the index at ``hf://[datasets/|spaces/|kernels/]org/name[@branch][/folder]``.

    Endpoint, token and offline mode are the settings of huggingface_hub. This sends no request yet.

    :raises AddressError: the target names no repo.
    """
    parsed = parse_target(target)
    from huggingface_hub import HfApi
    from huggingface_hub.utils import logging
    from huggingface_hub.utils.tqdm import disable_progress_bars

    disable_progress_bars()
    # Warnings of the client contain signed upload URLs.
    logging.set_verbosity_error()  # type: ignore[no-untyped-call]  # untyped in the client
    return HubRepo(HfApi(library_name="wheelsmith"), parsed)


class HubRepo(Storage):
    """Files of a branch in a Hub repo.

    :param commit: if given, files are read from this commit. Otherwise they are read from the head of the branch.
    """

    def __init__(self, api: HfApi, target: HubTarget, commit: str | None = None) -> None:
        self._api = api
        self._target = target
        self._commit = commit
        self._files: dict[str, Stored | None] = {}
        self._folders: dict[str, dict[str, Listed]] = {}
        # Commits that are no longer the head.
        self._former_heads: set[str] = set()

    @property
    def name(self) -> str:
        """Return the repo as an ``hf://`` address."""
        return self._target.name

    def read(self, key: str) -> Stored | None:
        """Return a file, or None if it does not exist."""
        if self._commit is None or key.startswith(_CONTENT_FOLDER):
            return self._fetch(key)
        if key not in self._files:
            self._files[key] = self._fetch(key)
        return self._files[key]

    def stat(self, key: str) -> Listed | None:
        """Return the size of a file, or None if it does not exist.

        The age is usually not fetched. If the file is removed before a commit that relies on it, the Hub refuses that
        commit.
        """
        folder = key.rpartition("/")[0]
        if self._commit is None or folder not in self._folders:
            self._folders[folder] = {item.key: item for item in self._tree(folder, recursive=False, with_times=False)}
        return self._folders[folder].get(key)

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

    def listing(self, prefix: str) -> Iterator[Listed]:
        """Yield every file whose key begins with ``prefix``. Files that ``gc`` may remove have their commit's time."""
        dated = _CONTENT_FOLDER.startswith(prefix[: len(_CONTENT_FOLDER)])
        found = self._tree(prefix.rpartition("/")[0], recursive=True, with_times=dated)
        if dated and self._commit:
            # gc checks the age again before it removes a file, and must see the same age.
            for item in found:
                self._folders.setdefault(item.key.rpartition("/")[0], {})[item.key] = item
        yield from (item for item in found if item.key.startswith(prefix))

    def transaction(self, work: Callable[[Storage], T]) -> T:
        """Run ``work`` on the newest commit and commit its changes. Repeat it if another commit came first.

        Work without changes makes no commit. A lost response is harmless: the repeated work finds its changes already
        committed.

        :raises PackageIndexError: the Hub refused, kept failing, or other commits always came first.
        """
        stale_heads_left = _MAX_STALE_HEADS
        for number in range(_COMMIT_ATTEMPTS):
            head = self._head()
            if head in self._former_heads and stale_heads_left:
                # The Hub may report an older head for a moment after a commit.
                stale_heads_left -= 1
                backoff(number)
                continue
            snapshot = HubRepo(self._api, self._target, head)
            staged = Staged(snapshot)
            result = work(staged)
            try:
                if self._commit_changes(snapshot, staged.writes, head):
                    return result
            except ConflictError as conflict:
                if not isinstance(conflict, BusyBranchError):
                    self._former_heads.add(head)
                backoff(number)
        raise PackageIndexError(f"other commits to {self.name} always came first", remedy="try again later")

    def _head(self) -> str:
        refs = send_request(
            self._target, lambda: self._api.list_repo_refs(self._target.repo, repo_type=self._target.kind)
        )
        for branch in refs.branches:
            if branch.name == self._target.branch:
                return branch.target_commit
        raise missing_branch_error(self._target)

    def _commit_changes(self, snapshot: HubRepo, writes: Sequence[Write], head: str) -> bool:
        """Commit the changes. Return False if only the many files were committed, so that the work must run again."""
        writes = [write for write in writes if write.content is not None or snapshot.stat(write.key)]
        content = [write for write in writes if write.key.startswith(_CONTENT_FOLDER) and write.content is not None]
        if content and len(writes) > _MAX_FILES_PER_COMMIT:
            for start in range(0, len(content), _MAX_FILES_PER_COMMIT):
                self._commit_writes(content[start : start + _MAX_FILES_PER_COMMIT], None)
            return False
        if writes:
            self._commit_writes(writes, head)
            self._former_heads.add(head)
        return True

    def _commit_writes(self, writes: Sequence[Write], parent: str | None) -> None:
        from huggingface_hub.errors import RepositoryNotFoundError

        operations = [_operation(self._target.folder, write) for write in writes]
        title, body = commit_message(writes)

        def commit() -> None:
            try:
                self._upload(operations)
                self._api.create_commit(
                    self._target.repo,
                    operations,
                    commit_message=title,
                    commit_description=body,
                    repo_type=self._target.kind,
                    revision=self._target.branch,
                    parent_commit=parent,
                )
            except RepositoryNotFoundError:
                # The repo exists: it was just read. The Hub reports it as missing to writers without a token.
                raise no_write_access_error(self._target) from None

        send_request(self._target, commit)

    def _upload(self, operations: Sequence[CommitOperationAdd | CommitOperationDelete]) -> None:
        """Upload the large files (LFS) before the commit that refers to them."""
        from huggingface_hub import CommitOperationAdd

        self._api.preupload_lfs_files(
            self._target.repo,
            [operation for operation in operations if isinstance(operation, CommitOperationAdd)],
            repo_type=self._target.kind,
            revision=self._target.branch,
            free_memory=False,
            gitignore_content=_EMPTY_GITIGNORE,
        )

    def _fetch(self, key: str) -> Stored | None:
        from huggingface_hub import get_session, hf_hub_url
        from huggingface_hub.errors import EntryNotFoundError
        from huggingface_hub.utils import (  # type: ignore[attr-defined]  # mypy does not see lazy exports
            build_hf_headers,
            hf_raise_for_status,
        )

        url = hf_hub_url(
            self._target.repo,
            self._target.folder + key,
            repo_type=self._target.kind,
            revision=self._revision,
            endpoint=self._api.endpoint,
        )

        def fetch() -> Stored | None:
            headers = build_hf_headers(token=self._api.token, library_name="wheelsmith")
            response = get_session().get(url, headers=headers)
            try:
                hf_raise_for_status(response)
            except EntryNotFoundError:
                return None
            return Stored(response.content, hashlib.sha256(response.content).hexdigest())

        return self._send_request(fetch)

    def _tree(self, folder: str, *, recursive: bool, with_times: bool) -> list[Listed]:
        from huggingface_hub.errors import EntryNotFoundError
        from huggingface_hub.hf_api import RepoFile

        def fetch() -> list[Listed]:
            entries = self._api.list_repo_tree(
                self._target.repo,
                (self._target.folder + folder).rstrip("/") or None,
                recursive=recursive,
                expand=with_times,
                revision=self._revision,
                repo_type=self._target.kind,
            )
            try:
                return [_listed(self._target.folder, entry) for entry in entries if isinstance(entry, RepoFile)]
            except EntryNotFoundError:
                return []

        return self._send_request(fetch)

    @property
    def _revision(self) -> str:
        return self._commit or self._target.branch

    def _send_request(self, request: Callable[[], T]) -> T:
        from huggingface_hub.errors import RevisionNotFoundError

        def retry_new_commit() -> T:
            try:
                return request()
            except RevisionNotFoundError:
                if self._commit is None:
                    raise
                raise TransientError("a new commit cannot be read yet") from None

        return send_request(self._target, retry_new_commit)


def _listed(folder: str, entry: RepoFile) -> Listed:
    modified = entry.last_commit.date.timestamp() if entry.last_commit else float("inf")
    return Listed(entry.path.removeprefix(folder), entry.size, modified, entry.lfs.sha256 if entry.lfs else None)


def _operation(folder: str, write: Write) -> CommitOperationAdd | CommitOperationDelete:
    from huggingface_hub import CommitOperationAdd, CommitOperationDelete

    path = folder + write.key
    if write.content is None:
        return CommitOperationDelete(path, is_folder=False)
    if isinstance(write.content, Path) and not write.content.is_file():
        raise PackageIndexError(f"{write.content} was removed before the upload", remedy="build it again")
    operation = CommitOperationAdd(path, write.content)
    # The operation has hashed the file, and the Hub accepts only content with this hash.
    if hash_in_key(write.key) not in {None, operation.upload_info.sha256.hex()}:
        raise PackageIndexError(f"{write.key} changed before the upload", remedy="build it again")
    return operation
