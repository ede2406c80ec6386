"""The file is one archive that every unzipper reads the same, and RECORD lists its files."""

from __future__ import annotations

from collections.abc import Iterator

from wheelsmith.base.units import counted
from wheelsmith.wheel.archive import compare_record
from wheelsmith.wheel.inspection import Inspection
from wheelsmith.wheel.report import Finding, finding
from wheelsmith.wheel.rules.rule import Rule


def _examine_archive(wheel: Inspection) -> Iterator[Finding]:
    """Report what was read. A wheel that cannot be read is refused under this name before any rule runs."""
    size = sum(digest.size for digest in wheel.digests.values())
    yield Finding(rule=READABLE.name, ok=True, message=f"{counted(len(wheel.files), 'file')}, {size} bytes")


def _examine_record(wheel: Inspection) -> Iterator[Finding]:
    wrong = compare_record(wheel.record, wheel.info, wheel.digests)
    yield finding("record", wrong, f"{len(wheel.files)} files are what RECORD says")


READABLE = Rule(
    name="readable",
    proves="the file is one zip archive without gaps, prefix or second archive; each local header agrees with the "
    "directory; members are stored or deflated, each once, with a plain name and kind, and unpack to the size and "
    "checksum of the directory; there is one `.dist-info` folder with METADATA, WHEEL and RECORD",
    leaves_open="links and special files are refused, though some unzippers make them; an archive whose end record "
    "counts fewer members than the directory lists, or that repeats other sizes behind a member's data",
    examine=_examine_archive,
)

RECORD = Rule(
    name="record",
    proves="every file is what RECORD says, by a hash no weaker than sha256, and RECORD lists every file but its "
    "signatures",
    leaves_open="who wrote RECORD: whoever changes a file can change both, and signatures are not verified",
    in_the_wild="decord 0.6.0: `top_level.txt` has another length and hash than RECORD says",
    examine=_examine_record,
)
