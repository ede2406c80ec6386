"""The remote cache of a run: opening it, and the wheels that it has for the plans."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Event

from wheelsmith.base.errors import AddressError, SettingError
from wheelsmith.base.files import mark_cache
from wheelsmith.base.offline import is_offline
from wheelsmith.index.storage.location import open_storage
from wheelsmith.matrix.remote_cache import RemoteCacheSettings, check_address, is_bucket
from wheelsmith.model import Listener
from wheelsmith.store import RemoteCache, Store, fetch_wheel
from wheelsmith.store.remote import RemoteContent, RemoteEntry, RemoteFiles

_FETCHES_AT_ONCE = 16


class Layers(RemoteFiles):
    """The files of several remote caches. The first one that has a file is read, and the first one is written."""

    def __init__(self, places: Sequence[RemoteFiles]) -> None:
        self._places = places

    @property
    def name(self) -> str:
        """Return the addresses without credentials."""
        return ", ".join(place.name for place in self._places)

    def stat(self, key: str) -> RemoteEntry | None:
        """Return the size of a file, or None if it does not exist."""
        return next((found for place in self._places if (found := place.stat(key))), None)

    def read(self, key: str) -> RemoteContent | None:
        """Return a file, or None if it does not exist."""
        return next((found for place in self._places if (found := place.read(key))), None)

    def put(self, key: str, content: Path | bytes) -> None:
        """Write a file."""
        self._places[0].put(key, content)


def open_remote_cache(settings: RemoteCacheSettings, listen: Listener) -> RemoteCache | None:
    """Open a remote cache; None if the settings name none. This sends no request yet.

    A run that accepts signed records only, and has no key to sign its own, only reads. Without a network, only folders
    are read and written.

    :raises AddressError: an address is not ``s3://bucket/prefix``, ``gs://…``, ``az://…`` or a folder.
    :raises PackageIndexError: the client library for buckets is not installed.
    :raises SigningKeyError: a key cannot be read.
    :raises SettingError: there is a key for writing, but no address.
    """
    if settings.key and not settings.addresses:
        raise SettingError(
            "--remote-cache-key needs a remote cache",
            remedy="pass --remote-cache ADDRESS, or set WHEELSMITH_REMOTE_CACHE",
        )
    places = [address for address in settings.addresses if not (is_offline() and is_bucket(address))]
    if not places:
        return None
    files: RemoteFiles = Layers([_open_place(address) for address in places])
    if settings.signers or settings.key:
        from wheelsmith.run.remote_records import SignedRecords
        from wheelsmith.wheel.attestation.keys import key_signer, verifying_key

        keys = tuple(verifying_key(Path(path)) for path in settings.signers)
        files = SignedRecords(files, key_signer(settings.key) if settings.key else None, keys)
    is_written = bool(settings.key or not settings.signers)
    if is_written and not is_bucket(places[0]):
        with suppress(OSError):  # the first write reports it
            mark_cache(Path(places[0]))
    return RemoteCache(files, listen, is_written=is_written)


def _open_place(address: str) -> RemoteFiles:
    try:
        check_address(address)
    except ValueError as error:
        raise AddressError(str(error)) from None
    if not is_bucket(address):
        return open_storage(address)
    from wheelsmith.index.storage.bucket import CACHE_RETRIES, open_bucket

    return open_bucket(address, CACHE_RETRIES)


def fetch_wheels(
    remote: RemoteCache, store: Store, build_digests: Iterable[str], work: Path, cancel: Event
) -> frozenset[str]:
    """Copy the wheels of plans to the store. Return the digests of the plans whose wheel was copied.

    :param work: a folder for downloads.
    :param cancel: once it is set, no more are copied.
    :raises StoreError: the store cannot be written.
    """

    def fetch(digest: str) -> bool:
        if cancel.is_set():
            return False
        with tempfile.TemporaryDirectory(prefix="remote-", dir=work) as folder:
            return fetch_wheel(remote, store, digest, Path(folder))

    digests = tuple(build_digests)
    with ThreadPoolExecutor(_FETCHES_AT_ONCE) as pool:
        return frozenset(digest for digest, found in zip(digests, pool.map(fetch, digests), strict=True) if found)
