"""A promoter in a process of its own: promotes versions that others are publishing, and notes which it has.

python promoter.py SOURCE TARGET JOURNAL PROJECT VERSION...
"""

import sys
import time
from pathlib import Path

from wheelsmith.base.errors import PackageIndexError
from wheelsmith.index.publish.promote import Promotion, promote
from wheelsmith.index.storage.location import open_storage

# What is not there yet, not whole yet, or changes while it is read comes later.
_LATER = ("has no wheel of", "has no project", "without a wheel", "during the promotion")
_PATIENCE = 120.0


def main(source: str, target: str, journal: Path, project: str, versions: list[str]) -> None:
    waiting, until = list(versions), time.monotonic() + _PATIENCE
    note(journal, "begun")
    while waiting and time.monotonic() < until:
        version = waiting.pop(0)
        try:
            promote(open_storage(source), open_storage(target), Promotion(project=project, version=version), target)
        except PackageIndexError as error:
            if not any(text in error.message for text in _LATER):
                raise
            waiting.append(version)
            time.sleep(0.05)
            continue
        note(journal, version)
    note(journal, "end")
    if waiting:
        raise SystemExit(f"{waiting} did not come")


def note(journal: Path, line: str) -> None:
    with journal.open("a") as file:
        file.write(f"{line}\n")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), sys.argv[4], sys.argv[5:])
