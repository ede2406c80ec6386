"""The steps of a release that one machine makes: each looks at what lies there, so that any can be run again alone."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from wheelsmith.base.errors import ReleaseError
from wheelsmith.base.files import read_bounded, sha256_file
from wheelsmith.base.printable import bare_address
from wheelsmith.index.doctor import Severity, WalkScope, examine
from wheelsmith.index.entries import Catalogue, ProjectState, catalogue_key, catalogue_of, completeness, load_catalogue
from wheelsmith.index.entries.changes import VersionChanges, version_changes
from wheelsmith.index.entries.state import version_of
from wheelsmith.index.publish import Index
from wheelsmith.index.storage import Folder, Storage
from wheelsmith.model import Listener
from wheelsmith.run.rebuild.published import PublishedWheel, fetch_wheel
from wheelsmith.toolchain.locate import every_offer
from wheelsmith.toolchain.pip_settings import pip_settings
from wheelsmith.wheel.attestation.bundle import LONGEST
from wheelsmith.wheel.attestation.policy import SignaturePolicy
from wheelsmith.wheel.attestation.verification import verify_wheel
from wheelsmith.wheel.check import check_wheel

_AGAIN = "look again: --step live"


class ReleaseStep(StrEnum):
    """What a release consists of, in order."""

    BUILD = "build"
    CHECK = "check"
    SIGN = "sign"
    CHANGES = "changes"
    PUBLISH = "publish"
    LIVE = "live"


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltVersion:
    """What a run left of one project.

    :param version: the newest, without a local part.
    """

    state: ProjectState
    version: str

    @property
    def catalogue(self) -> Catalogue:
        """Return what is told of it."""
        return catalogue_of(self.state)


def built(out: Path) -> BuiltVersion:
    """Return what the build step left.

    :param out: the output folder.
    :raises ReleaseError: there is nothing, or there are several projects.
    """
    states = [state for state in Index(Folder(out / "index")).states().values() if state.entries]
    if not states:
        raise ReleaseError(
            f"there is no wheel in {out}", remedy="build first: build-matrix, join, or release --step build"
        )
    if len(states) > 1:
        names = ", ".join(state.project for state in states)
        raise ReleaseError(f"{out} has several projects: {names}", remedy="release each from an --out of its own")
    newest = max(version_of(entry) for entry in states[0].entries)
    return BuiltVersion(state=states[0], version=newest.public)


def refuse_incomplete(found: BuiltVersion) -> None:
    """Refuse a version of which a planned cell has no wheel.

    :raises ReleaseError: it is one, and names what is missing.
    """
    complete = completeness(found.state, found.version)
    if complete is None or complete.missing:
        missing = ", ".join(complete.missing) if complete else "nobody says which cells it is to have"
        raise ReleaseError(
            f"version {found.version} is not complete: {missing}",
            remedy="mend what failed, exclude it with a reason in matrix.yaml, or release it so: --incomplete",
        )


def check_again(out: Path, found: BuiltVersion) -> int:
    """Check every wheel of the version as it lies there; return how many that are.

    :raises ReleaseError: one does not tell the truth.
    """
    entries = [entry for entry in found.state.entries if version_of(entry).public == found.version]
    for entry in entries:
        report = check_wheel(out / "index" / entry.path)
        if not report.ok:
            wrong = "; ".join(finding.message for finding in report.findings if not finding.ok)
            raise ReleaseError(f"{entry.filename} does not tell the truth: {wrong}", remedy="build it again")
    return len(entries)


def changes_since(storage: Storage, found: BuiltVersion) -> VersionChanges:
    """Return what the version brings, against what an index has.

    :raises PackageIndexError: the index cannot be read.
    """
    key = catalogue_key(found.state.project)
    stored = storage.read(key)
    earlier = load_catalogue(stored.data, f"{storage.name}/{key}") if stored else None
    return version_changes(earlier, found.catalogue, found.version)


def live_wheels(
    address: str, found: BuiltVersion, listen: Listener, policy: SignaturePolicy | None = None
) -> Iterator[str]:
    """Fetch every wheel of the version as an installer would, and yield the names of those that are the right ones.

    :param address: where the index is served: its root, beneath which ``simple/`` lies.
    :param policy: who must have signed it; None where that is nobody's matter.
    :raises ReleaseError: one is not listed, yanked, or of other bytes.
    :raises AttestationError: it is not signed so.
    :raises ToolchainError: the index does not answer.
    """
    root, settings = f"{address.rstrip('/')}/simple/", pip_settings()
    offers = {offer.filename: offer for offer in every_offer(found.state.project, root, settings)}
    for entry in found.state.entries:
        if version_of(entry).public != found.version or not any(c.settings.advertise for c in entry.cells):
            continue
        offer = offers.get(entry.filename)
        if offer is None or offer.yanked is not None:
            wrong = "is yanked" if offer else "is not listed"
            raise ReleaseError(f"{entry.filename} {wrong} on {root}", remedy=f"if something caches it, wait; {_AGAIN}")
        with tempfile.TemporaryDirectory(prefix="wheelsmith-") as scratch:
            live = fetch_wheel(offer, Path(scratch), settings, listen)
            if sha256_file(live.path) != entry.sha256:
                raise ReleaseError(
                    f"{entry.filename} on {root} is another file than the one that was built",
                    remedy="purge what is cached in front of it; if it stays, somebody else writes there",
                )
            if policy:
                verify_wheel(live.path, _bundle(live), policy)
        yield entry.filename


def _bundle(live: PublishedWheel) -> bytes:
    if live.bundle is None:
        raise ReleaseError(f"what was signed of {live.path.name} is not on the index", remedy="--step publish")
    return read_bounded(live.bundle, LONGEST)


def examine_live(address: str, found: BuiltVersion) -> None:
    """Look at the project's pages as pip and uv would.

    :raises ReleaseError: one of them would fail.
    """
    diagnosis = examine(address, WalkScope(projects=(found.state.project,)))
    if not diagnosis.ok:
        wrong = "; ".join(finding.message for finding in diagnosis.findings if finding.severity is Severity.ERROR)
        raise ReleaseError(f"installers would fail: {wrong}", remedy=f"wheelsmith index doctor {bare_address(address)}")
