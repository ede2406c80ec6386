"""What a wheel's METADATA tells people of its project: a stranger's words, so they are cut short and cleaned."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from wheelsmith.base.json_dataclass import Record
from wheelsmith.index.entries.metadata import headers_of

# Characters; a licence in its author's words is a name, or it is the whole text, which is shown nowhere.
_SUMMARY, _LICENCE, _LABEL = 300, 80, 32
_WRITTEN = re.compile(r"https?://[A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=%-]{1,500}")
_LINKS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class About(Record):
    """What people read before they choose.

    :param links: a label and an address each, in METADATA's order.
    """

    summary: str | None = None
    license: str | None = None
    links: tuple[tuple[str, str], ...] = ()


def about_of(metadata: bytes) -> About:
    """Return what METADATA says of its project; what could mislead is left out."""
    said: Mapping[str, Any] = headers_of(metadata)
    links: dict[str, str] = {}
    for label, address in _links(said):
        links.setdefault(address, label)
    kept = [(label, address) for address, label in links.items()]
    return About(summary=_line(said.get("summary", ""), _SUMMARY), license=_licence(said), links=tuple(kept[:_LINKS]))


def check_about(about: About) -> None:
    """Refuse what ``about_of`` would not have given.

    :raises ValueError: it says what.
    """
    for text, longest in ((about.summary, _SUMMARY), (about.license, _LICENCE)):
        if text is not None and _line(text, longest) != text:
            raise ValueError(f"{text[:100]!r} is no line of text")
    for label, address in about.links:
        if _line(label, _LABEL) != label or not _is_plain(address):
            raise ValueError(f"{label[:100]!r} at {address[:100]!r} is no link for a page")
    if len(about.links) > _LINKS:
        raise ValueError(f"{len(about.links)} links are more than a page shows")


def _links(said: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for label, address in (("Homepage", said.get("home_page", "")), *said.get("project_urls", {}).items()):
        if (name := _line(label, _LABEL)) and _is_plain(address):
            yield name, address


def _licence(said: Mapping[str, Any]) -> str | None:
    words = said.get("license", "")
    own = words if "\n" not in words.strip() and len(words) <= _LICENCE and words.strip().upper() != "UNKNOWN" else ""
    classified = next((text for text in said.get("classifiers", ()) if text.startswith("License ::")), "")
    return _line(said.get("license_expression") or own or classified.rpartition(" :: ")[2], _LICENCE)


def _is_plain(address: str) -> bool:
    """Say whether an address leads where it seems to: to a host on the web, with no name and no sign that hides it."""
    try:
        parts = urlsplit(address) if _WRITTEN.fullmatch(address) else urlsplit("")
        return bool(parts.hostname) and "@" not in parts.netloc
    except ValueError:
        return False


def _line(text: str, longest: int) -> str | None:
    """Return text in one line that shows as it is written; None where nothing is left."""
    # What is cut off is not even looked at: a summary may have half a megabyte.
    plain = "".join(map(_shown, text[: 4 * longest]))
    words = " ".join(plain.split())
    return (words if len(words) <= longest else f"{words[: longest - 1].rstrip()}…") or None


def _shown(sign: str) -> str:
    """Return a character; none for one that turns the direction of others or cannot be seen."""
    return sign if sign.isprintable() else "" if unicodedata.category(sign) == "Cf" else " "
