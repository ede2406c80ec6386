"""Wheels and their builds for the ``kernels`` library, published together: one commit holds both."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.utils import parse_wheel_filename

from wheelsmith.index.entries.entry import IndexEntry, ProjectState
from wheelsmith.index.publish.kernels_layout import METADATA, gives_way
from wheelsmith.index.publish.writer import Index, ReleaseWords, WheelUpload
from wheelsmith.index.storage.protocol import Storage


@dataclass(frozen=True, slots=True, kw_only=True)
class HubBuild:
    """One variant of a kernel, ready to be put under ``build/``.

    :param filename: the wheel's, whose version decides between two builds of one variant.
    :param files: path in the variant's folder → where its content lies; metadata.json is one of them.
    """

    variant: str
    filename: str
    files: Mapping[str, Path]


def add_release(
    storage: Storage,
    offers: Sequence[WheelUpload],
    builds: Sequence[HubBuild],
    *,
    upload_time: str,
    said: ReleaseWords | None = None,
    revise: Mapping[str, Callable[[ProjectState], ProjectState]] | None = None,
) -> tuple[IndexEntry, ...]:
    """Add wheels as ``Index.add`` does, and in the same transaction their builds.

    :param storage: a Hub repo, when there are builds: other storages cannot change both at once.
    :param builds: those of the newest wheel of each variant are taken, and replace only what is older.
    :raises PackageIndexError: as ``Index.add``.
    """
    if not builds:
        return Index(storage).add(offers, upload_time=upload_time, said=said, revise=revise)

    def work(staged: Storage) -> tuple[IndexEntry, ...]:
        entries = Index(staged).add(offers, upload_time=upload_time, said=said, revise=revise)
        for build in _newest(builds):
            _put_build(staged, build)
        return entries

    return storage.transaction(work)


def _newest(builds: Iterable[HubBuild]) -> list[HubBuild]:
    # Of two with one version, such as one for an older glibc, any may serve; but always the same one.
    ordered = sorted(builds, key=lambda build: (parse_wheel_filename(build.filename)[1], build.filename))
    return list({build.variant: build for build in ordered}.values())


def _put_build(storage: Storage, build: HubBuild) -> None:
    folder = f"build/{build.variant}/"
    present = storage.read(folder + METADATA)
    if present and not gives_way(present.data, build.files[METADATA].read_bytes()):
        return
    wanted = {folder + path: content for path, content in build.files.items()}
    for item in list(storage.listing(folder)):
        if item.key not in wanted:
            storage.delete(item.key)
    for key, content in wanted.items():
        # Unlike what an index puts, it may be another file than before: the transaction guards all of it.
        storage.put(key, content)
