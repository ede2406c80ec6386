"""The steps of a release on one machine. Each step reads its input from disk, so that it can be repeated alone."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TypeVar

from packaging.version import Version

from wheelsmith.base.errors import PackageIndexError, ReleaseError
from wheelsmith.base.files import read_bounded, sha256_file
from wheelsmith.base.redact import redact
from wheelsmith.index.doctor.crawl import CrawlScope, examine
from wheelsmith.index.doctor.finding import Severity
from wheelsmith.index.entries.catalogue import VersionChanges, catalogue_of, version_changes
from wheelsmith.index.entries.entry import CellWithoutWheel, IndexEntry, PlannedVersion, ProjectState
from wheelsmith.index.entries.state import check_project, completeness, name_conflict, select_version
from wheelsmith.index.entries.stored_states import load_project
from wheelsmith.index.publish.input_folders import read_releases
from wheelsmith.index.publish.release import IndexRelease
from wheelsmith.index.storage.folder import Folder
from wheelsmith.index.storage.protocol import Storage
from wheelsmith.model import Listener, Status
from wheelsmith.model.run_record import RunRecord
from wheelsmith.plan.planned_run import PlannedRun
from wheelsmith.run.published_wheels import PublishedWheel, fetch_wheel
from wheelsmith.toolchain.package_index import IndexFile, list_files_strictly
from wheelsmith.toolchain.pip import pip_settings
from wheelsmith.wheel.attestation.bundle import LONGEST
from wheelsmith.wheel.attestation.policy import SignaturePolicy
from wheelsmith.wheel.attestation.verification import verify_wheel
from wheelsmith.wheel.reader import WheelReader

_Versioned = TypeVar("_Versioned", CellWithoutWheel, PlannedVersion)
_CHECK_AGAIN = "check again: --step live"
_BUILD_FIRST = "build first: build-matrix, join, or release --step build"


class ReleaseStep(StrEnum):
    """The steps of a release, in order."""

    BUILD = "build"
    CHECK = "check"
    SIGN = "sign"
    CHANGES = "changes"
    PUBLISH = "publish"
    LIVE = "live"


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltVersion:
    """The version of a project that a run built.

    :param version: without a local version.
    :param failed: IDs of the planned cells without a wheel.
    """

    state: ProjectState
    version: str
    failed: tuple[str, ...]

    @property
    def entries(self) -> tuple[IndexEntry, ...]:
        """Return the wheels of this version. The folder may have wheels of earlier versions too."""
        return select_version(self.state.entries, self.version)


def read_built_versions(out: Path) -> tuple[BuiltVersion, ...]:
    """Return the version of each kernel that the last run built, without wheels of an older source.

    A kernel without a plan has no version.

    :param out: the output folder.
    :raises ReleaseError: there was no run, or one of its kernels has no wheel.
    """
    try:
        run = RunRecord.read(out)
        names = {name: (each.distribution, each.version) for name, each in run.kernels.items()}
        names = names or {"": (run.distribution, run.kernel_version)}
        versions = {name: (check_project(str(each)), Version(str(number))) for name, (each, number) in names.items()}
    except (OSError, ValueError, PackageIndexError):
        raise ReleaseError(f"{out} has no readable record of a run", remedy=_BUILD_FIRST) from None
    found = []
    for name, (project, version) in versions.items():
        stored = load_project(Folder(out / "index"), project)[0]
        state = replace(stored, entries=stored.current)
        if not select_version(state.entries, str(version)):
            raise ReleaseError(f"{out} has no wheel of {project} {version}", remedy=_BUILD_FIRST)
        cells = (cell for cell in run.planned if (cell.cell.kernel or "") == name)
        failed = sorted(cell.cell.id for cell in cells if cell.status in {Status.FAILED, Status.CANCELLED})
        found.append(BuiltVersion(state=state, version=str(version), failed=tuple(failed)))
    return tuple(found)


def built_release(out: Path, versions: Iterable[BuiltVersion]) -> IndexRelease:
    """Return the release to publish: only the versions that the run built.

    :raises PackageIndexError: the folder is incomplete.
    """
    release, found = read_releases([out]), {each.state.project: each for each in versions}
    wanted = {entry.sha256 for each in found.values() for entry in each.entries}
    return IndexRelease(
        uploads=tuple(upload for upload in release.uploads if upload.entry.sha256 in wanted),
        answers={name: _of_version(each.state.answers, each.version) for name, each in found.items()},
        planned={name: _of_version(each.state.planned, each.version) for name, each in found.items()},
        left_out=release.left_out,
    )


def _of_version(items: Iterable[_Versioned], version: str) -> tuple[_Versioned, ...]:
    return tuple(each for each in items if Version(each.version) == Version(version))


def check_names(storage: Storage, run: PlannedRun) -> None:
    """Check that an index has no wheel of a run's names that was built from another plan.

    :param run: the run of one kernel.
    :raises PackageIndexError: it has one, or cannot be read.
    """
    planned = {(plan.wheel.stem, plan.build_digest) for plan in run.plans}
    for entry in load_project(storage, check_project(str(run.distribution)))[0].entries:
        stem, made = entry.filename.rpartition("-")[0], entry.provenance
        if made and stem in dict(planned) and (stem, made.plan_digest) not in planned:
            raise name_conflict(entry.filename)


def require_complete(found: BuiltVersion) -> None:
    """Require a wheel for every planned cell of a version.

    :raises ReleaseError: wheels are missing; the error lists their cells.
    """
    complete = completeness(found.state, found.version)
    if complete is None or complete.missing or found.failed:
        cells = sorted({*complete.missing, *found.failed}) if complete else ()
        missing = ", ".join(cells) or "its combinations are unknown"
        raise ReleaseError(
            f"{found.state.project} {found.version} is not complete: {missing}",
            remedy="fix the failures, exclude them with a reason in matrix.yaml, or use --incomplete",
        )


def recheck(out: Path, found: BuiltVersion) -> int:
    """Check every wheel of the version again, and return their number.

    :raises ReleaseError: a wheel fails the check.
    """
    with WheelReader() as reader:
        for entry in found.entries:
            report = reader.check(out / "index" / entry.path)
            if not report.ok:
                wrong = "; ".join(finding.message for finding in report.findings if not finding.ok)
                raise ReleaseError(f"{entry.filename}: the wheel check failed: {wrong}", remedy="build it again")
    return len(found.entries)


def changes_since(storage: Storage, found: BuiltVersion) -> VersionChanges:
    """Return the changes of the version since the previous one on an index.

    :raises PackageIndexError: the index cannot be read.
    """
    state, _ = load_project(storage, found.state.project)
    return version_changes(catalogue_of(state), catalogue_of(found.state), found.version)


def verify_live_wheels(
    address: str, found: BuiltVersion, listen: Listener, policy: SignaturePolicy | None = None
) -> Iterator[str]:
    """Fetch and verify every wheel of the version as an installer does, and yield its name.

    :param address: the root of the served index, which contains ``simple/``.
    :param policy: the policy that signatures must satisfy; None for no verification of signatures.
    :raises ReleaseError: a wheel is not listed, is yanked, or has other bytes.
    :raises AttestationError: a signature does not satisfy the policy.
    :raises ToolchainError: the index does not respond.
    """
    base, settings, project = address.rstrip("/"), pip_settings(), found.state.project
    entries = [entry for entry in found.entries if entry.roots]
    pages = {root: f"{base}/{root}/" for entry in entries for root in entry.roots}
    offers = {
        root: {each.filename: each for each in list_files_strictly(project, page, settings)}
        for root, page in pages.items()
    }
    for entry in entries:
        for root in entry.roots:
            _require_listed(entry, offers[root].get(entry.filename), redact(pages[root]))
        shown = redact(base)
        with tempfile.TemporaryDirectory(prefix="wheelsmith-") as scratch, WheelReader() as reader:
            live = fetch_wheel(offers[entry.roots[0]][entry.filename], Path(scratch), settings, listen)
            if sha256_file(live.path) != entry.sha256:
                raise ReleaseError(
                    f"{entry.filename} on {shown} is not the file that was built",
                    remedy="purge all caches of the index; if the file stays, find the other writer of the index",
                )
            if policy:
                verify_wheel(live.path, _bundle(live), policy, reader)
        yield entry.filename


def _require_listed(entry: IndexEntry, offer: IndexFile | None, root: str) -> None:
    if offer is None or offer.yanked is not None or offer.sha256 not in {None, entry.sha256}:
        wrong = "is not listed" if offer is None else "is yanked" if offer.yanked is not None else "has another hash"
        raise ReleaseError(f"{entry.filename} {wrong} on {root}", remedy=f"if the page is cached, wait; {_CHECK_AGAIN}")


def _bundle(live: PublishedWheel) -> bytes:
    if live.bundle is None:
        raise ReleaseError(
            f"the signature of {live.path.name} is not on the index", remedy="publish it: --step publish"
        )
    return read_bounded(live.bundle, LONGEST)


def check_live_pages(address: str, found: BuiltVersion) -> None:
    """Check the project's pages as pip and uv see them.

    :raises ReleaseError: an installer would fail.
    """
    diagnosis = examine(address, CrawlScope(projects=(found.state.project,)))
    if not diagnosis.ok:
        wrong = "; ".join(finding.message for finding in diagnosis.findings if finding.severity is Severity.ERROR)
        raise ReleaseError(f"installers would fail: {wrong}", remedy=f"wheelsmith index doctor {redact(address)}")
