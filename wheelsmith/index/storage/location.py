"""Parse the addresses of storages."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

from wheelsmith.base.errors import AddressError
from wheelsmith.base.redact import redact
from wheelsmith.base.sanitize import visible
from wheelsmith.index.storage.folder import Folder
from wheelsmith.index.storage.protocol import Storage

BUCKETS = ("s3", "gs", "az")
# Azure serves a website from the container $web.
_BUCKET_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]|\$web", re.ASCII)
# Characters that need no escaping in the URLs for installers.
_SEGMENT = re.compile(r"[A-Za-z0-9._~-]+", re.ASCII)
# A URL with a missing slash, such as s3:/bucket. As a folder name it would create a local index by mistake.
_MISSING_SLASH = re.compile(rf"({'|'.join(BUCKETS)}|hf|github|file):", re.IGNORECASE)
_ADDRESS_HELP = "name a folder, or a URL that begins with s3://, gs://, az://, hf:// or github://"


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """The address of an index in a bucket.

    :param scheme: one of ``BUCKETS``.
    :param prefix: path within the bucket, without leading and trailing slashes; empty for the bucket's root.
    """

    scheme: str
    bucket: str
    prefix: str

    def __str__(self) -> str:
        """Return the address as a URL."""
        return f"{self.scheme}://{self.bucket}" + (f"/{self.prefix}" if self.prefix else "")


def open_storage(target: str) -> Storage:
    """Open a folder, ``s3://bucket/prefix``, ``gs://…``, ``az://…``, ``hf://[datasets/|…]org/name`` or ``github://…``.

    :raises AddressError: the target has none of these forms.
    :raises PackageIndexError: the client library of the storage is not installed.
    """
    scheme, separator, _ = target.partition("://")
    if not separator:
        if incomplete := _MISSING_SLASH.match(target):
            raise AddressError(
                f"{incomplete[0]}… is not the address of a storage",
                remedy=f"write {incomplete[0].lower()}//… for a URL, or ./{incomplete[0]}… for a folder of that name",
            )
        if (not target.startswith((".", "/")) or target.startswith("//")) and (shown := _display(target)) != target:
            raise AddressError(f"{shown} is not the address of a storage", remedy=_ADDRESS_HELP)
        return Folder(Path(target))
    if scheme == "file":
        return Folder(Path(url2pathname(urlsplit(target).path)))
    if scheme in BUCKETS:
        from wheelsmith.index.storage.bucket import open_bucket

        return open_bucket(target)
    if scheme == "hf":
        from wheelsmith.index.storage.hub import open_repo

        return open_repo(target)
    if scheme == "github":
        from wheelsmith.index.storage.github import open_github

        return open_github(target)
    raise AddressError(f"{_display(target)} is not the address of a storage", remedy=_ADDRESS_HELP)


def parse_address(target: str) -> Address:
    """Read ``s3://bucket/prefix``, ``gs://bucket/prefix`` or ``az://container/prefix``.

    :raises AddressError: the target does not have this form.
    """
    scheme, separator, rest = target.partition("://")
    if not separator or scheme not in BUCKETS:
        raise AddressError(f"{_display(target)} is not the address of a bucket", remedy=f"write {_example('s3')}")
    if set("@?#") & set(rest):
        raise AddressError(
            f"{_display(target)}: a bucket's address must not contain a user, a password or a query",
            remedy=f"write {_example(scheme)}, and give credentials in the environment",
        )
    bucket, _, path = rest.partition("/")
    if not _BUCKET_NAME.fullmatch(bucket) or ".." in bucket:
        raise AddressError(f"{_display(target)} names no bucket", remedy=f"write {_example(scheme)}")
    prefix = path.strip("/")
    for segment in prefix.split("/") if prefix else ():
        if not _SEGMENT.fullmatch(segment) or segment in {".", ".."}:
            raise AddressError(
                f"{_display(target)}: {_display(segment)!r} is not allowed in a prefix",
                remedy="use letters, digits and . _ ~ - between slashes",
            )
    return Address(scheme=scheme, bucket=bucket, prefix=prefix)


def _example(scheme: str) -> str:
    return f"{scheme}://{'container' if scheme == 'az' else 'bucket'}/prefix"


def _display(target: str) -> str:
    return visible(redact(target))
