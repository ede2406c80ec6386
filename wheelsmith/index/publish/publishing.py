"""Publish a release to an index."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from wheelsmith.base.errors import AttestationError, PackageIndexError
from wheelsmith.base.units import counted, listed, show_moment
from wheelsmith.index.entries.entry import IndexEntry
from wheelsmith.index.entries.metadata import differing_requirements
from wheelsmith.index.entries.side_files import BUNDLE, PROVENANCE, signature_files
from wheelsmith.index.entries.state import set_address
from wheelsmith.index.publish.input_folders import read_releases
from wheelsmith.index.publish.kernels_layout import HubBuild, add_release, hub_builds
from wheelsmith.index.publish.release import IndexRelease, WheelUpload
from wheelsmith.index.publish.writer import Index
from wheelsmith.index.storage.location import open_storage
from wheelsmith.index.storage.protocol import Storage
from wheelsmith.wheel.attestation.bundle import read_bundle
from wheelsmith.wheel.attestation.pep740 import matches_bundle

_SIGN_AGAIN = "sign the wheels again where they were built (wheelsmith sign), or remove the file"


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """The result of publishing a release.

    :param new: the wheels that were added.
    :param known: the wheels that the index already had.
    :param signed: the wheels that got a signature.
    :param signed_otherwise: the known wheels with another signature than the offered one. The index keeps its own.
    :param left_out: the wheels of an older source, which are not published.
    """

    new: tuple[IndexEntry, ...]
    known: tuple[IndexEntry, ...]
    signed: tuple[IndexEntry, ...] = ()
    signed_otherwise: tuple[IndexEntry, ...] = ()
    left_out: tuple[IndexEntry, ...] = ()


def publish_folders(folders: Sequence[Path], target: str) -> Published:
    """Publish the contents of folders to an index.

    :param folders: indexes of runs, or folders with wheels.
    :param target: a folder, ``s3://…``, ``gs://…``, ``az://…``, ``hf://…`` or ``github://…``.
    :raises WheelsmithError: there are no wheels, the index has a file name with other bytes, or it cannot be written.
    """
    release = read_releases(folders)
    with hub_builds(release.uploads, target) as hub:
        return publish(open_storage(target), release, hub.builds)


def publish(storage: Storage, release: IndexRelease, builds: Sequence[HubBuild] = ()) -> Published:
    """Add a release to an index, with the current time as upload time.

    :param builds: builds for the ``kernels`` library to publish with the wheels.
    :raises PackageIndexError: a file name was published with other bytes, or the index cannot be written.
    """
    check_signatures(release.uploads)
    before = {entry.filename: entry for project in release.projects for entry in Index(storage).entries(project)}
    signed_before = {name for name, entry in before.items() if BUNDLE in entry.side_files}
    added = add_release(storage, release, builds, upload_time=show_moment(time.time()))
    entries = tuple({entry.filename: entry for entry in added}.values())
    return Published(
        new=tuple(entry for entry in entries if entry.filename not in before),
        known=tuple(entry for entry in entries if entry.filename in before),
        signed=tuple(each for each in entries if BUNDLE in each.side_files and each.filename not in signed_before),
        signed_otherwise=tuple(entry for entry in entries if _has_other_signature(entry, release)),
        left_out=tuple(upload.entry for upload in release.left_out),
    )


def requirement_notes(storage: Storage, wheels: Iterable[IndexEntry]) -> Iterator[str]:
    """Yield a line for each version of these wheels whose wheels in the index require different things."""
    versions = {(wheel.project, wheel.version) for wheel in wheels}
    entries = [each for project in {project for project, _ in versions} for each in Index(storage).entries(project)]
    for project, version in sorted(versions):
        same = (each for each in entries if (each.project, each.version) == (project, version) and each.yanked is None)
        paths = {entry.metadata_sha256: entry.announced[0].path for entry in same}
        stored = [storage.read(path) for path in paths.values()] if len(paths) > 1 else []
        if differing := differing_requirements(each.data for each in stored if each):
            what = f"{project} {version}: only some of its wheels require {', '.join(differing)}"
            yield f"{what}; uv locks what one wheel says, so put markers such as platform_machine into each"


def signature_warnings(storage: Storage, published: Published) -> Iterator[str]:
    """Yield a line for each published version that lacks signatures, unlike other versions or wheels in the index.

    A version that the index already had may be older than the first signature. It is only compared with older ones.
    """
    added = {(wheel.project, wheel.public) for wheel in published.new}
    versions = added | {(wheel.project, wheel.public) for wheel in published.known}
    entries = [each for project in {name for name, _ in versions} for each in Index(storage).entries(project)]
    wheels = [each for each in entries if each.yanked is None]
    signed = {(each.project, each.public) for each in wheels if each.bundle}
    for project, version in sorted(versions):
        same = [each for each in wheels if (each.project, each.public) == (project, version)]
        unsigned = sum(each.bundle is None for each in same)
        others = [each for name, each in signed if name == project and (each < version or (name, version) in added)]
        if unsigned and unsigned < len(same):
            verb = "has" if unsigned == 1 else "have"
            what = f"{unsigned} of {counted(len(same), 'wheel')} of {project} {version} {verb} no signature"
            yield f"{what}; sign all of them with wheelsmith sign, and publish again"
        elif unsigned and others:
            what = f"{project} {version} has no signature, unlike {project} {max(others)}"
            yield f"{what}; sign it with wheelsmith sign, and publish again"


def set_index_address(storage: Storage, release: IndexRelease, address: str) -> None:
    """Set the address of the index in the states of a release's projects.

    :raises PackageIndexError: the address is invalid, or the index cannot be written.
    """
    for project in release.projects:
        Index(storage).change(project, partial(set_address, address=address))


def replace_signatures(storage: Storage, release: IndexRelease) -> tuple[IndexEntry, ...]:
    """Replace the signatures in an index by those of a release. Return the wheels with a changed signature.

    :raises PackageIndexError: the project does not exist, or the index cannot be written.
    """
    check_signatures(release.uploads)
    index, changed = Index(storage), []
    for project in release.projects:
        other = {entry.sha256 for entry in index.entries(project) if _has_other_signature(entry, release)}
        uploads = [upload for upload in release.uploads if upload.entry.sha256 in other and BUNDLE in upload.side_files]
        if uploads:
            files = {upload.entry.sha256: signature_files(upload.side_files) for upload in uploads}
            state = index.attach(project, files)
            changed += [entry for entry in state.entries if entry.sha256 in other]
    return tuple(changed)


def check_signatures(uploads: Iterable[WheelUpload]) -> None:
    """Check that the signatures of wheels belong to these wheels. A wrong one cannot be verified, and would stay.

    :raises PackageIndexError: a signature belongs to another file. The message names the first one.
    """
    for upload in uploads:
        for side in upload.entry.announced:
            if side.kind.subjects is None:
                continue
            try:
                subjects = side.kind.subjects(upload.side_files[side.kind.suffix])
            except AttestationError as error:
                raise _wrong_signature(upload, side.filename, error.message) from None
            if subjects != {upload.entry.key}:
                signed = listed([f"{name} (sha256 {sha256})" for name, sha256 in sorted(subjects)])
                raise _wrong_signature(upload, side.filename, f"it signs {signed}")
        if not _matches_bundle(upload.side_files):
            raise _wrong_signature(upload, f"{upload.entry.filename}{PROVENANCE}", "it does not belong to the bundle")


def _wrong_signature(upload: WheelUpload, filename: str, why: str) -> PackageIndexError:
    return PackageIndexError(f"{filename} does not belong to {upload.wheel}: {why}", remedy=_SIGN_AGAIN)


def _matches_bundle(files: Mapping[str, bytes]) -> bool:
    """Return False if the attestations do not belong to the bundle. ``verify`` reads only the bundle."""
    if not {PROVENANCE, BUNDLE} <= files.keys():
        return True
    try:
        return matches_bundle(files[PROVENANCE], read_bundle(files[BUNDLE]))
    except (ValueError, TypeError, LookupError):
        return False


def _has_other_signature(entry: IndexEntry, release: IndexRelease) -> bool:
    offered = {o.entry.side_files.get(BUNDLE) for o in release.uploads if o.entry.sha256 == entry.sha256} - {None}
    return bool(offered) and entry.side_files.get(BUNDLE) not in offered
