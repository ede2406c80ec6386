"""Keep results of tests, so that nothing is tested twice with the same wheel, packages, files, GPU and driver."""

from __future__ import annotations

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
    """Return the digest of files and of the files in folders, or None if there are none."""
    found = {str(path): sha256_file(path) for given in paths for path in _files(given)}
    return canonical_digest(found) if found else None


def _files(path: Path) -> Iterator[Path]:
    if path.is_file():
        yield path
    elif path.is_dir():
        inside = (each for each in sorted(path.rglob("*")) if each.is_file())
        yield from (each for each in inside if "__pycache__" not in each.parts)
