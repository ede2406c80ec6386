"""Keep results of tests, so that nothing is tested twice with the same wheel, packages, files, GPU and driver."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from wheelsmith.base.files import atomic_write, mark_used, sha256_file
from wheelsmith.base.json_dataclass import Record, canonical_digest, canonical_json, read_json
from wheelsmith.index.entries.entry import WheelOutcome
from wheelsmith.index.pick.machine import Machine
from wheelsmith.run.testing.cases import WheelCase


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptResult(Record):
    """The result of a test that passed.

    :param where: the machine.
    """

    outcome: WheelOutcome
    where: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptResults:
    """The kept results of one command on one machine.

    :param folder: a folder of the cache.
    :param command: the words of the command.
    :param files: the digest of the test files; None keeps nothing, because no files are known.
    """

    folder: Path
    machine: Machine
    command: tuple[str, ...]
    files: str | None

    def find(self, case: WheelCase) -> KeptResult | None:
        """Return the result of an equal test, or None."""
        if self.files is None:
            return None
        try:
            found = KeptResult.from_json(read_json(self._path(case).read_bytes()))
        except (OSError, ValueError, TypeError):
            return None
        mark_used(self._path(case))
        return found

    def keep(self, case: WheelCase, result: KeptResult) -> None:
        """Keep a result. A failed test is not kept, because users repeat it after a change of the machine."""
        if self.files is not None and result.outcome is not WheelOutcome.FAILED:
            self.folder.mkdir(parents=True, exist_ok=True)
            atomic_write(self._path(case), canonical_json(result.to_json()))

    def _path(self, case: WheelCase) -> Path:
        assert case.environment is not None  # noqa: S101  # the case was run
        gpu = (case.gpu.name, case.gpu.capability, self.machine.driver) if case.gpu else None
        python = case.target.python_minor if case.target else None
        packages = case.environment.packages
        machine = (self.machine.arch, self.machine.glibc)
        key = (case.wheel.sha256, case.cell.id, python, packages, gpu, machine, self.command, self.files)
        return self.folder / f"{canonical_digest(key)[:32]}.json"


def digest_files(paths: Iterable[Path]) -> str | None:
    """Return the digest of all files that may decide a test, or None if none of the paths exists.

    These are the files, those in the folders, those beside a file, and those in the folders above as far as the current
    folder. pytest reads conftest.py and its settings there.
    """
    given = [Path(os.path.abspath(path)) for path in paths if path.exists()]  # noqa: PTH100  # links are not followed
    found = {path for each in given for path in _files(each)}
    return canonical_digest({str(path): sha256_file(path) for path in found}) if found else None


def _files(path: Path) -> Iterator[Path]:
    folder, here = path if path.is_dir() else path.parent, Path.cwd()
    if path.is_dir() or folder != here:
        inside = (each for each in folder.rglob("*") if "__pycache__" not in each.parts)
        yield from (each for each in inside if each.is_file())
    for above in (folder, *folder.parents):
        if above.is_relative_to(here):
            yield from (each for each in above.iterdir() if each.is_file())
