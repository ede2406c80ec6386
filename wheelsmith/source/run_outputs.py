"""What wheelsmith writes is not a kernel's source, though it may lie inside of the kernel's own folder."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from wheelsmith.base.offline import MARK

# What a run or a release writes into its output folder.
_OF_A_RUN = ("CHANGES.md", "index", "junit.xml", "logs", "report.html", "results.json", "summary.md", "wheels")
# What is not yet renamed has such a name.
_UNFINISHED = tuple(f".{name}." for name in _OF_A_RUN)
# An index that was published to a folder has one of these.
_OF_AN_INDEX = ("_state/.listing.json", "_state/.lock")
# A vendored folder, and one that was not finished.
_MARKS = (*_OF_AN_INDEX, MARK)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outputs:
    """Where this run writes.

    :param out: its output folder.
    :param cache: the folder for toolchains and finished wheels.
    """

    out: Path
    cache: Path

    def are(self, folder: Path) -> bool:
        """Say whether all of a folder is output: the cache, an index, what was vendored, or what is a link to these."""
        if folder.is_symlink():
            return _same(folder, self.out) or _same(folder, self.cache)
        return _same(folder, self.cache) or any((folder / name).is_file() for name in _MARKS)

    def include(self, entry: os.DirEntry[str], folder: Path) -> bool:
        """Say whether something in a folder is output of a run, this one or an earlier one, which wrote there."""
        if entry.name not in _OF_A_RUN and not entry.name.startswith(_UNFINISHED):
            return False
        earlier = all((folder / name).is_file() for name in ("report.html", "results.json"))
        return earlier or _same(folder, self.out)


def _same(folder: Path, other: Path) -> bool:
    try:
        return folder.samefile(other)
    except OSError:
        return False
