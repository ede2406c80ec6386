"""Which versions an index may forget, as one of nightly builds does."""

from __future__ import annotations

from packaging.version import Version

from wheelsmith.index.entries.entry import ProjectState
from wheelsmith.index.entries.state import drop_version, version_of


def outdated(state: ProjectState, *, keep: int, before: str | None = None) -> tuple[str, ...]:
    """Return the versions that may go, the newest first, without local parts.

    :param keep: how many of the newest stay in any case.
    :param before: a time as entries have it; what was published later stays, too.
    """
    published: dict[Version, str] = {}
    for entry in state.entries:
        version = Version(version_of(entry).public)
        published[version] = max(published.get(version, ""), entry.upload_time)
    rest = sorted(published, reverse=True)[keep:]
    return tuple(str(version) for version in rest if before is None or published[version] < before)


def retain(state: ProjectState, *, keep: int, before: str | None = None) -> ProjectState:
    """List what is outdated no more: all wheels of a version, or none."""
    for version in outdated(state, keep=keep, before=before):
        state = drop_version(state, version)
    return state
