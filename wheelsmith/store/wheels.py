"""Finished wheels in the cache. The key is the digest of their plan."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from wheelsmith.base.errors import StoreError
from wheelsmith.base.files import atomic_copy, atomic_write, mark_used, sha256_file
from wheelsmith.base.json_dataclass import read_json
from wheelsmith.model import Timing, WheelRecord

CHANGED = "its content has another hash"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredWheel:
    """A wheel in the store, with verified content.

    :param checked: digest of the checker that it passed; empty if unknown.
    :param timings: durations of the stages of its build; empty if unknown.
    :param of_machine: it was compiled without isolation and may contain paths of this machine.
    """

    wheel: WheelRecord
    path: Path
    checked: str = ""
    timings: tuple[Timing, ...] = ()
    of_machine: bool = False


class Store:
    """A content-addressed folder. Several processes may use it, because every file is renamed into place.

    ``plans/<build digest>.json`` describes the wheel, and ``wheels/<sha256>/<filename>`` is the wheel. The wheel is
    written first, so a plan never refers to a missing wheel. The modification time of a plan is the time of its last
    use.
    """

    def __init__(self, root: Path) -> None:
        self._root = root

    def find(self, build_digest: str) -> StoredWheel | None:
        """Return the wheel of a plan, or None if it is not stored or has changed."""
        try:
            record = read_json(self._plan(build_digest).read_bytes())
            checked, of_machine = str(record.pop("checked", "")), bool(record.pop("of_machine", False))
            timings = tuple(Timing.from_json(item) for item in record.pop("timings", ()))
            wheel = WheelRecord.from_json(record)
            path = self.find_file(wheel.sha256, wheel.filename)
        except (FileNotFoundError, ValueError, TypeError, AttributeError):
            return None
        except OSError as error:
            raise _unusable(self._root, error) from error
        # A copy of a wheel with a slash in its name would be written to another folder.
        if path is None or path.name != wheel.filename:
            return None
        mark_used(self._plan(build_digest))
        return StoredWheel(wheel=wheel, path=path, checked=checked, timings=timings, of_machine=of_machine)

    def put(
        self,
        build_digest: str,
        path: Path,
        wheel: WheelRecord,
        checked: str = "",
        timings: tuple[Timing, ...] = (),
        *,
        of_machine: bool = False,
    ) -> StoredWheel:
        """Store a finished wheel.

        :param path: path of the wheel to copy.
        :param checked: digest of the checker that it passed.
        :param timings: durations of the stages of its build.
        :param of_machine: it may contain paths of this machine.
        :raises StoreError: the store cannot be written.
        """
        target = self._wheel(wheel.sha256, wheel.filename)
        try:
            atomic_copy(path, target)
        except OSError as error:
            raise _unusable(self._root, error) from error
        stored = StoredWheel(wheel=wheel, path=target, checked=checked, timings=timings, of_machine=of_machine)
        return self.mark_checked(build_digest, stored)

    def mark_checked(self, build_digest: str, stored: StoredWheel) -> StoredWheel:
        """Record the checker that the wheel of a plan passed."""
        timings = [timing.to_json() for timing in stored.timings]
        more = {"checked": stored.checked, "of_machine": stored.of_machine, "timings": timings}
        record = stored.wheel.to_json() | {name: value for name, value in more.items() if value}
        try:
            atomic_write(self._plan(build_digest), (json.dumps(record, sort_keys=True, indent=1) + "\n").encode())
        except OSError as error:
            raise _unusable(self._root, error) from error
        return stored

    def remove(self, build_digest: str) -> None:
        """Remove the record of a wheel. Pruning removes the wheel."""
        self._plan(build_digest).unlink(missing_ok=True)

    def find_file(self, sha256: str, filename: str) -> Path | None:
        """Return the path of a wheel, or None if it is missing or has changed."""
        path = self._wheel(sha256, filename)
        return path if path.is_file() and sha256_file(path) == sha256 else None

    def _plan(self, build_digest: str) -> Path:
        return self._root / "plans" / f"{build_digest}.json"

    def _wheel(self, sha256: str, filename: str) -> Path:
        return self._root / "wheels" / sha256 / filename


def verify_wheels(cache: Path) -> dict[str, str | None]:
    """Return path relative to the cache → problem, for each wheel; None if its content is unchanged."""
    paths = sorted(cache.glob("store/wheels/[!.]*/[!.]*"))
    return {
        path.relative_to(cache).as_posix(): None if sha256_file(path) == path.parent.name else CHANGED for path in paths
    }


def _unusable(root: Path, error: OSError) -> StoreError:
    return StoreError(
        f"the store at {root} cannot be used: {error.strerror or error}",
        remedy="free disk space or fix its permissions, or set WHEELSMITH_CACHE to another folder",
    )
