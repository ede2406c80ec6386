"""Where the machine's own apt gets Debian's packages from: a mirror that is near, or the only one that can be reached.

The forms are those of sources.list(5): https://manpages.debian.org/bookworm/apt/sources.list.5.en.html
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

_MOST = 4  # mirrors, each of which may have to be asked
_LONGEST = 1 << 20  # bytes of a file
_LINE = re.compile(r"deb\s+(?:\[[^\]]*\]\s+)?(\S+)\s+\S+")
_FIELD = re.compile(r"(Types|URIs|Enabled):\s*(.*)", re.IGNORECASE)
# As mirrors of Debian's own archive are called; the others, and debian-security, have none of what is pinned.
_USED = re.compile(r"https?://.*/debian|file:/.*")


@cache
def debian_mirrors(root: Path = Path("/")) -> tuple[str, ...]:
    """Return the archives that apt is told of, where the machine is a Debian; none elsewhere.

    :param root: of the system whose configuration is read.
    """
    if not re.search(r'^ID="?debian"?$', _text(root / "etc/os-release"), re.MULTILINE):
        return ()
    apt = root / "etc/apt"
    files = [apt / "sources.list", *sorted(apt.glob("sources.list.d/*"))]
    found = (uri.rstrip("/") for path in files for uri in _uris(path))
    wanted = (uri for uri in found if _USED.fullmatch(uri))
    return tuple(dict.fromkeys(wanted))[:_MOST]


def _uris(path: Path) -> Iterator[str]:
    text = _text(path)
    if path.suffix == ".list":
        yield from (match[1] for line in text.splitlines() if (match := _LINE.match(line.strip())))
    elif path.suffix == ".sources":
        for paragraph in re.split(r"\n\s*\n", text):
            fields = {
                match[1].lower(): match[2].split() for match in map(_FIELD.match, paragraph.splitlines()) if match
            }
            if "deb" in fields.get("types", ()) and fields.get("enabled", ["yes"]) != ["no"]:
                yield from fields.get("uris", ())


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(_LONGEST).decode("utf-8", "replace")
    except OSError:
        return ""
