"""Put a release into an index, and into a kernel repo of the Hub what the ``kernels`` library loads besides."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from wheelsmith import __version__
from wheelsmith.files import atomic_copy, atomic_write
from wheelsmith.index import (
    Build,
    Folder,
    Index,
    IndexEntry,
    NoBuild,
    Offer,
    Storage,
    add_release,
    build_layout,
    kernel_branch,
    kernel_version,
    project_of,
)
from wheelsmith.model import BuildPlan, BuildResult, Excluded
from wheelsmith.publish.release import Release, built_wheels, unserved_cells, variant_wheels
from wheelsmith.record import canonical_digest
from wheelsmith.store import Store
from wheelsmith.wheel.archive import open_wheel


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """What publishing came to: wheels that the index did not have, and those that it had."""

    new: tuple[IndexEntry, ...]
    known: tuple[IndexEntry, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class HubBuilds:
    """What the ``kernels`` library is to find beside the wheels.

    :param left_out: wheel → why it has no build.
    """

    builds: tuple[Build, ...] = ()
    left_out: dict[str, str] = field(default_factory=dict)


def publish(storage: Storage, release: Release, builds: Sequence[Build] = ()) -> Published:
    """Add a release to an index, as of now.

    :param builds: what the ``kernels`` library is to find beside the wheels.
    :raises PackageIndexError: a file name is there with other bytes, or the index cannot be written.
    """
    index = Index(storage)
    before = {entry.filename for project in _projects(release) for entry in index.entries(project)}
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    entries = add_release(storage, release.offers, builds, answers=release.answers, upload_time=now)
    return Published(
        new=tuple(entry for entry in entries if entry.filename not in before),
        known=tuple(entry for entry in entries if entry.filename in before),
    )


def publish_run(
    plans: Sequence[BuildPlan],
    results: Sequence[BuildResult],
    excluded: Sequence[Excluded],
    *,
    out: Path,
    store: Store,
    work: Path,
    variants: bool,
) -> None:
    """Put every wheel of a run into its own index at once, and the plain ones beside it for people who want files.

    :param out: the run's output folder.
    :param work: a folder for this.
    :param variants: whether the index is to offer wheel variants too.
    """
    note, told = out / "index" / "_state" / ".run", _told(results, excluded, variants=variants)
    if note.is_file() and note.read_bytes() == told and _has_copies(out, results):
        return
    offers = built_wheels(plans, results, store)
    if not offers:
        return
    # A run that is killed from here on has told a part, whatever the one before it had told.
    note.unlink(missing_ok=True)
    beside = variant_wheels(offers, store, work) if variants else ()
    answers = unserved_cells(plans, results, excluded)
    publish(Folder(out / "index"), Release(offers=(*offers, *beside), answers=answers))
    for offer in offers:
        copy = out / "wheels" / offer.entry.filename
        if not copy.is_file() or copy.stat().st_size != offer.entry.size:
            atomic_copy(offer.wheel, copy)
    atomic_write(note, told)


def _told(results: Sequence[BuildResult], excluded: Sequence[Excluded], *, variants: bool) -> bytes:
    """Give the digest of all that a run tells its index, so that a run with nothing new need not tell it again."""
    cells = [
        (
            result.cell.to_json(),
            result.plan_digest,
            result.wheel.to_json() if result.wheel else None,
            result.failure.to_json() if result.failure else None,
        )
        for result in results
    ]
    return canonical_digest([__version__, variants, cells, [item.to_json() for item in excluded]]).encode()


def _has_copies(out: Path, results: Sequence[BuildResult]) -> bool:
    return all((out / "wheels" / result.wheel.filename).is_file() for result in results if result.wheel)


@contextmanager
def hub_builds(offers: Sequence[Offer], target: str) -> Iterator[HubBuilds]:
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
            except NoBuild as reason:
                left_out[offer.entry.filename] = str(reason)
        yield HubBuilds(builds=tuple(builds), left_out=left_out)


def _unpack(offer: Offer, branch: str, folder: Path) -> list[Build]:
    if branch[:1] == "v" and branch[1:].isdigit() and int(branch[1:]) != kernel_version(offer.entry):
        raise NoBuild(f"branch {branch} is for version {branch[1:]} of a kernel (branches are v1, v2, …)")
    variants: dict[str, dict[str, Path]] = {}
    for key, data in build_layout(open_wheel(offer.wheel).files, offer.entry).items():
        path = folder / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        _, variant, inside = key.split("/", 2)
        variants.setdefault(variant, {})[inside] = path
    return [Build(variant=name, filename=offer.entry.filename, files=files) for name, files in variants.items()]


def _projects(release: Release) -> set[str]:
    return {project_of(offer.entry.filename) for offer in release.offers}
