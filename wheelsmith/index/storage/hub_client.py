"""Requests to the Hub, repeated as long as they may succeed.

The client's own messages may quote a token, so they are replaced.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from json import JSONDecodeError
from urllib.parse import quote

from wheelsmith.base.errors import AddressError, PackageIndexError
from wheelsmith.index.storage.compare_and_swap import backoff
from wheelsmith.index.storage.protocol import ConflictError, T

_SYNTAX = "write hf://[datasets/|spaces/|kernels/]org/name[@branch][/folder]"
_REFUSED_FOLDERS = {"", ".", "..", ".git", ".cache"}
# The first whose create_commit takes the repo type.
_KERNELS_SINCE = "2.3"
_PASSING = {HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS}
_ATTEMPTS = 8
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


def check_client(place: HubPlace) -> None:
    """Refuse a huggingface_hub that cannot commit to a repo of this kind.

    :raises PackageIndexError: it is too old.
    """
    import huggingface_hub
    from packaging.version import Version

    if place.kind == "kernel" and Version(huggingface_hub.__version__) < Version(_KERNELS_SINCE):
        raise PackageIndexError(
            f"huggingface_hub {huggingface_hub.__version__} cannot write to kernel repos",
            remedy=f"pip install --upgrade 'huggingface_hub>={_KERNELS_SINCE}'",
        )


def parse_target(target: str) -> HubPlace:
    """Read ``hf://[datasets/|spaces/|kernels/]org/name[@branch][/folder]``.

    :raises AddressError: it names no repo. The message does not repeat it, for what people take for a target may
        hold their token.
    """
    try:
        from huggingface_hub import parse_hf_uri
        from huggingface_hub.errors import HfUriError
    except ImportError:
        raise PackageIndexError(
            "this huggingface_hub is too old to publish with", remedy="pip install --upgrade huggingface_hub"
        ) from None
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
    for number in range(_ATTEMPTS):
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
