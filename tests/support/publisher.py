"""A publisher in a process of its own: adds the wheels of a folder, some at a time, and notes what was done.

python publisher.py TARGET WHEELS JOURNAL BATCH
"""

import sys
import time
from pathlib import Path

from wheels import offer

from wheelsmith.index.publish.writer import Index
from wheelsmith.index.storage.location import open_storage
from wheelsmith.model import Cell

NOW = "2026-01-02T03:04:05Z"


def main(target: str, wheels: Path, journal: Path, batch: int) -> None:
    offers = []
    for path in sorted(wheels.glob("*.whl")):
        cuda = "13.0" if "+cu130" in path.name else None
        offers.append(offer(path, Cell(release="2.9", toolkit=cuda, arch="x86_64")))
    index = Index(open_storage(target))
    note(journal, "ready")
    while not (wheels.parent / "go").exists():
        time.sleep(0.01)
    note(journal, "begun")
    for start in range(0, len(offers), batch):
        entries = index.add(offers[start : start + batch], upload_time=NOW)
        note(journal, *(entry.filename for entry in entries))
    note(journal, "end")


def note(journal: Path, *lines: str) -> None:
    with journal.open("a") as file:
        file.write("".join(f"{line}\n" for line in lines))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4]))
