"""From what people write to the storage that it names."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

from wheelsmith.base.errors import AddressError
from wheelsmith.index.storage.address import BUCKETS, shown
from wheelsmith.index.storage.folder import Folder
from wheelsmith.index.storage.protocol import Storage

# A slash too few: a folder of that name would take a release that nobody sees.
_LOST_SLASH = re.compile(rf"({'|'.join(BUCKETS)}|hf|file):", re.IGNORECASE)
_PLACES = "name a folder, or a URL that begins with s3://, gs://, az:// or hf://"


def open_storage(target: str) -> Storage:
    """Open a folder, ``s3://bucket/prefix``, ``gs://…``, ``az://container/prefix`` or ``hf://[datasets/|spaces/]org/name``.

    :raises AddressError: it is none of these.
    :raises PackageIndexError: what it takes is not installed or not reachable.
    """
    scheme, separator, _ = target.partition("://")
    if not separator:
        if lost := _LOST_SLASH.match(target):
            raise AddressError(
                f"{lost[0]}… is no place for an index",
                remedy=f"write {lost[0].lower()}// before it; for a folder of that name ./{lost[0]}…",
            )
        if not target.startswith((".", "/")) and (what := shown(target)) != target:
            raise AddressError(f"{what} is no place for an index", remedy=_PLACES)
        return Folder(Path(target))
    if scheme == "file":
        return Folder(Path(url2pathname(urlsplit(target).path)))
    if scheme in BUCKETS:
        from wheelsmith.index.storage.bucket import open_bucket

        return open_bucket(target)
    if scheme == "hf":
        from wheelsmith.index.storage.hub import open_repo

        return open_repo(target)
    raise AddressError(
        f"{shown(target)} is no place for an index",
        remedy=_PLACES,
    )
