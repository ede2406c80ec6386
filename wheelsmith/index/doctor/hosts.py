"""Which host answered, guessed from its headers, and what fixes a fault there."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib import resources
from urllib.parse import urlsplit

from wheelsmith.index.doctor.exchange import Exchange

UNKNOWN = "unknown"
# Host, a header that only it sends, how its Server header begins, how its own name ends. A CDN stands first: it decides
# more than what is behind it.
_SIGNS = (
    ("cloudfront", "x-amz-cf-id", "", ""),
    ("cloudflare", "cf-ray", "cloudflare", ""),
    ("huggingface", "x-repo-commit", "", "huggingface.co"),
    ("huggingface", "", "", ".hf.co"),
    ("github", "x-github-request-id", "github.com", ".github.io"),
    ("gcs", "x-guploader-uploadid", "uploadserver", "storage.googleapis.com"),
    ("azure", "x-ms-request-id", "windows-azure", ".core.windows.net"),
    ("s3", "x-amz-request-id", "amazons3", ".amazonaws.com"),
    ("nginx", "", "nginx", ""),
    ("wheelsmith", "", "wheelsmith", ""),
)


def host_of(exchange: Exchange) -> str:
    """Name what served an answer: ``nginx``, ``s3``, ``cloudfront``, ``gcs`` and so on."""
    headers, server, name = exchange.headers, exchange.headers.get("server", "").lower(), _host_name(exchange.final)
    for host, header, begin, end in _SIGNS:
        known = (header and header in headers) or (begin and server.startswith(begin)) or (end and name.endswith(end))
        if known:
            return "s3-website" if host == "s3" and ".s3-website" in name else host
    return UNKNOWN


def remedy(rule: str, host: str) -> str:
    """Return what fixes a fault: on that host where it is known, in general where not."""
    known = _remedies()[rule]
    return known.get(host, known["any"])


@cache
def _remedies() -> dict[str, dict[str, str]]:
    text = resources.files("wheelsmith.index.doctor").joinpath("remedies.toml").read_text("utf-8")
    return tomllib.loads(text)


def _host_name(url: str) -> str:
    try:
        return (urlsplit(url).hostname or "").lower()
    except ValueError:
        return ""
