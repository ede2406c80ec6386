"""Put a release into an index, and into a kernel repo of the Hub what the ``kernels`` library loads besides."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from wheelsmith.base.units import show_moment
from wheelsmith.index.entries import IndexEntry, project_of
from wheelsmith.index.entries.side_files.known import signatures
from wheelsmith.index.entries.state import set_address
from wheelsmith.index.publish.hub_release import HubBuild, add_release
from wheelsmith.index.publish.input_folders import mark_sources, refuse_what_is_of_others, release_from
from wheelsmith.index.publish.kernels_layout import NoHubBuildError, build_layout, kernel_version
from wheelsmith.index.publish.release import IndexRelease
from wheelsmith.index.publish.unpublished import mark_published
from wheelsmith.index.publish.writer import Index, WheelUpload
from wheelsmith.index.storage import Storage, kernel_branch, open_storage
from wheelsmith.wheel.archive import open_wheel
from wheelsmith.wheel.attestation.bundle import SUFFIX


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """What publishing came to: wheels that the index did not have, and those that it had.

    :param signed_otherwise: those that the index has with another signature than was offered, which it keeps.
    """

    new: tuple[IndexEntry, ...]
    known: tuple[IndexEntry, ...]
    signed_otherwise: tuple[IndexEntry, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class HubBuilds:
    """What the ``kernels`` library is to find beside the wheels.

    :param left_out: wheel → why it has no build.
    """

    builds: tuple[HubBuild, ...] = ()
    left_out: dict[str, str] = field(default_factory=dict)


def publish(storage: Storage, release: IndexRelease, builds: Sequence[HubBuild] = ()) -> Published:
    """Add a release to an index, as of now.

    :param builds: what the ``kernels`` library is to find beside the wheels.
    :raises PackageIndexError: a file name is there with other bytes, or the index cannot be written.
    """
    refuse_what_is_of_others(release.offers)
    index = Index(storage)
    before = {entry.filename for project in _projects(release) for entry in index.entries(project)}
    now = show_moment(time.time())
    added = add_release(storage, release.offers, builds, said=release.said, upload_time=now)
    entries = tuple({entry.filename: entry for entry in added}.values())
    mark_published(storage, (entry.sha256 for entry in entries))
    return Published(
        new=tuple(entry for entry in entries if entry.filename not in before),
        known=tuple(entry for entry in entries if entry.filename in before),
        signed_otherwise=tuple(entry for entry in entries if _is_signed_otherwise(entry, release)),
    )


def tell_address(storage: Storage, release: IndexRelease, address: str) -> None:
    """Note where the index is found, in the projects of a release.

    :raises PackageIndexError: it is no address of an index, or the index cannot be written.
    """
    for project in sorted(_projects(release)):
        Index(storage).change(project, partial(set_address, address=address))


def replace_signatures(storage: Storage, release: IndexRelease) -> tuple[IndexEntry, ...]:
    """Put what was signed of the wheels of a release beside those that an index has; return those that changed.

    :raises PackageIndexError: the index has no such project, or cannot be written.
    """
    refuse_what_is_of_others(release.offers)
    index, changed = Index(storage), []
    for project in sorted(_projects(release)):
        other = {entry.sha256 for entry in index.entries(project) if _is_signed_otherwise(entry, release)}
        offers = [offer for offer in release.offers if offer.entry.sha256 in other and SUFFIX in offer.side_files]
        if offers:
            state = index.attach(project, {offer.entry.sha256: signatures(offer.side_files) for offer in offers})
            changed += [entry for entry in state.entries if entry.sha256 in other]
    return tuple(changed)


def _is_signed_otherwise(entry: IndexEntry, release: IndexRelease) -> bool:
    offered = {o.entry.side_files.get(SUFFIX) for o in release.offers if o.entry.sha256 == entry.sha256} - {None}
    return bool(offered) and entry.side_files.get(SUFFIX) not in offered


def publish_folders(folders: Sequence[Path], target: str) -> Published:
    """Publish what lies in some folders, indexes as runs leave them or wheels, to an index, as of now.

    :param target: a folder, ``s3://…``, ``gs://…``, ``az://…`` or ``hf://…``.
    :raises WheelsmithError: there is nothing, a file name is there with other bytes, or the index cannot be written.
    """
    release = release_from(folders)
    with hub_builds(release.offers, target) as beside:
        published = publish(open_storage(target), release, beside.builds)
    mark_sources(folders, release)
    return published


@contextmanager
def hub_builds(offers: Sequence[WheelUpload], target: str) -> Iterator[HubBuilds]:
    """Lay wheels out for the ``kernels`` library, as files that are there as long as the block runs.

    :param target: where they will be published; only a kernel repo of the Hub takes builds, others get none.
    :raises WheelError: a wheel cannot be read.
    """
    branch = kernel_branch(target)
    if branch is None:
        yield HubBuilds()
        return
    builds, left_out = [], {}
    with tempfile.TemporaryDirectory(prefix="wheelsmith-") as scratch:
        # A variant wheel has the content of the plain one beside it.
        for number, offer in enumerate(offer for offer in offers if offer.entry.variant is None):
            try:
                builds += _unpack(offer, branch, Path(scratch) / str(number))
            except NoHubBuildError as reason:
                left_out[offer.entry.filename] = str(reason)
        yield HubBuilds(builds=tuple(builds), left_out=left_out)


def _unpack(offer: WheelUpload, branch: str, folder: Path) -> list[HubBuild]:
    if branch[:1] == "v" and branch[1:].isdigit() and int(branch[1:]) != kernel_version(offer.entry):
        raise NoHubBuildError(f"branch {branch} is for version {branch[1:]} of a kernel (branches are v1, v2, …)")
    variants: dict[str, dict[str, Path]] = {}
    for key, data in build_layout(open_wheel(offer.wheel).files, offer.entry).items():
        path = folder / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        _, variant, inside = key.split("/", 2)
        variants.setdefault(variant, {})[inside] = path
    return [HubBuild(variant=name, filename=offer.entry.filename, files=files) for name, files in variants.items()]


def _projects(release: IndexRelease) -> set[str]:
    return {project_of(offer.entry.filename) for offer in release.offers}
