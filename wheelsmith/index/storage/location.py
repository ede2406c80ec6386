"""From what people write to the storage that it names."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

from wheelsmith.base.errors import PackageIndexError
from wheelsmith.index.storage.address import BUCKETS, shown
from wheelsmith.index.storage.folder import Folder
from wheelsmith.index.storage.protocol import Storage


def open_storage(target: str) -> Storage:
    """Open a folder, ``s3://bucket/prefix``, ``gs://…``, ``az://container/prefix`` or ``hf://[datasets/|spaces/]org/name``.

    :raises PackageIndexError: it is none of these, or what it takes is not installed or not reachable.
    """
    scheme, separator, _ = target.partition("://")
    if not separator:
        return Folder(Path(target))
    if scheme == "file":
        return Folder(Path(url2pathname(urlsplit(target).path)))
    if scheme in BUCKETS:
        from wheelsmith.index.storage.bucket import open_bucket

        return open_bucket(target)
    if scheme == "hf":
        from wheelsmith.index.storage.hub import open_repo

        return open_repo(target)
    raise PackageIndexError(
        f"{shown(target)} is no place for an index",
        remedy="name a folder, or a URL that begins with s3://, gs://, az:// or hf://",
    )
