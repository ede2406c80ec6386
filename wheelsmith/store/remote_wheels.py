"""Finished wheels in a remote cache."""

from __future__ import annotations

import json
from pathlib import Path

from wheelsmith.base.files import sha256_file
from wheelsmith.base.json_dataclass import read_json
from wheelsmith.model import WheelRecord, read_wheel_name
from wheelsmith.store.remote import RemoteCache
from wheelsmith.store.wheels import Store

_MAX_RECORD = 64 << 10  # bytes


def fetch_wheel(remote: RemoteCache, store: Store, build_digest: str, folder: Path) -> bool:
    """Copy the wheel of a plan to the store. It counts as unchecked. Return False if it is not available.

    :param folder: an empty folder for downloads.
    :raises StoreError: the store cannot be written.
    """
    key, path = _record_key(build_digest), folder / "record.json"
    if not remote.fetch(key, path, _MAX_RECORD):
        return False
    try:
        wheel = WheelRecord.from_json(read_json(path.read_bytes()))
        read_wheel_name(wheel.filename)
    except (OSError, ValueError):
        remote.report_damage(key)
        return False
    path = folder / wheel.filename
    if not remote.fetch(_wheel_key(wheel), path, wheel.size):
        return False
    if sha256_file(path) != wheel.sha256:
        remote.report_damage(_wheel_key(wheel))
        return False
    store.put(build_digest, path, wheel)
    return True


def send_wheel(remote: RemoteCache, build_digest: str, wheel: WheelRecord, path: Path) -> None:
    """Write a finished wheel in the background, and then its record."""
    record = json.dumps(wheel.to_json(), sort_keys=True, indent=1) + "\n"
    remote.send([(_wheel_key(wheel), path), (_record_key(build_digest), record.encode())])


def reject_wheel(remote: RemoteCache, store: Store, build_digest: str) -> None:
    """Remove a wheel from the store that came from a remote cache and failed the check. A new one replaces it there."""
    remote.report_damage(_record_key(build_digest))
    store.remove(build_digest)


def _record_key(build_digest: str) -> str:
    return f"plans/{build_digest}.json"


def _wheel_key(wheel: WheelRecord) -> str:
    return f"wheels/{wheel.sha256}/{wheel.filename}"
