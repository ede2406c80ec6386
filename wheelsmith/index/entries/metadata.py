"""Extract the facts that an index lists from METADATA. Untrusted METADATA is read in the worker."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from packaging.markers import UndefinedComparison, UndefinedEnvironmentName
from packaging.metadata import RawMetadata, parse_email
from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion

from wheelsmith.base.json_dataclass import Record
from wheelsmith.model import ARCHES

# Marker environments for which torch has wheels.
_ENVIRONMENTS = tuple(
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
    for arch in ARCHES
)


def parse_headers(metadata: bytes) -> RawMetadata:
    """Return the headers of METADATA, with the names of the packaging library."""
    return parse_email(metadata)[0]


def required_torch(metadata: bytes) -> str | None:
    """Return the versions of torch that METADATA requires on Linux, e.g. ``==2.11.*``; None if torch is not required.

    The requirements of all environments are combined. The result may therefore be narrower than the requirement in
    one environment, but never wider.
    """
    needs = [each for each in _requirements(metadata) if _is_torch(each) and _may_apply(each)]
    return str(SpecifierSet(",".join(str(need.specifier) for need in needs if need.specifier))) if needs else None


def other_requirements(metadata: bytes) -> tuple[str, ...]:
    """Return the requirements in METADATA other than torch, in their order, without extras."""
    return tuple(
        str(requirement)
        for requirement in _requirements(metadata)
        if not _is_torch(requirement) and "extra ==" not in str(requirement.marker)
    )


def differing_requirements(files: Iterable[bytes]) -> list[str]:
    """Return the requirements that only some METADATA files have, without spaces."""
    found = [{"".join(line.split()) for line in parse_headers(each).get("requires_dist", ())} for each in files]
    return sorted(found[0].union(*found) - found[0].intersection(*found)) if found else []


def unreadable_requirement(metadata: bytes) -> str | None:
    """Return the first invalid Requires-Dist in METADATA, or None."""
    return next((text for text in _requirement_texts(metadata) if _parse_requirement(text) is None), None)


def _is_torch(requirement: Requirement) -> bool:
    return requirement.name.lower() == "torch"


def _may_apply(requirement: Requirement) -> bool:
    """Return True if the marker of a requirement may hold in an environment for which torch has wheels."""
    try:
        return requirement.marker is None or any(map(requirement.marker.evaluate, _ENVIRONMENTS))
    except (UndefinedComparison, UndefinedEnvironmentName, InvalidVersion, ValueError):
        return True


def _requirements(metadata: bytes) -> Iterator[Requirement]:
    return filter(None, map(_parse_requirement, _requirement_texts(metadata)))


def _requirement_texts(metadata: bytes) -> list[str]:
    return parse_headers(metadata).get("requires_dist", [])


def _parse_requirement(text: str) -> Requirement | None:
    try:
        return Requirement(text)
    except InvalidRequirement:
        return None


# Maximum lengths on a page, in characters. A longer licence is the text of a licence, not a name, and is not shown.
_MAX_LINE = 300
_MAX_LICENCE, _MAX_LABEL, _MAX_LINKS = 80, 32, 6
_MAX_README = 50_000
_LINK_PATTERN = re.compile(r"https?://[A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=%-]{1,500}")


@dataclass(frozen=True, slots=True, kw_only=True)
class About(Record):
    """The summary, licence and links of a project, from METADATA.

    :param links: pairs of label and URL, in METADATA's order.
    """

    summary: str | None = None
    license: str | None = None
    links: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        """Reject links that are unsafe on a page."""
        for _, address in self.links:
            check_link(address)


def read_about(metadata: bytes) -> About:
    """Return the summary, licence and links in METADATA, without invisible characters and unsafe links."""
    headers: Mapping[str, Any] = parse_headers(metadata)
    links: dict[str, str] = {}
    for label, address in _links(headers):
        links.setdefault(address, label)
    unique = [(label, address) for address, label in links.items()]
    return About(
        summary=_single_line(headers.get("summary", ""), _MAX_LINE),
        license=_licence(headers),
        links=tuple(unique[:_MAX_LINKS]),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Readme:
    """The description of a project in METADATA, usually its README.

    :param markdown: True if the text is Markdown.
    """

    text: str
    markdown: bool


def read_readme(metadata: bytes) -> Readme | None:
    """Return the description in METADATA; None if it has none. A long one is shortened."""
    headers = parse_headers(metadata)
    text = headers.get("description", "").strip("\n")
    if len(text) > _MAX_README:
        text = text[:_MAX_README].rpartition("\n")[0] + "\n\n…"
    kind = headers.get("description_content_type", "").partition(";")[0].strip().lower()
    return Readme(text=text, markdown=kind == "text/markdown") if text.strip() else None


def check_line(text: str) -> None:
    """Check that text is one visible line of at most 300 characters.

    :raises ValueError: it is not.
    """
    if _single_line(text, _MAX_LINE) != text:
        raise ValueError(f"{text[:100]!r} is not a line of visible text")


def check_link(address: str) -> None:
    """Check that a page may link to a URL.

    :raises ValueError: the URL is not http or https, or its host is hidden, e.g. by a user name.
    """
    if not is_safe_link(address):
        raise ValueError(f"{address[:100]!r} is not an allowed link")


def _links(headers: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for label, address in (("Homepage", headers.get("home_page", "")), *headers.get("project_urls", {}).items()):
        if (name := _single_line(label, _MAX_LABEL)) and is_safe_link(address):
            yield name, address


def _licence(headers: Mapping[str, Any]) -> str | None:
    text = headers.get("license", "")
    name = text if "\n" not in text.strip() and len(text) <= _MAX_LICENCE and text.strip().upper() != "UNKNOWN" else ""
    classified = next((item for item in headers.get("classifiers", ()) if item.startswith("License ::")), "")
    return _single_line(headers.get("license_expression") or name or classified.rpartition(" :: ")[2], _MAX_LICENCE)


def is_safe_link(address: str) -> bool:
    """Return True if a page may link to a URL: it is http or https, and does not hide its host."""
    try:
        parts = urlsplit(address) if _LINK_PATTERN.fullmatch(address) else urlsplit("")
        return bool(parts.hostname) and "@" not in parts.netloc
    except ValueError:
        return False


def _single_line(text: str, max_length: int) -> str | None:
    """Return text as one line without invisible characters, shortened to ``max_length``; None if nothing is left."""
    plain = remove_invisible(text[: 4 * max_length])
    words = " ".join(plain.split())
    return (words if len(words) <= max_length else f"{words[: max_length - 1].rstrip()}…") or None


def remove_invisible(text: str) -> str:
    """Remove format characters, which may reorder or hide text. Other control characters become spaces."""
    return "".join(sign if sign == "\n" else _visible_character(sign) for sign in text)


def _visible_character(sign: str) -> str:
    """Return a printable character unchanged. Format characters are removed, other invisible ones become a space."""
    return sign if sign.isprintable() else "" if unicodedata.category(sign) == "Cf" else " "
