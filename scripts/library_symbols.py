"""Regenerate the symbol tables in wheelsmith/wheel/symbols from unpacked libraries.

    library_symbols.py platform x86_64 "Debian forky: libc6 2.43-7, …" FOLDER …
    library_symbols.py cuda "the newest nvidia wheels of each" 12=FOLDER 13=FOLDER
    library_symbols.py python "Debian's libpython3.13 3.13.5 …" 3.13=FILE …
    library_symbols.py manylinux

Needs ``nm`` and ``readelf``. The driver's libraries are not in any package, so their functions come from the headers
cuda.h and nvml.h in the CUDA folders. ``manylinux`` copies the policies of auditwheel.
"""

from __future__ import annotations

import json
import lzma
import re
import subprocess
import sys
from datetime import UTC, datetime
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any

from wheelsmith.platforms import DRIVER_LIBRARIES

TARGET = Path(__file__).parent.parent / "wheelsmith" / "wheel" / "symbols"
ARCHES = ("x86_64", "aarch64")


def exports(library: Path) -> dict[str, list[str]]:
    """Return the exported symbols of a library by symbol version. Unversioned symbols have the version ``""``."""
    command = ["nm", "-D", "--defined-only", "--with-symbol-versions", "--format=just-symbols", str(library)]
    words = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    found: dict[str, set[str]] = {}
    for word in words:
        name, _, which = word.partition("@")
        if name != which.lstrip("@"):  # nm lists the name of a version as a symbol too
            found.setdefault(which.lstrip("@"), set()).add(name)
    return {which: sorted(names) for which, names in sorted(found.items())}


def soname(library: Path) -> str | None:
    """Return DT_SONAME, or None for a file that is not a library."""
    answer = subprocess.run(["readelf", "-dW", str(library)], capture_output=True, text=True, check=False).stdout
    found = re.search(r"\(SONAME\).*\[(.*)\]", answer)
    return found[1] if found else None


def libraries(folders: list[Path]) -> dict[str, dict[str, list[str]]]:
    """Return the exports of every library in the folders, by soname."""
    found = {}
    for folder in folders:
        for path in sorted(folder.rglob("*.so*")):
            if path.is_file() and not path.is_symlink() and (name := soname(path)):
                found[name] = exports(path)
    return found


def driver(folder: Path) -> dict[str, dict[str, list[str]]]:
    """Return the exports of the driver's libraries, by soname. They come from headers."""
    found = {}
    for name, (header, pattern) in DRIVER_LIBRARIES.items():
        texts = [path.read_text(errors="replace") for path in folder.rglob(header)]
        if texts:
            found[name] = {"": sorted({word for text in texts for word in re.findall(pattern, text)})}
    return found


def policies() -> dict[str, Any]:
    """Return auditwheel's policies for the supported architectures, oldest first."""
    result: dict[str, Any] = {"source": f"the policies of auditwheel {version('auditwheel')}", "date": today()}
    for family in ("manylinux", "musllinux"):
        rows = json.loads(files("auditwheel.policy").joinpath(f"{family}-policy.json").read_text())
        rows = sorted((row for row in rows if row["priority"]), key=lambda row: -row["priority"])
        result[family] = [
            {
                "name": row["name"],
                "libraries": row["lib_whitelist"],
                "blacklist": row["blacklist"],
                "versions": {arch: row["symbol_versions"].get(arch, {}) for arch in ARCHES},
            }
            for row in rows
        ]
    return result


def today() -> str:
    """Return the current date in UTC."""
    return datetime.now(UTC).date().isoformat()


def write(name: str, content: dict[str, Any]) -> None:
    """Write a compressed table."""
    data = lzma.compress(json.dumps(content, sort_keys=True).encode(), preset=9)
    (TARGET / name).write_bytes(data)
    print(name, len(data), "bytes")


def main(words: list[str]) -> None:
    """Write the table that the arguments name."""
    kind, *rest = words
    if kind == "manylinux":
        (TARGET / "manylinux.json").write_text(json.dumps(policies(), indent=1, sort_keys=True) + "\n")
    elif kind == "platform":
        arch, source, *folders = rest
        found = libraries([Path(folder) for folder in folders])
        write(f"platform-{arch}.json.xz", {"source": source, "date": today(), "libraries": found})
    else:
        source, *named = rest
        places: dict[str, list[Path]] = {}
        for name, _, path in (word.partition("=") for word in named):
            places.setdefault(name, []).append(Path(path))
        if kind == "cuda":
            found = {name: libraries(p) | {k: v for f in p for k, v in driver(f).items()} for name, p in places.items()}
            write("cuda.json.xz", {"source": source, "date": today(), "libraries": found})
        else:
            symbols = {
                name: sorted({symbol for path in paths for names in exports(path).values() for symbol in names})
                for name, paths in places.items()
            }
            write("python.json.xz", {"source": source, "date": today(), "versions": symbols})


if __name__ == "__main__":
    main(sys.argv[1:])
