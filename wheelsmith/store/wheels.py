"""Wheels that were built before, found by the digest of the plan that makes them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from wheelsmith.base.errors import StoreError
from wheelsmith.base.files import atomic_copy, atomic_write, mark_used, sha256_file
from wheelsmith.base.json_dataclass import read_json
from wheelsmith.model import Timing, WheelFile

_CHECKED, _TIMINGS, _OF_MACHINE = "checked", "timings", "of_machine"  # beside the fields of a WheelFile


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredWheel:
    """A wheel in the store; its content was compared with its hash when it was found.

    :param checked: the edition of the check that it passed; empty where it is not known.
    :param timings: how long each stage of its build took; empty where that was not kept.
    :param of_machine: whether it was compiled where paths of this machine may have come into it.
    """

    wheel: WheelFile
    path: Path
    checked: str = ""
    timings: tuple[Timing, ...] = ()
    of_machine: bool = False


class Store:
    """A content-addressed folder, safe for several processes: every file appears by rename.

    ``plans/<build digest>.json`` names the wheel, and the check that it passed; ``wheels/<sha256>/<filename>`` is the
    wheel. The wheel is written first, so a plan never points at nothing. A plan's modification time says when it was
    last of use.
    """

    def __init__(self, root: Path) -> None:
        self._root = root

    def find(self, build_digest: str) -> StoredWheel | None:
        """Return the wheel that this plan made before; one whose bytes changed since is as good as none."""
        try:
            record = read_json(self._plan(build_digest).read_bytes())
            checked = str(record.pop(_CHECKED, "")) if isinstance(record, dict) else ""
            of_machine = bool(record.pop(_OF_MACHINE, False)) if isinstance(record, dict) else False
            timings = tuple(Timing.from_json(item) for item in record.pop(_TIMINGS, ()))
            wheel = WheelFile.from_json(record)
            path = self._wheel(wheel)
            if path.name != wheel.filename:  # it names a file elsewhere, and would be given that name in other folders
                return None
            if path.stat().st_size != wheel.size or sha256_file(path) != wheel.sha256:
                return None
        except (FileNotFoundError, ValueError, TypeError, AttributeError):
            return None
        except OSError as error:
            raise _unusable(self._root, error) from error
        mark_used(self._plan(build_digest))
        return StoredWheel(wheel=wheel, path=path, checked=checked, timings=timings, of_machine=of_machine)

    def put(
        self,
        build_digest: str,
        path: Path,
        wheel: WheelFile,
        checked: str = "",
        timings: tuple[Timing, ...] = (),
        *,
        of_machine: bool = False,
    ) -> StoredWheel:
        """Keep a finished wheel.

        :param checked: the edition of the check that it has passed.
        :param timings: how long each stage of its build took.
        :param of_machine: whether paths of this machine may be in it.
        """
        kept = self._wheel(wheel)
        try:
            atomic_copy(path, kept)
        except OSError as error:
            raise _unusable(self._root, error) from error
        stored = StoredWheel(wheel=wheel, path=kept, checked=checked, timings=timings, of_machine=of_machine)
        return self.note_checked(build_digest, stored)

    def note_checked(self, build_digest: str, stored: StoredWheel) -> StoredWheel:
        """Write down which check the wheel of a plan has passed."""
        record = {
            **stored.wheel.to_json(),
            **({_CHECKED: stored.checked} if stored.checked else {}),
            **({_OF_MACHINE: True} if stored.of_machine else {}),
            **({_TIMINGS: [timing.to_json() for timing in stored.timings]} if stored.timings else {}),
        }
        try:
            atomic_write(self._plan(build_digest), (json.dumps(record, sort_keys=True, indent=1) + "\n").encode())
        except OSError as error:
            raise _unusable(self._root, error) from error
        return stored

    def find_file(self, sha256: str, filename: str) -> Path | None:
        """Return where a wheel of that content lies; one whose bytes changed since is as good as none."""
        path = self._root / "wheels" / sha256 / filename
        return path if path.is_file() and sha256_file(path) == sha256 else None

    def _plan(self, build_digest: str) -> Path:
        return self._root / "plans" / f"{build_digest}.json"

    def _wheel(self, wheel: WheelFile) -> Path:
        return self._root / "wheels" / wheel.sha256 / wheel.filename


def _unusable(root: Path, error: OSError) -> StoreError:
    return StoreError(
        f"the store at {root} cannot be used: {error.strerror or error}",
        remedy="free some disk or fix its permissions, or choose another place with WHEELSMITH_CACHE",
    )
