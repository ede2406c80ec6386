"""Read a kernel from a Hub repo with huggingface_hub, using the user's endpoint, token, cache and offline mode."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from wheelsmith.base.errors import SourceError
from wheelsmith.base.offline import is_offline
from wheelsmith.base.units import show_binary_size
from wheelsmith.source.tree import MAX_BYTES, MAX_FILES, FoundFile, SourceTree, check_path, make_tree, walk

if TYPE_CHECKING:
    from huggingface_hub.hf_api import GitRefs, HfApi, RepoFile

_T = TypeVar("_T")
_MAX_LISTED = 200_000  # files and folders
_COMMIT = re.compile(r"[0-9a-f]{40}")
_VERSION = re.compile(r"v[0-9]{1,9}")
# Kernels have their own repo type; older ones are model repos.
_REPO_TYPES = ("kernel", "model")
# Published builds, which may have gigabytes.
_BINARIES = "build/*"


def read_hub(repo: str, revision: str) -> SourceTree:
    """Return the files of a repo at the current commit of ``revision``.

    A commit in the cache needs no network.

    :raises SourceError: the repo is not available, or its content is refused.
    """
    if is_offline():
        os.environ["HF_HUB_OFFLINE"] = "1"  # huggingface_hub reads this when it is imported
    from huggingface_hub import HfApi
    from huggingface_hub.utils.tqdm import disable_progress_bars

    disable_progress_bars()
    api = HfApi(library_name="wheelsmith")
    root = _cached(api, repo, revision) if _COMMIT.fullmatch(revision) else None
    root = root or explain_hub_errors(repo, revision, lambda: _download(api, repo, revision))
    return make_tree(_files(root), origin=f"hub:{repo}", revision=revision, commit=root.name)


def newest_branch(repo: str) -> str:
    """Return the branch with a kernel's newest version, such as ``v2``, or ``main`` if the repo has no such branch.

    :raises SourceError: the repo is not available.
    """
    return list_hub_references(repo)[2]


def list_hub_references(repo: str) -> tuple[dict[str, str], dict[str, str], str]:
    """Return branch → commit, tag → commit, and the branch with a kernel's newest version (see ``newest_branch``).

    :raises SourceError: the repo is not available.
    """
    from huggingface_hub import HfApi

    api = HfApi(library_name="wheelsmith")

    def query(repo_type: str) -> GitRefs:
        return api.list_repo_refs(repo, repo_type=repo_type)

    refs = explain_hub_errors(repo, "main", lambda: _with_repo_type(query))
    branches, tags = ({ref.name: ref.target_commit for ref in found} for found in (refs.branches, refs.tags))
    counted = (name for name in branches if _VERSION.fullmatch(name))
    return branches, tags, max(counted, key=lambda name: int(name[1:]), default="main")


def find_commit(api: HfApi, repo: str, revision: str) -> tuple[str, str]:
    """Return the type of a repo and the commit of a revision.

    :raises huggingface_hub.errors.HfHubHTTPError: the request failed; see ``explain_hub_errors``.
    """

    def query(repo_type: str) -> tuple[str, str]:
        return repo_type, api.repo_info(repo, revision=revision, repo_type=repo_type).sha or revision

    return _with_repo_type(query)


def _with_repo_type(query: Callable[[str], _T]) -> _T:
    from huggingface_hub.errors import RepositoryNotFoundError

    for repo_type in _REPO_TYPES[:-1]:
        with suppress(RepositoryNotFoundError):
            return query(repo_type)
    return query(_REPO_TYPES[-1])


def _cached(api: HfApi, repo: str, revision: str) -> Path | None:
    from huggingface_hub.errors import LocalEntryNotFoundError

    for repo_type in _REPO_TYPES:
        try:
            return Path(
                api.snapshot_download(
                    repo,
                    revision=revision,
                    repo_type=repo_type,
                    ignore_patterns=[_BINARIES],
                    local_files_only=True,
                )
            )
        except (LocalEntryNotFoundError, OSError):
            continue
    return None


def _download(api: HfApi, repo: str, revision: str) -> Path:
    from huggingface_hub.constants import HF_HUB_OFFLINE

    if HF_HUB_OFFLINE:
        found = _cached(api, repo, revision)
        if found is None:
            raise SourceError(
                f"{repo} at {revision} is not in the Hub cache, and the Hub is disabled (HF_HUB_OFFLINE)",
                remedy=f"fetch it once while online: hf download {repo} --revision {revision}",
            )
        return found
    repo_type, commit = find_commit(api, repo, revision)
    listed = list_files(api, repo, commit, repo_type)
    check_files(repo, [file for file in listed if not file.path.startswith("build/")])
    # Pass the revision, not the commit, so that the cache records the revision for offline runs.
    return Path(api.snapshot_download(repo, revision=revision, repo_type=repo_type, ignore_patterns=[_BINARIES]))


def list_files(api: HfApi, repo: str, commit: str, repo_type: str) -> list[RepoFile]:
    """Return all files of a repo.

    :raises SourceError: there are too many.
    """
    from huggingface_hub.hf_api import RepoFile

    entries = api.list_repo_tree(repo, recursive=True, revision=commit, repo_type=repo_type)
    listed = list(islice(entries, _MAX_LISTED + 1))
    if len(listed) > _MAX_LISTED:
        raise SourceError(f"{repo} has more than {_MAX_LISTED} files and folders")
    return [entry for entry in listed if isinstance(entry, RepoFile)]


def check_files(what: str, files: list[RepoFile]) -> None:
    """Check the names and sizes of files before any of them is fetched.

    :raises SourceError: a name is unsafe, or the files are too many or too large.
    """
    for file in files:
        check_path(file.path)
    if len(files) > MAX_FILES or sum(file.size for file in files) > MAX_BYTES:
        raise SourceError(f"{what} has more than {MAX_FILES} files or {show_binary_size(MAX_BYTES)}")


def _files(root: Path) -> Iterator[FoundFile]:
    """Yield the files of a snapshot.

    None is executable: the Hub does not provide modes, and those in the cache differ among machines.
    """
    for file in walk(root, lambda path, _: path != "build", within=repo_folder(root)):
        yield FoundFile(path=file.path, real=file.real)


def repo_folder(snapshot: Path) -> Path:
    """Return the folder in the Hub cache with a repo's snapshots and the blobs that they link to."""
    return snapshot.parent.parent.resolve()


def explain_hub_errors(repo: str, revision: str, fetch: Callable[[], _T]) -> _T:
    """Call ``fetch`` and raise its errors as a ``SourceError``, without their texts, which may contain headers.

    :raises SourceError: ``fetch`` failed.
    """
    from huggingface_hub import errors

    try:
        return fetch()
    except errors.GatedRepoError:
        raise SourceError(
            f"{repo} is gated and this account has no access",
            remedy=f"request access on the repo's page, then: hf auth login, or set HF_TOKEN ({repo})",
        ) from None
    except errors.RevisionNotFoundError:
        raise SourceError(
            f"{repo} has no revision {revision!r}", remedy="name a branch such as v1, a tag or a commit"
        ) from None
    except errors.RepositoryNotFoundError:
        raise SourceError(
            f"there is no kernel {repo} on the Hub, or it is private",
            remedy="check the name; for a private repo: hf auth login, or set HF_TOKEN",
        ) from None
    except errors.HfHubHTTPError as error:
        status = error.response.status_code if error.response is not None else "no status"
        raise SourceError(f"the Hub answered {status} for {repo}", remedy="try again later") from None
    except errors.HFValidationError as error:
        raise SourceError(f"{repo!r} is not a Hub repo: {error}") from None
    except SourceError:
        raise
    except Exception as error:  # noqa: BLE001  # the client may raise errors of any HTTP library
        raise SourceError(
            f"{repo} could not be fetched: {type(error).__name__}",
            remedy="check the network and HF_ENDPOINT; to use only the cache, set HF_HUB_OFFLINE=1",
        ) from None
