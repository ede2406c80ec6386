"""The remote cache of a run: opening it, and the wheels that it has for the plans."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from wheelsmith.base.errors import AddressError
from wheelsmith.index.storage.location import BUCKETS, open_storage
from wheelsmith.model import Listener
from wheelsmith.store import RemoteCache, Store, fetch_wheel

_FETCHES_AT_ONCE = 16


def open_remote_cache(address: str, listen: Listener) -> RemoteCache:
    """Open ``s3://bucket/prefix``, ``gs://…``, ``az://…`` or a folder as a remote cache. This sends no request yet.

    :raises AddressError: it has none of these forms.
    :raises PackageIndexError: the client library for buckets is not installed.
    """
    scheme, separator, _ = address.partition("://")
    if not separator or scheme == "file":
        return RemoteCache(open_storage(address), listen)
    if scheme not in BUCKETS:
        raise AddressError(f"{scheme}:// cannot be a remote cache", remedy="use s3://, gs://, az:// or a folder")
    from wheelsmith.index.storage.bucket import CACHE_RETRIES, open_bucket

    return RemoteCache(open_bucket(address, CACHE_RETRIES), listen)


def fetch_wheels(remote: RemoteCache, store: Store, build_digests: Iterable[str], work: Path) -> frozenset[str]:
    """Copy the wheels of plans to the store. Return the digests of the plans whose wheel was copied.

    :param work: a folder for downloads.
    :raises StoreError: the store cannot be written.
    """

    def fetch(digest: str) -> bool:
        with tempfile.TemporaryDirectory(prefix="remote-", dir=work) as folder:
            return fetch_wheel(remote, store, digest, Path(folder))

    digests = tuple(build_digests)
    with ThreadPoolExecutor(_FETCHES_AT_ONCE) as pool:
        return frozenset(digest for digest, found in zip(digests, pool.map(fetch, digests), strict=True) if found)
