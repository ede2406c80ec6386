"""An index in a bucket: S3 and what speaks like it, Google Cloud Storage, Azure Blob Storage.

Nothing keeps other writers out of a bucket. What keeps an index whole is that a write can be made to depend on the
version that was read, and the order in which ``writer`` writes.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from wheelsmith.base.errors import PackageIndexError
from wheelsmith.index.storage.bucket_errors import explain, is_final, lacks_bucket
from wheelsmith.index.storage.compare_and_swap import backoff
from wheelsmith.index.storage.headers import headers_of
from wheelsmith.index.storage.location import Address, parse_address
from wheelsmith.index.storage.obstore_client import connect, endpoint_of
from wheelsmith.index.storage.protocol import ConflictError, Listed, Storage, Stored, T, pieces_of

if TYPE_CHECKING:
    from obstore import ObjectMeta, PutMode
    from obstore.store import AzureStore, GCSStore, S3Store

# On top of what obstore tries again itself, for what only we know to be safe to try again.
_TRIES = 3
# Parts of 5 MiB; several wheels are sent at once.
_PARTS_AT_ONCE = 2
_ONE_PART = 5 * 2**20  # bytes: obstore's own parts
_PROBE = "_state/.probe"
_NO_TAG = json.dumps({"e_tag": '"0"'})


def open_bucket(target: str) -> Storage:
    """Open ``s3://bucket/prefix``, ``gs://bucket/prefix`` or ``az://container/prefix``.

    :raises PackageIndexError: the address is wrong, or obstore is not installed.
    """
    address = parse_address(target)
    # S3 proper, Google and Microsoft are known to compare and swap; of other hosts it is asked.
    trusted = address.scheme != "s3" or endpoint_of("s3", os.environ) is None
    return Bucket(connect(address), address, trusted=trusted)


class Bucket:
    """Files under a prefix of a bucket, each served with the headers that installers need.

    :param trusted: whether the host is known to refuse a write that depends on a version that is gone.
    """

    def __init__(self, store: S3Store | GCSStore | AzureStore, address: Address, *, trusted: bool) -> None:
        self._store = store
        self._address = address
        self._trusted = trusted

    @property
    def name(self) -> str:
        """Return the bucket's address."""
        return str(self._address)

    def read(self, key: str) -> Stored | None:
        """Return a file, or None when there is none."""
        import obstore

        def get() -> Stored:
            result = obstore.get(self._store, key)
            return Stored(bytes(result.bytes()), _tag(result.meta))

        return self._found(get)

    def stat(self, key: str) -> Listed | None:
        """Return a file's size and age, or None when there is none."""
        import obstore

        return self._found(lambda: _listed(obstore.head(self._store, key)))

    def put(self, key: str, content: Path | bytes) -> None:
        """Write a file that never changes, a large one in parts; one that is there already becomes new again."""
        import obstore

        attributes = _attributes(key)

        def send() -> None:
            sent = _in_pieces(content, key) if isinstance(content, Path) else content
            obstore.put(self._store, key, sent, attributes=attributes, max_concurrency=_PARTS_AT_ONCE)

        self._retry(send)

    def swap(self, key: str, data: bytes, tag: str | None) -> None:
        """Replace the content that has ``tag``; None makes a file that is not there yet."""
        import obstore
        from obstore.exceptions import AlreadyExistsError, GenericError, PreconditionError

        attributes = _attributes(key)
        mode: PutMode = json.loads(tag) if tag else "create"

        def attempt() -> None:
            try:
                obstore.put(self._store, key, data, attributes=attributes, mode=mode)
            except (AlreadyExistsError, PreconditionError):
                raise ConflictError(f"{self.name}/{key} was changed by another process") from None
            except GenericError:
                # The answer was lost: it may be written or not, so the file is asked.
                now = self.read(key)
                if now and now.data == data:
                    return
                if (now.tag if now else None) != tag:
                    raise ConflictError(f"{self.name}/{key} was changed by another process") from None
                raise

        self._retry(attempt)

    def delete(self, key: str) -> None:
        """Remove a file; one that is gone already is no mistake."""
        import obstore

        self._found(lambda: obstore.delete(self._store, key))

    def listing(self, prefix: str) -> Iterator[Listed]:
        """Yield every file whose key begins with ``prefix``, in no order."""
        import obstore

        # obstore's prefixes are whole folders.
        folder = prefix.rpartition("/")[0]
        with self._explained():
            for batch in obstore.list(self._store, folder or None):
                yield from (_listed(meta) for meta in batch if meta["path"].startswith(prefix))

    def transaction(self, work: Callable[[Storage], T]) -> T:
        """Do ``work``; others may come between, and ``swap`` tells when they did."""
        if not self._trusted:
            self._refuse_if_blind()
            self._trusted = True
        return work(self)

    def _refuse_if_blind(self) -> None:
        """Make sure that the host does not ignore preconditions, as some do."""
        if not ((self._refuses(None) or self._refuses(None)) and self._refuses(_NO_TAG)):
            raise PackageIndexError(
                f"{self.name}: the host ignores If-Match or If-None-Match, so publishers could undo each other's work",
                remedy="use a host, or a version of it, that honours conditional writes",
            )

    def _refuses(self, tag: str | None) -> bool:
        try:
            self.swap(_PROBE, uuid.uuid4().bytes, tag)
        except ConflictError:
            return True
        return False

    def _found(self, request: Callable[[], T]) -> T | None:
        with self._explained():
            try:
                return request()
            except FileNotFoundError as error:
                if lacks_bucket(error):
                    raise
                return None

    def _retry(self, attempt: Callable[[], object]) -> None:
        """Repeat an attempt that failed on its way; a refusal is final."""
        from obstore.exceptions import GenericError

        for number in range(_TRIES):
            with self._explained():
                try:
                    attempt()
                # Not found is also an upload in parts that had ended well, but whose end was not heard of.
                except (GenericError, FileNotFoundError) as error:
                    if number == _TRIES - 1 or is_final(error):
                        raise
                else:
                    return
            backoff(number, 1.0)

    @contextmanager
    def _explained(self) -> Iterator[None]:
        from obstore.exceptions import BaseError

        try:
            yield
        except (BaseError, FileNotFoundError, NotImplementedError) as error:
            raise explain(error, self._address) from None


def _in_pieces(path: Path, key: str) -> bytes | Iterator[bytes]:
    """Return what is to be sent: a small file at once; an upload in parts is given up where a piece fails."""
    pieces = pieces_of(path, key)
    return b"".join(pieces) if path.is_file() and path.stat().st_size <= _ONE_PART else pieces


def _attributes(key: str) -> dict[str, str]:
    """Return the headers to keep with a file: every write without them would take them away."""
    headers = headers_of(key)
    return {"Content-Type": headers.content_type, "Cache-Control": headers.cache_control}


def _tag(meta: ObjectMeta) -> str:
    """Return what names this version: S3 and Azure go by the ETag, Google by the generation."""
    return json.dumps({name: meta[name] for name in ("e_tag", "version") if meta[name]})


def _listed(meta: ObjectMeta) -> Listed:
    return Listed(meta["path"], meta["size"], meta["last_modified"].timestamp())
