"""Which versions an index may forget, as one of nightly builds does."""

from __future__ import annotations

from packaging.version import Version

from wheelsmith.index.entries.entry import ProjectState
from wheelsmith.index.entries.state import drop_versions, public_of


def outdated(state: ProjectState, *, keep: int, before: str | None = None) -> tuple[str, ...]:
    """Return the versions that may go, the newest first, without local parts.

    :param keep: how many of the newest stay in any case; one whose wheels are all yanked, or that has none, is not
        counted.
    :param before: a time as entries have it; what was published later stays, too.
    """
    published: dict[Version, str] = {Version(item.version): "" for item in state.planned}
    for entry in state.entries:
        published[public_of(entry)] = max(published.get(public_of(entry), ""), entry.upload_time)
    standing = sorted({public_of(entry) for entry in state.entries if entry.yanked is None}, reverse=True)
    if len(standing) < keep:
        return ()
    rest = sorted((version for version in published if version < standing[keep - 1]), reverse=True)
    return tuple(str(version) for version in rest if before is None or published[version] < before)


def retain(state: ProjectState, *, keep: int, before: str | None = None) -> ProjectState:
    """List what is outdated no more: all wheels of a version, or none."""
    return drop_versions(state, outdated(state, keep=keep, before=before))
