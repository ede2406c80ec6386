"""Read a project's sdist from the user's package indexes. The first run pins the file for later runs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from packaging.utils import (
    InvalidSdistFilename,
    InvalidWheelFilename,
    canonicalize_name,
    parse_sdist_filename,
    parse_wheel_filename,
)
from packaging.version import Version

from wheelsmith.base.errors import SourceError, ToolchainError
from wheelsmith.base.files import atomic_write, sha256_file
from wheelsmith.base.git_address import GIT_FORM
from wheelsmith.base.json_dataclass import canonical_digest, read_json
from wheelsmith.base.units import listed
from wheelsmith.model import Listener, PinnedFile
from wheelsmith.source.archive import archive_id, unpack_cached
from wheelsmith.source.cached import find_cached, scratch_folder
from wheelsmith.source.tree import SourceTree
from wheelsmith.toolchain.package_index import IndexFile, Location, list_files, locate
from wheelsmith.toolchain.pip import PipSettings, local_folder, pip_settings
from wheelsmith.toolchain.remote import download, fetch_whole

_FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+!-]{0,199}")
_VERSIONS_SHOWN = 5  # versions in a message
_MAX_ARCHIVE = 256 << 20  # bytes
_MAX_REASON = 200  # characters


def read_sdist(requirement: str, cache: Path, listen: Listener) -> SourceTree:
    """Return the content of a release's sdist. None of its code is run.

    The cache records the file. Later runs use the same file, and need no index while it is unpacked in the cache.

    :param requirement: ``name==version``, normalized.
    :raises SourceError: no index has it, or its content is refused.
    """
    name, _, version = requirement.partition("==")
    origin = f"sdist:{requirement}"
    kept = cache / "locks" / f"{canonical_digest(['sdist', requirement])[:32]}.json"
    pin = _read_pin(kept)
    if pin and (found := find_cached(pin.sha256, cache, archive_id(origin, pin.sha256))):
        return found
    try:
        with scratch_folder(cache) as scratch:
            settings = pip_settings()
            if pin:
                with settings.client() as client:
                    path = fetch_whole(pin, locate(pin, settings), scratch, client, listen)
            else:
                pin, path = _fetch(_choose(name, Version(version), settings), requirement, settings, scratch, listen)
            found = unpack_cached(path, pin.filename, archive_id(origin, pin.sha256), cache)
    except ToolchainError as error:
        raise SourceError(error.message, remedy=error.remedy) from error
    atomic_write(kept, json.dumps(pin.to_json()).encode())
    return found


def newest_release(name: str) -> tuple[str, str]:
    """Return the newest version with an sdist on the user's indexes, and the newest version. Prefer final releases.

    :raises SourceError: no index has an sdist.
    """
    known = [item for place in _files_by_index(canonicalize_name(name), pip_settings()) for item in place]
    # Skip local versions: they are private builds, and a requirement cannot name a release with one.
    usable = [item for item in known if item[1].yanked is None and item[0].local is None]
    with_sdist = [version for version, offer in usable if _is_sdist(offer)]
    if not with_sdist:
        raise _not_found_error(name, known)
    return _newest(with_sdist), _newest(version for version, _ in usable)


def _newest(versions: Iterable[Version]) -> str:
    return str(max(versions, key=lambda version: (not version.is_prerelease, version)))


def _is_sdist(offer: IndexFile) -> bool:
    return not offer.filename.endswith(".whl")


def _read_pin(kept: Path) -> PinnedFile | None:
    try:
        return PinnedFile.from_json(read_json(kept.read_bytes()))
    except (OSError, ValueError):
        return None


def _fetch(
    offer: IndexFile, requirement: str, settings: PipSettings, scratch: Path, listen: Listener
) -> tuple[PinnedFile, Path]:
    """Fetch a file that has no pin yet. Return its pin and path."""
    path = offer.location.path or scratch / "sdist"
    if offer.location.url:
        with settings.client() as client:
            download(offer.filename, offer.location.url, path, client, listen, most=_MAX_ARCHIVE)
    if not path.is_file():
        raise SourceError(f"{offer.filename} does not exist at the path that its index lists: {path}")
    sha256 = sha256_file(path)
    if offer.sha256 not in {sha256, None}:
        raise SourceError(
            f"{offer.filename} is not the file that the index lists: its sha256 differs",
            remedy="try again; if it fails again, report it to the owner of the index",
        )
    name, _, version = requirement.partition("==")
    size = path.stat().st_size
    return PinnedFile(project=name, version=version, filename=offer.filename, sha256=sha256, size=size), path


def _choose(name: str, version: Version, settings: PipSettings) -> IndexFile:
    """Return the release's sdist from the first place that has the release, in pip's order.

    An unreachable index is an error. If it were skipped, the chosen file would depend on network failures.
    """
    known: list[tuple[Version, IndexFile]] = []
    for place in _files_by_index(name, settings):
        known += place
        right = [offer for found, offer in place if found == version and _is_sdist(offer)]
        # If a release has two, prefer the standard .tar.gz.
        right.sort(key=lambda offer: offer.filename.endswith(".zip"))
        if usable := next((offer for offer in right if offer.yanked is None), None):
            return usable
        if right:
            reason = f": {right[0].yanked[:_MAX_REASON]}" if right[0].yanked else ""
            raise _no_sdist_error(f"{name} {version} was yanked{reason}", known)
    if not any(_is_sdist(offer) for _, offer in known):
        raise _not_found_error(name, known)
    raise _no_sdist_error(f"no configured index has an sdist of {name} {version}", known)


def _files_by_index(name: str, settings: PipSettings) -> Iterator[list[tuple[Version, IndexFile]]]:
    for link in settings.find_links:
        folder = local_folder(link)
        if folder and folder.is_dir():
            here = (IndexFile(filename=path.name, location=Location(path=path)) for path in sorted(folder.iterdir()))
            yield list(_with_versions(name, here))
    for index in settings.indexes:
        try:
            yield list(_with_versions(name, list_files(name, index, settings)))
        except ToolchainError as error:
            raise SourceError(
                f"{name} could not be looked up ({error.message})",
                remedy="check the network and pip's configuration: python3 -m pip config list",
            ) from error


def _with_versions(name: str, found: Iterable[IndexFile]) -> Iterator[tuple[Version, IndexFile]]:
    """Yield the sdists and wheels among these files of a project."""
    for offer in found:
        if not _FILE_NAME.fullmatch(offer.filename):
            continue
        try:
            parse = parse_sdist_filename if _is_sdist(offer) else parse_wheel_filename
            project, version = parse(offer.filename)[:2]
        except (InvalidSdistFilename, InvalidWheelFilename, ValueError):
            continue
        if project == canonicalize_name(name):
            yield version, offer


def _not_found_error(name: str, known: list[tuple[Version, IndexFile]]) -> SourceError:
    if known:
        return SourceError(
            f"the configured indexes have no sdist of {name}, but wheels up to {_newest(each for each, _ in known)}",
            remedy=f"use its git repository: {GIT_FORM}",
        )
    return SourceError(
        f"no configured index has an sdist of {name}",
        remedy="check the name, or add an index that has it: PIP_EXTRA_INDEX_URL=… wheelsmith …",
    )


def _no_sdist_error(message: str, known: list[tuple[Version, IndexFile]]) -> SourceError:
    others = sorted({version for version, offer in known if offer.yanked is None and _is_sdist(offer)}, reverse=True)
    shown = [str(version) for version in others[:_VERSIONS_SHOWN]] + ["older ones"] * (len(others) > _VERSIONS_SHOWN)
    choose = f"choose another release; the indexes have {listed(shown)}; or " if shown else ""
    return SourceError(message, remedy=f"{choose}use the git repository: {GIT_FORM}")
