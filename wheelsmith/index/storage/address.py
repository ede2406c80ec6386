"""The address of a bucket, as people write it and as it may be shown."""

from __future__ import annotations

import re
from dataclasses import dataclass

from wheelsmith.base.errors import AddressError
from wheelsmith.base.redact import redact

BUCKETS = ("s3", "gs", "az")
# Azure serves a website from the container $web.
_BUCKET = re.compile(r"[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]|\$web", re.ASCII)
# What needs no escaping in the URLs that installers are given.
_SEGMENT = re.compile(r"[A-Za-z0-9._~-]+", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where in which bucket an index lives.

    :param scheme: one of ``BUCKETS``.
    :param prefix: without slashes around it; empty for the bucket's root.
    """

    scheme: str
    bucket: str
    prefix: str

    def __str__(self) -> str:
        """Return it as a URL."""
        return f"{self.scheme}://{self.bucket}" + (f"/{self.prefix}" if self.prefix else "")


def shown(target: str) -> str:
    """Return a target as it may be printed: without anything that could be a password or a signature."""
    text = redact(target)
    return "".join(letter if letter.isprintable() else "�" for letter in text)


def parse_address(target: str) -> Address:
    """Read ``s3://bucket/prefix``, ``gs://bucket/prefix`` or ``az://container/prefix``.

    :raises AddressError: it is not of that form.
    """
    scheme, separator, rest = target.partition("://")
    if not separator or scheme not in BUCKETS:
        raise AddressError(f"{shown(target)} is no bucket", remedy=f"write {_example('s3')}")
    if set("@?#") & set(rest):
        raise AddressError(
            f"{shown(target)}: a bucket's address holds no user, no password and no query",
            remedy=f"write {_example(scheme)}, and give credentials in the environment",
        )
    bucket, _, path = rest.partition("/")
    if not _BUCKET.fullmatch(bucket) or ".." in bucket:
        raise AddressError(f"{shown(target)} names no bucket", remedy=f"write {_example(scheme)}")
    prefix = path.strip("/")
    for segment in prefix.split("/") if prefix else ():
        if not _SEGMENT.fullmatch(segment) or segment in {".", ".."}:
            raise AddressError(
                f"{shown(target)}: {shown(segment)!r} cannot be a part of a prefix",
                remedy="use letters, digits and . _ ~ - between slashes",
            )
    return Address(scheme=scheme, bucket=bucket, prefix=prefix)


def _example(scheme: str) -> str:
    return f"{scheme}://{'container' if scheme == 'az' else 'bucket'}/prefix"
