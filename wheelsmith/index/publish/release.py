"""Releases: wheels to publish together, from a run, from another index or from third parties."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from packaging.metadata import RawMetadata
from packaging.utils import canonicalize_name

from wheelsmith import __version__
from wheelsmith.base.errors import PackageIndexError, Place, WheelError
from wheelsmith.base.json_dataclass import canonical_digest, in_one_line
from wheelsmith.frameworks import read_local_version
from wheelsmith.index.entries.entry import CellWithoutWheel, IndexEntry, NoWheel, PlannedVersion, Provenance
from wheelsmith.index.entries.metadata import other_requirements, parse_headers, read_about, required_torch
from wheelsmith.index.entries.side_files import CORE_METADATA
from wheelsmith.model import BuildPlan, BuildResult, Cell, Excluded, Status, read_wheel_name, same_version
from wheelsmith.store import Store, StoredWheel
from wheelsmith.wheel.facts import WheelFacts, wheel_facts, wheel_file
from wheelsmith.wheel.reader import WheelReader
from wheelsmith.wheel.variant_format import Variant, dump_variants, variant_for, variant_version

# Increase this number when a change gives variant wheels other bytes.
_VARIANT_RECIPE = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class WheelUpload:
    """A wheel to add to an index.

    :param entry: the entry for the index. The index sets its ``upload_time``.
    :param wheel: path of the wheel.
    :param side_files: suffix → content of each side file in the entry.
    """

    entry: IndexEntry
    wheel: Path
    side_files: Mapping[str, bytes]

    def with_files(self, files: Mapping[str, bytes]) -> WheelUpload:
        """Return a copy with additional side files: suffix → content."""
        return replace(self, entry=self.entry.with_files(files), side_files={**self.side_files, **files})


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexRelease:
    """Wheels to publish together.

    :param answers: project → the unserved cells.
    :param planned: project → the planned cells of its versions.
    :param left_out: wheels of an older source, which are not published.
    """

    uploads: tuple[WheelUpload, ...] = ()
    answers: Mapping[str, Sequence[CellWithoutWheel]] = field(default_factory=dict)
    planned: Mapping[str, Sequence[PlannedVersion]] = field(default_factory=dict)
    left_out: tuple[WheelUpload, ...] = ()

    @property
    def projects(self) -> list[str]:
        """Return the projects of the wheels, sorted."""
        return sorted({upload.entry.project for upload in self.uploads})


def built_wheels(
    plans: Sequence[BuildPlan], results: Sequence[BuildResult], store: Store, reader: UploadReader
) -> tuple[WheelUpload, ...]:
    """Return each wheel of a run once, with all cells that it serves."""
    served: dict[str, list[Cell]] = {}
    for result in results:
        if result.wheel:
            served.setdefault(result.plan_digest, []).append(result.cell)
    plan_by_digest = {plan.build_digest: plan for plan in reversed(plans)}
    found = {digest: store.find(digest) for digest in served}
    return tuple(
        _built_upload(stored, tuple(served[digest]), plan_by_digest[digest], reader)
        for digest, stored in found.items()
        if stored
    )


def _built_upload(stored: StoredWheel, cells: tuple[Cell, ...], plan: BuildPlan, reader: UploadReader) -> WheelUpload:
    metadata = plan.wheel.metadata
    if metadata is not None and hashlib.sha256(metadata.encode()).hexdigest() == stored.wheel.metadata_sha256:
        # The plan has the METADATA of a kernel, so the worker, which takes half a second to start, need not read it.
        facts = WheelFacts(file=replace(stored.wheel, gpu_archs=()), headers=metadata, variant=None)
        upload = parse_upload(stored.path, _describe(facts))
    else:
        upload = reader.upload(stored.path)
    if upload.entry.sha256 != stored.wheel.sha256:
        raise PackageIndexError(f"{stored.path} changed while it was being read")
    archs = plan.wheel.gpu_archs or stored.wheel.gpu_archs
    features = plan.wheel.cpu_features
    entry = replace(upload.entry, cells=cells, gpu_archs=archs, cpu_features=features, provenance=_provenance(plan))
    return replace(upload, entry=entry)


def variant_wheels(
    uploads: Sequence[WheelUpload], store: Store, work: Path, reader: UploadReader
) -> tuple[WheelUpload, ...]:
    """Return a variant wheel for each plain wheel that is for a compute platform. The store caches them.

    :param work: a folder for temporary files.
    :raises WheelError: a plain wheel cannot be read.
    """
    made = []
    for upload in uploads:
        plain = upload.entry
        version = variant_version(str(plain.version))
        if version is None:
            continue
        variant = variant_for(read_local_version(plain.version.local).compute or "", plain.gpu_archs)
        kept = _variant_wheel(upload, variant, version, store, work)
        variant_upload = reader.upload(kept.path)
        entry = replace(
            variant_upload.entry,
            cells=plain.cells,
            gpu_archs=plain.gpu_archs,
            cpu_features=plain.cpu_features,
            provenance=plain.provenance,
            variant_of=plain.filename,
        )
        made.append(replace(variant_upload, entry=entry))
    return tuple(made)


def _variant_wheel(upload: WheelUpload, variant: Variant, version: str, store: Store, work: Path) -> StoredWheel:
    from wheelsmith.wheel.variant import make_variant

    metadata = dump_variants([variant]).decode()
    digest = canonical_digest([_VARIANT_RECIPE, upload.entry.sha256, version, metadata])
    if kept := store.find(digest):
        return kept
    with tempfile.TemporaryDirectory(dir=work) as folder:
        wheel = make_variant(upload.wheel, variant, version, Path(folder))
        return store.put(digest, wheel, wheel_file(wheel))


def unserved_of_run(
    version: str, results: Sequence[BuildResult], excluded: Sequence[Excluded]
) -> tuple[CellWithoutWheel, ...]:
    """Return the cells of a run without a wheel, with the reasons.

    :param version: version of the kernel, without a local part.
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
        if not item.waits
    ]
    return (*failed, *left_out)


class UploadReader(WheelReader):
    """Reads wheels for an index in the worker."""

    def upload(self, wheel: Path) -> WheelUpload:
        """Read a wheel to add to an index. Fields that come from the plan, such as the cells, are empty.

        :raises WheelError: the wheel cannot be read, or METADATA has another name or version than the file name.
        :raises PackageIndexError: the wheel has values that an index rejects.
        """
        return parse_upload(wheel, self._read("wheelsmith.index.publish.release:read_upload", wheel))

    def external(self, wheel: Path) -> WheelUpload:
        """Read a wheel of any origin, with the cells that its version and METADATA name.

        :raises WheelError: as for ``upload``, or its requirements are invalid or contradict its version.
        """
        return parse_upload(wheel, self._read("wheelsmith.index.publish.input_folders:read_external", wheel))

    def upload_of_bytes(self, filename: str, data: bytes) -> WheelUpload:
        """Read a wheel from bytes, like ``upload``."""
        path = self.folder / filename
        path.write_bytes(data)
        try:
            return self.upload(path)
        finally:
            path.unlink()


def parse_upload(wheel: Path, read: Mapping[str, Any]) -> WheelUpload:
    """Return the upload for a wheel that the worker has read."""
    entry = IndexEntry.from_json(read["entry"])
    metadata = read["metadata"].encode("utf-8", "surrogateescape")
    return WheelUpload(entry=entry, wheel=wheel, side_files={}).with_files({CORE_METADATA: metadata})


def read_upload(request: Mapping[str, Any]) -> dict[str, Any]:
    """Read a wheel. This runs in the worker."""
    return _describe(wheel_facts(Path(request["path"])))


def _describe(facts: WheelFacts) -> dict[str, Any]:
    _check_names(facts.file.filename, parse_headers(facts.metadata))
    try:
        entry = IndexEntry.of(
            facts.file,
            requires_torch=required_torch(facts.metadata),
            requires=other_requirements(facts.metadata),
            variant=facts.variant,
            about=read_about(facts.metadata),
        )
    except ValueError as error:
        raise PackageIndexError(
            f"{facts.file.filename!r} is not allowed in an index: {in_one_line(error)}",
            remedy="build it again with plain metadata",
        ) from None
    return {"entry": entry.to_json(), "metadata": facts.headers}


def _check_names(filename: str, headers: RawMetadata) -> None:
    """Check that METADATA and file name agree. Otherwise uv installs the wheel, but pip does not find it.

    :raises WheelError: they differ.
    """
    name, version = read_wheel_name(filename), headers.get("version")
    if canonicalize_name(headers.get("name", "")) != name.project or not same_version(version, name.version):
        raise WheelError(
            f"METADATA says {headers.get('name')} {version}",
            where=Place(file=filename),
            remedy="build it again with that version; renaming the file is not enough",
        )


def _provenance(plan: BuildPlan) -> Provenance:
    return Provenance(
        cell=plan.cell.id,
        source=plan.source,
        toolkit=plan.toolkit.version if plan.toolkit else None,
        compiler=plan.compiler,
        image=plan.image.digest if plan.image else None,
        plan_digest=plan.build_digest,
        wheelsmith=__version__,
    )
