"""Facts in METADATA that an index lists. The metadata of others is read in the worker."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from packaging.markers import UndefinedComparison, UndefinedEnvironmentName
from packaging.metadata import RawMetadata, parse_email
from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion

from wheelsmith.base.json_dataclass import Record

# Where torch's wheels are installed.
_PLACES = tuple(
    {
        "extra": "",
        "implementation_name": "cpython",
        "implementation_version": f"{python}.0",
        "os_name": "posix",
        "platform_machine": arch,
        "platform_python_implementation": "CPython",
        "platform_release": "",
        "platform_system": "Linux",
        "platform_version": "",
        "python_full_version": f"{python}.0",
        "python_version": python,
        "sys_platform": "linux",
    }
    for python in ("3.9", "3.10", "3.11", "3.12", "3.13", "3.14")
    for arch in ("x86_64", "aarch64")
)


def headers_of(metadata: bytes) -> RawMetadata:
    """Return the headers of METADATA, as the packaging library names them."""
    return parse_email(metadata)[0]


def requires_torch(metadata: bytes) -> str | None:
    """Return the versions of torch that METADATA requires on Linux, e.g. ``==2.11.*``; None if it requires none.

    All lines count together, so what is returned may be narrower than what some Python is asked for, and never wider.
    """
    needs = [each for each in _requirements(metadata) if _is_torch(each) and _may_hold(each)]
    return str(SpecifierSet(",".join(str(need.specifier) for need in needs if need.specifier))) if needs else None


def requires_beside_torch(metadata: bytes) -> tuple[str, ...]:
    """Return the requirements of METADATA beside torch, in its order, without those of extras."""
    return tuple(
        str(requirement)
        for requirement in _requirements(metadata)
        if not _is_torch(requirement) and "extra ==" not in str(requirement.marker)
    )


def unreadable_requirement(metadata: bytes) -> str | None:
    """Return the first Requires-Dist of METADATA that cannot be read, if there is one."""
    return next((text for text in _texts(metadata) if _read(text) is None), None)


def _is_torch(requirement: Requirement) -> bool:
    return requirement.name.lower() == "torch"


def _may_hold(requirement: Requirement) -> bool:
    """Return True if a requirement may hold somewhere where torch's wheels are installed."""
    try:
        return requirement.marker is None or any(map(requirement.marker.evaluate, _PLACES))
    except (UndefinedComparison, UndefinedEnvironmentName, InvalidVersion, ValueError):
        return True


def _requirements(metadata: bytes) -> Iterator[Requirement]:
    return filter(None, map(_read, _texts(metadata)))


def _texts(metadata: bytes) -> list[str]:
    return headers_of(metadata).get("requires_dist", [])


def _read(text: str) -> Requirement | None:
    try:
        return Requirement(text)
    except InvalidRequirement:
        return None


# Characters that a page shows. A licence is a name, or its whole text, which no page shows.
_LINE = 300
_LICENCE, _LABEL, _LINKS = 80, 32, 6
_ADDRESS = re.compile(r"https?://[A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=%-]{1,500}")


@dataclass(frozen=True, slots=True, kw_only=True)
class About(Record):
    """What people read before they choose a wheel.

    :param links: a label and an address each, in METADATA's order.
    """

    summary: str | None = None
    license: str | None = None
    links: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        """Refuse links that a page must not have."""
        for _, address in self.links:
            check_link(address)


def about_of(metadata: bytes) -> About:
    """Return what METADATA says of its project, without what could mislead."""
    headers: Mapping[str, Any] = headers_of(metadata)
    links: dict[str, str] = {}
    for label, address in _links(headers):
        links.setdefault(address, label)
    kept = [(label, address) for address, label in links.items()]
    return About(
        summary=_line(headers.get("summary", ""), _LINE), license=_licence(headers), links=tuple(kept[:_LINKS])
    )


def check_line(text: str) -> None:
    """Refuse text that does not show in one line as it is written.

    :raises ValueError: it does not.
    """
    if _line(text, _LINE) != text:
        raise ValueError(f"{text[:100]!r} is no line of text")


def check_link(address: str) -> None:
    """Refuse an address that a page must not link to.

    :raises ValueError: it does not lead to a host on the web, or hides where it leads.
    """
    if not _is_plain(address):
        raise ValueError(f"{address[:100]!r} is no link for a page")


def _links(headers: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for label, address in (("Homepage", headers.get("home_page", "")), *headers.get("project_urls", {}).items()):
        if (name := _line(label, _LABEL)) and _is_plain(address):
            yield name, address


def _licence(headers: Mapping[str, Any]) -> str | None:
    text = headers.get("license", "")
    own = text if "\n" not in text.strip() and len(text) <= _LICENCE and text.strip().upper() != "UNKNOWN" else ""
    classified = next((item for item in headers.get("classifiers", ()) if item.startswith("License ::")), "")
    return _line(headers.get("license_expression") or own or classified.rpartition(" :: ")[2], _LICENCE)


def _is_plain(address: str) -> bool:
    try:
        parts = urlsplit(address) if _ADDRESS.fullmatch(address) else urlsplit("")
        return bool(parts.hostname) and "@" not in parts.netloc
    except ValueError:
        return False


def _line(text: str, longest: int) -> str | None:
    """Return text in one line, without characters that cannot be seen; None if nothing is left."""
    plain = "".join(map(_shown, text[: 4 * longest]))
    words = " ".join(plain.split())
    return (words if len(words) <= longest else f"{words[: longest - 1].rstrip()}…") or None


def _shown(sign: str) -> str:
    """Return a character; nothing for one that cannot be seen or that turns the direction of others."""
    return sign if sign.isprintable() else "" if unicodedata.category(sign) == "Cf" else " "
