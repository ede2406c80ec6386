"""What goes into an index: the wheels of a run, another index's wheels, or wheels that somebody else made."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from wheelsmith import __version__
from wheelsmith.base.errors import PackageIndexError
from wheelsmith.base.json_dataclass import canonical_digest
from wheelsmith.frameworks import read_local_version
from wheelsmith.index.entries import (
    CellWithoutWheel,
    IndexEntry,
    NoWheel,
    Provenance,
    about_of,
    requires_beside_torch,
    requires_torch,
)
from wheelsmith.index.entries.side_files.known import made_files, with_files
from wheelsmith.index.entries.side_files.metadata import CORE_METADATA
from wheelsmith.index.publish.writer import ReleaseWords, WheelUpload
from wheelsmith.model import BuildPlan, BuildResult, Cell, Excluded, Status, WheelFile, read_wheel_name
from wheelsmith.store import Store, StoredWheel
from wheelsmith.wheel import read_variant, wheel_file
from wheelsmith.wheel.variant_format import Variant, dump_variants, variant_for, variant_version

_ARCHS = ("x86_64", "aarch64")
# Raised when the same wheel gives a variant wheel of other bytes than before.
_VARIANT_RECIPE = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexRelease:
    """What is to be published together.

    :param said: what is said beside the wheels.
    """

    offers: tuple[WheelUpload, ...]
    said: ReleaseWords = field(default_factory=ReleaseWords)


def built_wheels(plans: Sequence[BuildPlan], results: Sequence[BuildResult], store: Store) -> tuple[WheelUpload, ...]:
    """Return each wheel of a run once, with every cell that it serves."""
    served: dict[str, list[Cell]] = {}
    for result in results:
        if result.wheel:
            served.setdefault(result.plan_digest, []).append(result.cell)
    made = {plan.build_digest: plan for plan in reversed(plans)}
    offers = []
    for digest, cells in served.items():
        if stored := store.find(digest):
            offers.append(offer_of(stored.path, stored.wheel, tuple(cells), made[digest]))
    return tuple(offers)


def variant_wheels(offers: Sequence[WheelUpload], store: Store, work: Path) -> tuple[WheelUpload, ...]:
    """Return the variant wheel beside each plain one that is for a compute platform; the store keeps them, too.

    :param work: a folder for this.
    :raises WheelError: a plain wheel cannot be read.
    """
    made = []
    for offer in offers:
        name = read_wheel_name(offer.entry.filename)
        version = variant_version(str(name.version))
        if version is None:
            continue
        variant = variant_for(read_local_version(name.version.local).compute or "", offer.entry.gpu_archs)
        kept = _variant_wheel(offer, variant, version, store, work)
        known = offer.entry
        beside = offer_of(kept.path, kept.wheel, known.cells, None)
        entry = replace(beside.entry, gpu_archs=known.gpu_archs, provenance=known.provenance, variant_of=known.filename)
        made.append(replace(beside, entry=entry))
    return tuple(made)


def _variant_wheel(offer: WheelUpload, variant: Variant, version: str, store: Store, work: Path) -> StoredWheel:
    from wheelsmith.wheel.variant import make_variant

    metadata = dump_variants([variant]).decode()
    digest = canonical_digest([_VARIANT_RECIPE, offer.entry.sha256, version, metadata])
    if kept := store.find(digest):
        return kept
    with tempfile.TemporaryDirectory(dir=work) as folder:
        wheel = make_variant(offer.wheel, variant, version, Path(folder))
        return store.put(digest, wheel, wheel_file(wheel))


def unserved_cells(
    version: str, results: Sequence[BuildResult], excluded: Sequence[Excluded]
) -> tuple[CellWithoutWheel, ...]:
    """Return why the other cells of a run have no wheel.

    :param version: of the kernel, without a local part.
    """
    failed = [
        CellWithoutWheel(
            cell=result.cell,
            version=version,
            status=NoWheel.FAILED,
            reason=f"{result.failure.stage}: {result.failure.message}",
            tail=result.failure.tail,
        )
        for result in results
        if result.status is Status.FAILED and result.failure
    ]
    left_out = [
        CellWithoutWheel(cell=item.cell, version=version, status=NoWheel.EXCLUDED, reason=item.reason)
        for item in excluded
    ]
    return (*failed, *left_out)


def offer_of(path: Path, file: WheelFile, cells: tuple[Cell, ...], plan: BuildPlan | None) -> WheelUpload:
    """Return a wheel as an index is offered it; all but the cells and what the plan knows is read from the wheel.

    :param file: what the wheel was when it was looked at.
    :raises PackageIndexError: it is another by now.
    """
    made = made_files(path, file.filename)
    metadata = made[CORE_METADATA]
    if hashlib.sha256(metadata).hexdigest() != file.metadata_sha256:
        raise PackageIndexError(f"{path} changed while it was being read")
    entry = IndexEntry(
        filename=file.filename,
        sha256=file.sha256,
        size=file.size,
        requires_python=file.requires_python,
        metadata_sha256=file.metadata_sha256,
        upload_time="",
        cells=cells,
        requires_torch=requires_torch(metadata),
        requires=requires_beside_torch(metadata),
        gpu_archs=(plan.wheel.gpu_archs or file.gpu_archs) if plan else (),
        variant=read_variant(path),
        provenance=_provenance(plan) if plan else None,
        about=about_of(metadata),
    )
    return with_beside(WheelUpload(entry=entry, wheel=path, side_files={}), made)


def with_beside(offer: WheelUpload, files: Mapping[str, bytes]) -> WheelUpload:
    """Return a wheel with more beside it: suffix → content."""
    return replace(offer, entry=with_files(offer.entry, files), side_files={**offer.side_files, **files})


def _provenance(plan: BuildPlan) -> Provenance:
    return Provenance(
        cell=plan.cell.id,
        source=plan.source,
        toolkit=plan.toolkit.version if plan.toolkit else None,
        compiler=plan.toolset.version if plan.toolset else None,
        image=plan.image.digest if plan.image else None,
        plan_digest=plan.build_digest,
        wheelsmith=__version__,
    )
