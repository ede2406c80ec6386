"""An index in a Hub repo: every change is one commit, made from the newest commit and put on top of it.

A commit on the Hub is all or nothing, and is refused with 412 when another came between, so it is the whole
transaction that is compared and swapped, not the file. The client's own messages may quote a token: they are replaced.
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
    hash_in,
)

if TYPE_CHECKING:
    from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi
    from huggingface_hub.hf_api import RepoFile

_SYNTAX = "write hf://[datasets/|spaces/|kernels/]org/name[@branch][/folder]"
_REFUSED_FOLDERS = {"", ".", "..", ".git", ".cache"}
_PASSING = {HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS}
_REQUEST_ATTEMPTS = 8
# Seconds in which the Hub must send something; its client alone would wait for ever.
_SILENCE = 120.0


class TransientError(Exception):  # it carries a reason, and never leaves the index
    """The Hub failed in a way that another attempt may find fixed."""


class BusyBranchError(ConflictError):
    """Another commit is being made at this moment; whether the branch moves is not known yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HubPlace:
    """What an ``hf://`` target names.

    :param kind: ``model``, ``dataset``, ``space`` or ``kernel``.
    :param folder: where in the repo: empty, or with a slash at its end.
    """

    repo: str
    kind: str
    branch: str
    folder: str

    @property
    def name(self) -> str:
        """Return it as people write it."""
        kind = "" if self.kind == "model" else f"{self.kind}s/"
        branch = "" if self.branch == "main" else f"@{quote(self.branch, safe='')}"
        return f"hf://{kind}{self.repo}{branch}/{self.folder}".rstrip("/")


def parse_target(target: str) -> HubPlace:
    """Read ``hf://[datasets/|spaces/|kernels/]org/name[@branch][/folder]``.

    :raises AddressError: it names no repo. The message does not repeat it, for what people take for a target may
        hold their token.
    """
    from huggingface_hub import parse_hf_uri
    from huggingface_hub.errors import HfUriError

    try:
        uri = parse_hf_uri(target)
    except HfUriError:
        raise AddressError("the hf:// target names no repo of the Hub", remedy=_SYNTAX) from None
    if not uri.is_repo:
        raise AddressError("a bucket of the Hub cannot change all of an index at once", remedy=_SYNTAX)
    folder = uri.path_in_repo.strip("/")
    if folder and (_REFUSED_FOLDERS & set(folder.split("/")) or not folder.isprintable()):
        raise AddressError("the folder in the hf:// target cannot hold an index", remedy=_SYNTAX)
    return HubPlace(repo=uri.id, kind=uri.type, branch=uri.revision or "main", folder=f"{folder}/" if folder else "")


def kernel_branch(target: str) -> str | None:
    """Return the branch that the ``kernels`` library reads builds from, or None when it reads none there.

    It looks into kernel repos only, and there at the top, so an index in a folder of its own has none beside it.

    :raises AddressError: it is an ``hf://`` target that names no repo.
    """
    if not target.startswith("hf://"):
        return None
    place = parse_target(target)
    return place.branch if place.kind == "kernel" and not place.folder else None


def ask(place: HubPlace, question: Callable[[], T]) -> T:
    """Ask the Hub, and again as long as it fails in passing.

    :raises ConflictError: a commit was refused because of another one.
    :raises PackageIndexError: it refused, or kept failing.
    """
    for number in range(_REQUEST_ATTEMPTS):
        try:
            return _ask_once(place, question)
        except TransientError as error:
            reason = str(error)
        backoff(number)
    raise PackageIndexError(
        f"{place.name} cannot be reached: {reason}", remedy="check the network and HF_ENDPOINT, then do it again"
    )


def _ask_once(place: HubPlace, question: Callable[[], T]) -> T:
    from huggingface_hub import get_session

    session = get_session()
    if session.timeout.read is None:
        session.timeout = _SILENCE
    try:
        return question()
    except (PackageIndexError, TransientError):
        raise
    except Exception as error:  # noqa: BLE001  # which HTTP library the client uses, and so what it raises, is its affair
        # Of a file that could not be sent, the client tells only that; why is beneath.
        cause = error.__cause__ if isinstance(error, RuntimeError) else None
        raise _judged(place, cause if isinstance(cause, Exception) else error) from None


def _judged(place: HubPlace, error: Exception) -> Exception:
    from huggingface_hub import errors

    kind = "" if place.kind == "model" else f" --type {place.kind}"
    if isinstance(error, errors.OfflineModeIsEnabled):
        return PackageIndexError(
            f"{place.name} cannot be reached: the Hub is switched off (HF_HUB_OFFLINE)", remedy="unset HF_HUB_OFFLINE"
        )
    if isinstance(error, errors.RevisionNotFoundError):
        return no_branch(place)
    if isinstance(error, (errors.GatedRepoError, errors.DisabledRepoError)):
        return PackageIndexError(
            f"{place.name} is closed to this account", remedy="ask its owner, then: hf auth login, or set HF_TOKEN"
        )
    if isinstance(error, errors.RepositoryNotFoundError):
        return PackageIndexError(
            f"there is no {place.kind} repo {place.repo} on the Hub, or this account may not see it",
            remedy=f"hf repos create {place.repo}{kind}; for one that is there: hf auth login, or set HF_TOKEN",
        )
    if isinstance(error, errors.HfHubHTTPError):
        return _judged_status(place, error.response.status_code, error.server_message)
    if isinstance(error, errors.HFValidationError):
        return PackageIndexError(f"{place.name} has a name that the Hub does not allow", remedy=_SYNTAX)
    if isinstance(error, ValueError) and not isinstance(error, JSONDecodeError):
        # So it tells of what it cannot do, and of large files that the Hub does not take.
        return PackageIndexError(
            f"{place.name} does not take what was sent",
            remedy="see on its page whether its storage is full; or pip install --upgrade huggingface_hub",
        )
    return TransientError(type(error).__name__)


def no_branch(place: HubPlace) -> PackageIndexError:
    """Return the error of a branch that is not there."""
    kind = "" if place.kind == "model" else f" --type {place.kind}"
    return PackageIndexError(
        f"{place.repo} has no branch {place.branch!r}",
        remedy=f"hf repos branch create {place.repo} {place.branch}{kind}",
    )


def not_writable(place: HubPlace, said: str = "") -> PackageIndexError:
    """Return the error of an account without rights."""
    return PackageIndexError(
        f"this account may not write to {place.name}{said}",
        remedy="hf auth login with a token that may write, or set HF_TOKEN",
    )


def _judged_status(place: HubPlace, status: int, message: str | None) -> Exception:
    said = _harmless(message)
    if status == HTTPStatus.PRECONDITION_FAILED:
        return ConflictError(f"{place.name} was changed by another process")
    if status == HTTPStatus.CONFLICT:
        return BusyBranchError(f"{place.name} is being changed by another process")
    if status in _PASSING or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return TransientError(f"the Hub answered {status}{said}")
    if status in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
        return not_writable(place, said)
    return PackageIndexError(f"the Hub refused with {status} for {place.name}{said}", remedy="see what it says")


def _harmless(message: str | None) -> str:
    """Return what the Hub said as one short line, without anything like a token in it."""
    text = "".join(char if char.isprintable() else " " for char in message or "")
    text = re.sub(r"\b(hf|api)_\w{6,}", "…", " ".join(text.split()))[:200]
    return f": {text}" if text else ""


# Files under the hash of their content: nobody meets one before a state names it, so many of them may go ahead.
_ONCE = "files/"
# The Hub advises 50 to 100 (https://huggingface.co/docs/hub/repositories-recommendations).
_FILES_A_COMMIT = 100
_COMMIT_ATTEMPTS = 100
# How often an old head is taken for the Hub's slowness before it is believed.
_LAG = 5
# The repo's own .gitignore would make the Hub leave files out of a commit without a word.
_IGNORE_NOTHING = "# an index needs all of its files\n"


def open_repo(target: str) -> HubRepo:
    """Open the index at ``hf://[datasets/|spaces/|kernels/]org/name[@branch][/folder]``.

    Endpoint, token and offline mode are those of huggingface_hub. Nothing is asked of the Hub yet.

    :raises AddressError: it names no repo.
    """
    place = parse_target(target)
    from huggingface_hub import HfApi
    from huggingface_hub.utils import logging
    from huggingface_hub.utils.tqdm import disable_progress_bars

    disable_progress_bars()
    # Its warnings name addresses that are signed for an upload.
    logging.set_verbosity_error()  # type: ignore[no-untyped-call]  # the client has no types there
    return HubRepo(HfApi(library_name="wheelsmith"), place)


class HubRepo:
    """Files of a branch: at its head, or at one commit, where they never change."""

    def __init__(self, api: HfApi, place: HubPlace, commit: str | None = None) -> None:
        self._api = api
        self._place = place
        self._commit = commit
        self._files: dict[str, Stored | None] = {}
        self._folders: dict[str, dict[str, Listed]] = {}
        # Commits that are known not to be the head any more.
        self._old: set[str] = set()

    @property
    def name(self) -> str:
        """Return the repo as people write it."""
        return self._place.name

    def read(self, key: str) -> Stored | None:
        """Return a file, or None when there is none."""
        if self._commit is None or key.startswith(_ONCE):
            return self._fetch(key)
        if key not in self._files:
            self._files[key] = self._fetch(key)
        return self._files[key]

    def stat(self, key: str) -> Listed | None:
        """Return a file's size, or None when there is none.

        Its age is nobody's concern: were it removed meanwhile, the commit that relies on it would be refused.
        """
        folder = key.rpartition("/")[0]
        if self._commit is None or folder not in self._folders:
            self._folders[folder] = {item.key: item for item in self._tree(folder, recursive=False, dated=False)}
        return self._folders[folder].get(key)

    def put(self, key: str, content: Path | bytes) -> None:
        """Write a file in a commit of its own."""
        self.transaction(lambda storage: storage.put(key, content))

    def swap(self, key: str, data: bytes, tag: str | None) -> None:
        """Replace the content that has ``tag`` in a commit of its own."""

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
        """Yield every file whose key begins with ``prefix``; what may be collected has the time of its commit."""
        dated = _ONCE.startswith(prefix[: len(_ONCE)])
        found = self._tree(prefix.rpartition("/")[0], recursive=True, dated=dated)
        if dated and self._commit:
            # Whoever collects looks again before it removes, and is to see the same age.
            for item in found:
                self._folders.setdefault(item.key.rpartition("/")[0], {})[item.key] = item
        yield from (item for item in found if item.key.startswith(prefix))

    def transaction(self, work: Callable[[Storage], T]) -> T:
        """Do ``work`` on the newest commit, and commit what it changes on top of it; again, when others were faster.

        Work that changes nothing makes no commit. An answer that was lost on its way does no harm: what was committed
        is there when the work is done again.

        :raises PackageIndexError: the Hub refused, kept failing, or others were always faster.
        """
        lag = _LAG
        for number in range(_COMMIT_ATTEMPTS):
            head = self._head()
            if head in self._old and lag:
                # What the Hub answers may be older than what it committed.
                lag -= 1
                backoff(number)
                continue
            snapshot = HubRepo(self._api, self._place, head)
            staged = Staged(snapshot)
            result = work(staged)
            try:
                if self._send(snapshot, staged.writes, head):
                    return result
            except ConflictError as conflict:
                if not isinstance(conflict, BusyBranchError):
                    self._old.add(head)
                backoff(number)
        raise PackageIndexError(f"{self.name} is always changed by others meanwhile", remedy="do it again")

    def _head(self) -> str:
        refs = ask(self._place, lambda: self._api.list_repo_refs(self._place.repo, repo_type=self._place.kind))
        for branch in refs.branches:
            if branch.name == self._place.branch:
                return branch.target_commit
        raise no_branch(self._place)

    def _send(self, snapshot: HubRepo, writes: Sequence[Write], head: str) -> bool:
        """Commit; return False when many files went ahead, so that the work has to be done again."""
        writes = [write for write in writes if write.content is not None or snapshot.stat(write.key)]
        ahead = [write for write in writes if write.key.startswith(_ONCE) and write.content is not None]
        if ahead and len(writes) > _FILES_A_COMMIT:
            for start in range(0, len(ahead), _FILES_A_COMMIT):
                self._commit_writes(ahead[start : start + _FILES_A_COMMIT], None)
            return False
        if writes:
            self._commit_writes(writes, head)
            self._old.add(head)
        return True

    def _commit_writes(self, writes: Sequence[Write], parent: str | None) -> None:
        from huggingface_hub.errors import RepositoryNotFoundError

        operations = [_operation(self._place.folder, write) for write in writes]
        title, body = _message(writes)

        def commit() -> None:
            try:
                self._upload(operations)
                self._api.create_commit(
                    self._place.repo,
                    operations,
                    commit_message=title,
                    commit_description=body,
                    repo_type=self._place.kind,
                    revision=self._place.branch,
                    parent_commit=parent,
                )
            except RepositoryNotFoundError:
                # It was there a moment ago; to writers without a token the Hub says that it is not.
                raise not_writable(self._place) from None

        ask(self._place, commit)

    def _upload(self, operations: Sequence[CommitOperationAdd | CommitOperationDelete]) -> None:
        """Send what git does not hold itself, before the commit that refers to it."""
        from huggingface_hub import CommitOperationAdd

        self._api.preupload_lfs_files(
            self._place.repo,
            [operation for operation in operations if isinstance(operation, CommitOperationAdd)],
            repo_type=self._place.kind,
            revision=self._place.branch,
            free_memory=False,
            gitignore_content=_IGNORE_NOTHING,
        )

    def _fetch(self, key: str) -> Stored | None:
        from huggingface_hub import get_session, hf_hub_url
        from huggingface_hub.errors import EntryNotFoundError
        from huggingface_hub.utils import (  # type: ignore[attr-defined]  # exported lazily, which mypy does not see
            build_hf_headers,
            hf_raise_for_status,
        )

        url = hf_hub_url(
            self._place.repo,
            self._place.folder + key,
            repo_type=self._place.kind,
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

        return self._ask(fetch)

    def _tree(self, folder: str, *, recursive: bool, dated: bool) -> list[Listed]:
        from huggingface_hub.errors import EntryNotFoundError
        from huggingface_hub.hf_api import RepoFile

        def fetch() -> list[Listed]:
            entries = self._api.list_repo_tree(
                self._place.repo,
                (self._place.folder + folder).rstrip("/") or None,
                recursive=recursive,
                expand=dated,
                revision=self._revision,
                repo_type=self._place.kind,
            )
            try:
                return [_listed(self._place.folder, entry) for entry in entries if isinstance(entry, RepoFile)]
            except EntryNotFoundError:
                return []

        return self._ask(fetch)

    @property
    def _revision(self) -> str:
        return self._commit or self._place.branch

    def _ask(self, question: Callable[[], T]) -> T:
        from huggingface_hub.errors import RevisionNotFoundError

        def patiently() -> T:
            try:
                return question()
            except RevisionNotFoundError:
                if self._commit is None:
                    raise
                raise TransientError("a new commit cannot be read yet") from None

        return ask(self._place, patiently)


def _listed(folder: str, entry: RepoFile) -> Listed:
    modified = entry.last_commit.date.timestamp() if entry.last_commit else float("inf")
    return Listed(entry.path.removeprefix(folder), entry.size, modified, entry.lfs.sha256 if entry.lfs else None)


def _operation(folder: str, write: Write) -> CommitOperationAdd | CommitOperationDelete:
    from huggingface_hub import CommitOperationAdd, CommitOperationDelete

    path = folder + write.key
    if write.content is None:
        return CommitOperationDelete(path, is_folder=False)
    if isinstance(write.content, Path) and not write.content.is_file():
        raise PackageIndexError(f"{write.content} was there and is gone", remedy="build it again")
    operation = CommitOperationAdd(path, write.content)
    # It was read for its hash, under which the Hub takes it and nothing else.
    if hash_in(write.key) not in {None, operation.upload_info.sha256.hex()}:
        raise PackageIndexError(f"{write.key} is not the file that it was", remedy="build it again")
    return operation


def _message(writes: Sequence[Write]) -> tuple[str, str]:
    """Return the title and the body of a commit: the wheels in it, for whoever reads the history."""
    wheels = sorted(write.key.rpartition("/")[2] for write in writes if write.key.endswith(".whl") and write.content)
    more = f" and {len(wheels) - 1} more" if len(wheels) > 1 else ""
    title = f"Add {wheels[0]}{more}" if wheels else "Update the index"
    return title, "\n".join(wheels)
