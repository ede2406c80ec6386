"""Why a repository could not be fetched, from what git says of it, and what fixes that."""

from __future__ import annotations

from wheelsmith.base.errors import SourceError
from wheelsmith.base.git_address import GitAddress
from wheelsmith.source.git.program import TOO_LARGE

_NO_REVISION = (
    "couldn't find remote ref",
    "not our ref",
    "unadvertised object",
    "no such remote ref",
    "trying to write ref",
)
_NO_RIGHTS = (
    *("could not read Username", "could not read Password", "Authentication failed", "terminal prompts disabled"),
    *("Permission denied", "returned error: 401", "returned error: 403", "Host key verification failed"),
)
_NOWHERE = ("not found", "does not appear to be a git repository", "not a git repository", "returned error: 404")
_OWNER = "dubious ownership"
_TOO_OLD = "usage: git"


def explain_fetch(address: GitAddress, revision: str, said: str, before: str | None) -> SourceError:
    """Return what a person can do about a fetch that failed.

    :param said: git's own words.
    :param before: the commit that the revision was when it was last fetched.
    """
    shown = address.text if address.is_local else address.shown

    def has(*words: str) -> bool:
        return any(word in said for word in words)

    if has(*_NO_REVISION):
        return SourceError(
            f"{shown} has no revision {revision!r}",
            remedy="name a branch, a tag, or all 40 digits of a commit; git ls-remote tells what there is",
        )
    if has(_OWNER):
        return SourceError(
            f"git does not read {shown}: it is another user's",
            remedy=f"git config --global --add safe.directory {shown.removeprefix('file://')}",
        )
    if has(*_NO_RIGHTS):
        return SourceError(
            f"{shown} is not given without credentials, or is not there",
            remedy=f"let git have them without being asked, by a credential helper or a key: git ls-remote {shown}",
        )
    if has(*_NOWHERE):
        return SourceError(f"there is no git repository {shown}", remedy="fix kernel.git in matrix.yaml")
    if has(TOO_LARGE):
        return SourceError(f"{shown} is no kernel's source: {said}")
    if has("dumb http", "mismatched algorithms"):
        return SourceError(
            f"{shown} is not given in a way that is taken: {said}",
            remedy="clone it, and name the clone as kernel.git; one whose commits have 64 digits is not read at all",
        )
    remedy = "check the network: git ls-remote must reach it"
    if before is not None:
        remedy += f"; to go on without, write the commit that it was last time: revision: {before}"
    if has(_TOO_OLD):
        remedy = "install git 2.30 or later"
    return SourceError(f"{shown} could not be fetched: {said}", remedy=remedy)
