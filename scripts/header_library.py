"""Pin a header library from a tag of its git repository in wheelsmith/platforms/header_libraries.json.

    header_library.py cutlass_4_0 v4.0.0 --repository FOLDER --url https://…/NVIDIA/cutlass

FOLDER is a clone that has the tag. If an index has a wheel of exactly this version, pin the wheel by hand instead.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from wheelsmith.base.json_dataclass import canonical_digest

TARGET = Path(__file__).parent.parent / "wheelsmith" / "platforms" / "header_libraries.json"
SOURCE = "include/ of the tag, commit {}; the versions are those of kernel-builder's nix-builder/lib/deps.nix"


def main() -> None:
    """Add or replace the entry of a library."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("name")
    parser.add_argument("tag")
    parser.add_argument("--repository", type=Path, required=True)
    parser.add_argument("--url", required=True)
    options = parser.parse_args()
    known = json.loads(TARGET.read_text(encoding="utf-8"))
    rows = {row["name"]: row for row in known["libraries"]}
    rows[options.name] = row(options)
    known["libraries"] = sorted(rows.values(), key=lambda each: [int(part) for part in each["version"].split(".")])
    TARGET.write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")


def row(options: argparse.Namespace) -> dict[str, Any]:
    """Return the entry of a library."""
    with tempfile.TemporaryDirectory() as scratch:
        tree = Path(scratch)
        packed = git(options.repository, "archive", options.tag, "include")
        subprocess.run(["tar", "x", "-C", scratch], input=packed, check=True)
        files = sorted(path for path in (tree / "include").rglob("*") if path.is_file())
        content = [[str(path.relative_to(tree / "include")), sha256(path)] for path in files]
        size = sum(path.stat().st_size for path in files)
    version, project = options.tag.removeprefix("v"), options.url.rpartition("/")[2]
    return {
        "name": options.name,
        "version": version,
        "backends": ["cuda"],
        "archive": {
            "filename": f"{project}-{version}.tar.gz",
            "url": f"{options.url}/archive/refs/tags/{options.tag}.tar.gz",
            "folder": f"{project}-{version}/include/",
            "sha256": canonical_digest(sorted(content)),
            "files": len(files),
            "size": size,
        },
        "source": SOURCE.format(git(options.repository, "rev-parse", f"{options.tag}^{{commit}}").decode().strip()),
        "date": datetime.now(UTC).date().isoformat(),
    }


def git(repository: Path, *argv: str) -> bytes:
    """Run git and return its output."""
    return subprocess.run(["git", "-C", str(repository), *argv], check=True, capture_output=True).stdout


def sha256(path: Path) -> str:
    """Return the hash of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


if __name__ == "__main__":
    main()
