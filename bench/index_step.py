"""Change an index in a separate process: ``render FOLDER`` or ``add FOLDER WHEEL``.

Prints the seconds of the change, without the start of Python and imports.
"""

import sys
import time
from datetime import UTC, datetime
from pathlib import Path

from wheelsmith.index.publish.writer import Index
from wheelsmith.index.storage.folder import Folder


def main() -> None:
    """Perform the change that the arguments name."""
    verb, index = sys.argv[1], Index(Folder(Path(sys.argv[2])))
    if verb == "add":
        from wheelsmith.index.publish.input_folders import external_wheels
    start = time.monotonic()
    if verb == "add":
        index.add(external_wheels([Path(sys.argv[3])]), upload_time=datetime.now(tz=UTC).strftime("%Y-%m-%dT%H:%M:%SZ"))
    else:
        index.repair()
    print(time.monotonic() - start)


if __name__ == "__main__":
    main()
