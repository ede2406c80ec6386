"""Judge what pages say: hashes, links, the fields of the standard, and whether HTML and JSON say the same."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from wheelsmith.frameworks import outranked
from wheelsmith.index.doctor.exchange import Exchange
from wheelsmith.index.doctor.finding import BOTH, PIP, UV, IndexFinding, Severity, finding
from wheelsmith.index.doctor.names import VARIANTS, variant_of, wheel_of
from wheelsmith.index.doctor.page import Link, Page
from wheelsmith.index.doctor.reach import readable
from wheelsmith.index.doctor.visit import PageVisit

_NEWEST = (1, 4)
_STRONG = frozenset({"sha256", "sha384", "sha512", "blake2b"})
# What uv knows; with any other it refuses the whole page.
_KNOWN = _STRONG | {"md5"}
_DIGEST = re.compile(r"[0-9a-f]{64}", re.IGNORECASE)
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?Z")
_SEVERAL = 3
# Of each minor the last release was tried; true, false and an object are all the same to them.
_OLD_KEY_PIP = "pip 22.3 to 23.1"


def judge_contents(visit: PageVisit) -> Iterator[IndexFinding]:
    """Judge the page of a project."""
    page = readable(visit.pip)
    if page is None:
        return
    yield from _judge_shape(page, visit.pip)
    yield from _judge_links(page, visit.pip)
    yield from _judge_each(page, visit.pip)
    yield from _judge_order(page, visit.pip)
    other = readable(visit.html)
    if other is not None and page.kind == "json" and other.kind == "html":
        yield from _judge_agreement(page, other, visit.html)
        yield from _judge_links(other, visit.html)
        yield from _judge_each(other, visit.html)


def _judge_each(page: Page, shown: Exchange) -> Iterator[IndexFinding]:
    """Judge every file; of a fault that many have, the first tells enough."""
    reported = set()
    for link in page.links:
        for item in (*_judge_hashes(link, shown), *_judge_fields(link, page, shown)):
            if item.rule not in reported:
                reported.add(item.rule)
                yield item


def _judge_shape(page: Page, shown: Exchange) -> Iterator[IndexFinding]:
    if page.mistyped:
        message = "JSON is not as the standard wants it, and uv refuses the page: " + ", ".join(
            page.mistyped[:_SEVERAL]
        )
        yield finding("json-shape", Severity.ERROR, message, shown, (UV,))
    if page.version is None:
        message = "pages do not say which version of the API they are"
        yield finding("api-version", Severity.ADVICE, message, shown, BOTH)
    elif (numbers := _numbers(page.version)) is None or numbers[0] != 1:
        message = f"pages say that they are version {page.version[:20]!r} of the API, which no installer knows"
        yield finding("api-version", Severity.WARNING, message, shown, BOTH)
    elif numbers > _NEWEST:
        message = f"pages say that they are version {page.version[:20]} of the API, newer than this program knows"
        yield finding("api-version", Severity.ADVICE, message, shown, BOTH)
    if page.kind == "json" and (_numbers(page.version or "") or (1, 0)) >= (1, 1):
        yield from _judge_versions(page, shown)


def _judge_versions(page: Page, shown: Exchange) -> Iterator[IndexFinding]:
    if page.versions is None:
        message = "versions is missing, which version 1.1 of the API and later must have"
        yield finding("versions", Severity.WARNING, message, shown, ("mirrors",))
        return
    there = {str(wheel[1]) for link in page.links if (wheel := wheel_of(link.filename) or variant_of(link.filename))}
    if missing := sorted(there - set(page.versions)):
        message = "versions lacks " + ", ".join(missing[:_SEVERAL])
        yield finding("versions", Severity.WARNING, message, shown, ("mirrors",))


def _judge_links(page: Page, shown: Exchange) -> Iterator[IndexFinding]:
    if page.broken:
        message = f"a link is no URL: {page.broken[0][:100]!r}; pip ends with a traceback"
        yield finding("broken-link", Severity.ERROR, message, shown, (PIP,))
    if page.strange:
        message = f"a link is neither a file nor a page: {page.strange[0][:100]!r}"
        yield finding("strange-link", Severity.WARNING, message, shown, ("browsers",))
    schemes = {link.scheme for link in page.links}
    if local := schemes - {"http", "https"}:
        message = f"files are offered at {', '.join(f'{scheme}:' for scheme in sorted(local)[:_SEVERAL])}"
        message += ", and installers look for them on their own machine" if "file" in local else ""
        yield finding("foreign-scheme", Severity.ERROR, message, shown, BOTH)
    if shown.final.startswith("https:") and "http" in schemes:
        message = "a page that came by https links to files by http"
        yield finding("mixed", Severity.WARNING, message, shown, BOTH)


def _judge_hashes(link: Link, shown: Exchange) -> Iterator[IndexFinding]:
    unknown = sorted(link.hashes.keys() - _KNOWN) if link.fragment is not None else []
    if unknown:
        message = f"files have hashes by {unknown[0][:20]!r}, which uv does not know: it refuses the page"
        yield finding("hash-unknown", Severity.ERROR, message, shown, (UV,))
    elif link.fragment and not link.hashes:
        message = "files have a hash without its algorithm's name: installers do not check it"
        yield finding("no-hash", Severity.WARNING, message, shown, BOTH)
    elif not link.hashes:
        message = "files have no hash: nobody notices a file that was changed on its way"
        yield finding("no-hash", Severity.WARNING, message, shown, BOTH)
    elif not link.hashes.keys() & _STRONG:
        message = f"files have hashes by {'/'.join(sorted(link.hashes))[:40]} alone, which anybody can forge"
        yield finding("weak-hash", Severity.WARNING, message, shown, BOTH)
    elif (digest := link.hashes.get("sha256")) is not None and not _DIGEST.fullmatch(digest):
        message = "a sha256 is not 64 hexadecimal digits"
        yield finding("hash-form", Severity.ERROR, message, shown, BOTH)


def _judge_fields(link: Link, page: Page, shown: Exchange) -> Iterator[IndexFinding]:
    wheel = link.filename.endswith(".whl")
    if wheel:
        yield from _judge_name(link, page, shown)
    if link.text not in {None, link.filename}:
        message = "the text of a link is not the name of its file, as the standard wants it"
        yield finding("link-text", Severity.ADVICE, message, shown, ("mirrors",))
    if link.requires_python and not _is_specifier(link.requires_python):
        message = f"requires-python is {link.requires_python[:40]!r}, which is none: uv passes over the file"
        yield finding("requires-python", Severity.ERROR, message, shown, (UV,))
    if wheel and not link.metadata:
        message = "pages announce no side-cars: resolving fetches from wheels what a few kB would tell"
        yield finding("no-side-car", Severity.WARNING, message, shown, BOTH)
    if link.old_key:
        message = f"JSON has the key dist-info-metadata, and {_OLD_KEY_PIP} end in a traceback on it (PEP 714)"
        yield finding("old-side-car-key", Severity.ERROR, message, shown, (_OLD_KEY_PIP,))
    if link.yanked == "" and page.kind == "json":
        message = "a file is yanked with an empty reason: pip takes it for one in good standing, uv does not"
        yield finding("empty-yank", Severity.WARNING, message, shown, BOTH)
    yield from _judge_age_and_size(link, page, shown)


def _judge_order(page: Page, shown: Exchange) -> Iterator[IndexFinding]:
    named = [wheel for link in page.links if link.yanked is None and (wheel := wheel_of(link.filename))]
    for old, by in outranked(version for _, version in named).items():
        message = f"{old}, for more than one torch, sorts below {by}: who names no torch gets an older one"
        yield finding("stable-abi-name", Severity.WARNING, message, shown, BOTH)


def _judge_name(link: Link, page: Page, shown: Exchange) -> Iterator[IndexFinding]:
    variant = variant_of(link.filename)
    named = wheel_of(link.filename) or variant
    if named is None:
        message = f"{link.filename[:100]} is no wheel's name: installers pass over it"
        yield finding("wheel-name", Severity.WARNING, message, shown, BOTH)
    elif page.name and named[0] != canonicalize_name(page.name):
        message = f"{link.filename[:100]} is of another project: installers pass over it"
        yield finding("wheel-name", Severity.WARNING, message, shown, BOTH)
    elif variant and not any(_describes(other, variant) for other in page.links):
        message = f"{link.filename[:100]} is a variant wheel, and no {VARIANTS[1:]} says of what: uv passes over it"
        yield finding("variants", Severity.WARNING, message, shown, (UV,))


def _describes(link: Link, variant: tuple[str, Version]) -> bool:
    name, separator, version = link.filename.removesuffix(VARIANTS).rpartition("-")
    if not (separator and link.filename.endswith(VARIANTS)):
        return False
    try:
        return (canonicalize_name(name), Version(version)) == variant
    except InvalidVersion:
        return False


def _judge_age_and_size(link: Link, page: Page, shown: Exchange) -> Iterator[IndexFinding]:
    if page.kind == "json" and link.size is None and not page.mistyped:
        message = "files have no size, which version 1.1 of the API and later must have"
        yield finding("no-size", Severity.WARNING, message, shown, (UV,))
    if link.upload_time is None:
        hurts = BOTH if page.kind == "json" else (UV,)
        message = "files have no upload time: uv's exclude-newer drops them"
        message += ", pip's --uploaded-prior-to fails" if page.kind == "json" else ""
        yield finding("no-upload-time", Severity.WARNING, message, shown, hurts)
    elif not _TIME.fullmatch(link.upload_time):
        fatal = page.kind == "json" and not _is_time(link.upload_time)
        message = f"an upload time is {link.upload_time[:40]!r}, not yyyy-mm-ddThh:mm:ssZ"
        message += ": installers refuse the page" if fatal else ""
        yield finding("upload-time", Severity.ERROR if fatal else Severity.ADVICE, message, shown, BOTH)


def _judge_agreement(page: Page, html: Page, shown: Exchange) -> Iterator[IndexFinding]:
    """Compare HTML with JSON, in what HTML can say."""
    ours, theirs = ({link.filename: link for link in p.links} for p in (page, html))
    if ours.keys() != theirs.keys():
        odd = min(ours.keys() ^ theirs.keys())
        message = f"HTML and JSON list other files: {odd[:100]} is on one of them only"
        yield finding("disagreement", Severity.WARNING, message, shown, ("pip before 22.2", "mirrors"))
    fields = ("url", "hashes", "requires_python", "metadata", "yanked", "size", "upload_time")
    differing = {f for name in ours.keys() & theirs.keys() for f in fields if _differ(ours[name], theirs[name], f)}
    if differing:
        message = "HTML and JSON disagree in " + ", ".join(sorted(field.replace("_", "-") for field in differing))
        yield finding("disagreement", Severity.WARNING, message, shown, ("pip before 22.2", "mirrors"))


def _differ(one: Link, other: Link, field: str) -> bool:
    first, second = getattr(one, field), getattr(other, field)
    if field in {"size", "upload_time"} and second is None:
        return False  # HTML has no standard name for these
    if field in {"hashes", "metadata"} and isinstance(first, dict) and isinstance(second, dict):
        # HTML has room for one hash.
        return any(first.get(name) != digest for name, digest in second.items()) or bool(first) != bool(second)
    return bool(first != second)


def _is_specifier(text: str) -> bool:
    try:
        SpecifierSet(text)
    except InvalidSpecifier:
        return False
    return True


def _is_time(text: str) -> bool:
    try:
        return datetime.fromisoformat(text).tzinfo is not None
    except ValueError:
        return False


def _numbers(version: str) -> tuple[int, int] | None:
    major, _, minor = version.partition(".")
    if not (major.isascii() and major.isdigit() and minor.isascii() and minor.isdigit()):
        return None
    return int(major[:9]), int(minor[:9])
