"""The settings of a cache that machines share."""

from __future__ import annotations

from dataclasses import dataclass

from wheelsmith.base.json_dataclass import Record
from wheelsmith.base.redact import redact

_SCHEMES = {"s3", "gs", "az"}


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteCacheSettings(Record):
    """A cache that machines share.

    :param addresses: places that are read in this order; the first one is also written. Empty for no cache.
    :param signers: public key files. If there are any, a record must be signed with one of them.
    :param key: the private key that signs new records, as for ``wheelsmith sign``; None for unsigned records.
    """

    addresses: tuple[str, ...] = ()
    signers: tuple[str, ...] = ()
    key: str | None = None


def is_bucket(address: str) -> bool:
    """Return True for the address of a bucket, False for a folder."""
    return "://" in address


def check_address(text: str) -> str:
    """Return the address of a remote cache.

    :raises ValueError: it has another scheme.
    """
    scheme, separator, _ = text.partition("://")
    if not text or (separator and scheme not in _SCHEMES):
        raise ValueError(f"{redact(text)[:80]!r} cannot be a remote cache: use s3://, gs://, az:// or a folder")
    return text
