"""Pin CPython's headers from the archive of a release in wheelsmith/platforms/header_libraries.json.

    python_headers.py Python-3.13.5.tgz

Another archive of the release, such as Debian's, works too if it is compressed with gzip.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import tarfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from wheelsmith.base.json_dataclass import canonical_digest

TARGET = Path(__file__).parent.parent / "wheelsmith" / "platforms" / "header_libraries.json"
HOME = "https://www.python.org/ftp/python"


def main() -> None:
    """Write the entry of the release."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("archive", type=Path)
    known = json.loads(TARGET.read_text(encoding="utf-8"))
    known["python"] = row(parser.parse_args().archive)
    TARGET.write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")


def row(archive: Path) -> dict[str, Any]:
    """Return the entry of a release."""
    release, _, version = archive.stem.partition("-")
    folder = f"{release}-{version}/Include/"
    content = sorted(headers(archive, folder))
    return {
        "name": f"python_{'_'.join(version.split('.')[:2])}",
        "version": version,
        "backends": ["cpu", "cuda"],
        "archive": {
            "filename": f"{release}-{version}.tgz",
            "url": f"{HOME}/{version}/{release}-{version}.tgz",
            "folder": folder,
            "sha256": canonical_digest([[name, digest] for name, digest, _ in content]),
            "files": len(content),
            "size": sum(size for _, _, size in content),
        },
        "source": "Include/ of the release, with a pyconfig.h by wheelsmith",
        "date": datetime.now(UTC).date().isoformat(),
    }


def headers(archive: Path, folder: str) -> Iterator[tuple[str, str, int]]:
    """Yield each header's path, sha256 and size."""
    with tarfile.open(archive) as opened:
        for member in opened:
            if member.isfile() and member.name.startswith(folder) and (content := opened.extractfile(member)):
                digest = hashlib.sha256(content.read()).hexdigest()
                yield member.name.removeprefix(folder), digest, member.size


if __name__ == "__main__":
    main()
