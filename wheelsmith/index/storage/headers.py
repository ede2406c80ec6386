"""With which headers a file of an index is served: one rule, for buckets and for the development server."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath

HTML = "text/html"
SIMPLE_JSON = "application/vnd.pypi.simple.v1+json"

# Asked for again each time and answered with 304; max-age would hide a new wheel from pip and uv.
_PAGE = "no-cache"
# What lies under the hash of its content cannot change. The number is PyPI's own.
_FILE = "max-age=365000000, immutable"
_TYPES = {
    ".html": f"{HTML}; charset=utf-8",
    ".json": "application/json",
    ".metadata": "text/plain; charset=utf-8",
    ".provenance": "application/json",
    ".txt": "text/plain; charset=utf-8",
    ".svg": "image/svg+xml",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseHeaders:
    """Content-Type and Cache-Control."""

    content_type: str
    cache_control: str


def headers_of(key: str) -> ResponseHeaders:
    """Return the headers of a file; installers judge a page by its type alone.

    :param key: its path in the index, e.g. ``cpu/activation/index.json``.
    """
    top, _, rest = key.partition("/")
    name = PurePosixPath(key)
    kind = _TYPES.get(name.suffix, "application/octet-stream")
    if name.name == "index.json" and rest and not top.startswith("_") and top != "files":
        kind = SIMPLE_JSON
    return ResponseHeaders(content_type=kind, cache_control=_FILE if top == "files" else _PAGE)
