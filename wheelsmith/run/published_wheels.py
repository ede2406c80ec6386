"""Fetch the wheels of an index on the network, as an installer does."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from wheelsmith.base.errors import PackageIndexError
from wheelsmith.base.files import sha256_file
from wheelsmith.base.offline import is_offline
from wheelsmith.base.redact import AMBIGUOUS, is_ambiguous, redact
from wheelsmith.base.sanitize import visible
from wheelsmith.model import Listener, read_wheel_name
from wheelsmith.toolchain.package_index import IndexFile, Location, list_files_strictly, list_projects
from wheelsmith.toolchain.pip import PipSettings, pip_settings
from wheelsmith.toolchain.remote import download
from wheelsmith.wheel.attestation.bundle import LONGEST, SUFFIX

_MAX_WHEELS = 2000
_INDEX_OF_ALL = "simple/"  # on the root page of our indexes; an index lists a project of this name without the slash
MAX_WHEEL_SIZE = 4 << 30  # bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedWheel:
    """A downloaded wheel of an index.

    :param bundle: the file with its signature; None if the index lists none.
    """

    path: Path
    bundle: Path | None


def published_wheels(address: str, folder: Path, listen: Listener) -> Iterator[PublishedWheel]:
    """Fetch every wheel of an index, with its signature.

    :param address: the index's address, as for pip's ``--index-url``.
    :param folder: an empty folder for the files.
    :raises PackageIndexError: the index has no wheel or too many, or a file does not match its hash.
    :raises ToolchainError: there is no response, or not that of an index.
    """
    shown = visible(redact(address))
    if is_ambiguous(address):
        raise PackageIndexError(f"{shown} is not an address", remedy=AMBIGUOUS)
    if is_offline():
        raise PackageIndexError(f"{shown} cannot be read: wheelsmith is offline")
    settings, count = pip_settings(), 0
    known = list_projects(address, settings)
    if _INDEX_OF_ALL in known:
        remedy = f"verify one of them, as in {shown.rstrip('/')}/{_INDEX_OF_ALL}"
        raise PackageIndexError(f"{shown} lists indexes, not projects", remedy=remedy)
    for project in known:
        for offer in list_files_strictly(project, address, settings):
            if _is_wheel(offer.filename):
                count += 1
                if count > _MAX_WHEELS:
                    raise PackageIndexError(f"{shown} has more than {_MAX_WHEELS} wheels")
                yield fetch_wheel(offer, folder / str(count), settings, listen)
    if not count:
        raise PackageIndexError(
            f"there is no wheel on {shown}", remedy="use the address for pip's --index-url: …/simple/"
        )


def _is_wheel(filename: str) -> bool:
    try:
        read_wheel_name(filename)
    except ValueError:
        return False
    return Path(filename).name == filename


def fetch_wheel(offer: IndexFile, folder: Path, settings: PipSettings, listen: Listener) -> PublishedWheel:
    """Fetch a wheel, with its signature.

    :param folder: the folder for the files, created if it does not exist.
    :raises PackageIndexError: the file does not match the hash on the index.
    :raises ToolchainError: it cannot be fetched.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = _fetch_file(offer.location, folder / offer.filename, MAX_WHEEL_SIZE, settings, listen)
    if offer.sha256 and (not path.is_file() or sha256_file(path) != offer.sha256):
        raise PackageIndexError(f"{offer.filename} does not match the sha256 on its index")
    bundle_path = folder / f"{offer.filename}{SUFFIX}"
    bundle = _fetch_file(offer.bundle, bundle_path, LONGEST, settings, listen) if offer.bundle else None
    return PublishedWheel(path=path, bundle=bundle)


def _fetch_file(location: Location, path: Path, limit: int, settings: PipSettings, listen: Listener) -> Path:
    """Return the local path of a file, fetching it if necessary."""
    if location.path:
        return location.path
    with settings.client() as client:
        download(path.name, str(location.url), path, client, listen, most=limit)
    return path
