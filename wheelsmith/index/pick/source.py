"""Where a catalogue comes from: an index on the web, or one in a folder."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit
from urllib.request import url2pathname

from packaging.utils import canonicalize_name

from wheelsmith.base.deadline import TooSlowError, ended_after
from wheelsmith.base.errors import PackageIndexError
from wheelsmith.base.files import read_bounded
from wheelsmith.base.redact import AMBIGUOUS, is_ambiguous, redact
from wheelsmith.index.entries.catalogue import Catalogue, catalogue_key, load_catalogue
from wheelsmith.index.entries.state import check_project

if TYPE_CHECKING:
    import httpx

_MOST_NAMES = 10_000  # of projects, that are compared with one
# People copy the address that they gave to pip, which is that of a root.
_ROOT = re.compile(r"/(simple|cpu|cu\d{3,})$")
_PATIENCE = 30.0  # seconds without a byte
_LONGEST = 120.0  # seconds for all of a catalogue


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A catalogue and where it was.

    :param base: the index's address with a slash at its end, without credentials.
    :param credentials: a user name and perhaps a password stood in the address.
    """

    catalogue: Catalogue
    base: str
    credentials: bool = False


def find_catalogue(name: str, index: str) -> Found:
    """Read what an index says of a project.

    :param index: a folder, or an address that begins with ``http://``, ``https://`` or ``file://``.
    :raises PackageIndexError: it cannot be read, or has no such project.
    """
    project = check_project(name)
    if is_ambiguous(index):
        raise PackageIndexError(f"{redact(index)} cannot be read: it is no address", remedy=AMBIGUOUS)
    parts = urlsplit(index)
    if parts.scheme in {"http", "https"}:
        return _from_web(project, index)
    if parts.scheme not in {"", "file"}:
        raise PackageIndexError(
            f"{redact(index)} cannot be read by installers", remedy="name a folder or an https:// address"
        )
    folder = Path(url2pathname(parts.path)) if parts.scheme else Path(index)
    for root in (folder, folder.parent):
        file = root / catalogue_key(project)
        if file.is_file():
            catalogue = _checked(load_catalogue(_bytes(file), str(file)), project, str(file))
            return Found(catalogue=catalogue, base=f"{root.resolve().as_uri()}/")
    names = [found.parent.name for root in (folder, folder.parent) for found in root.glob("projects/*/catalogue.json")]
    raise _no_project(project, index, names)


def fetch_beside(found: Found, index: str, path: str, most: int) -> bytes:
    """Return a file of an index.

    :param index: as ``find_catalogue`` was given it, with a user and a password perhaps.
    :param path: as the catalogue has it.
    :param most: bytes that it may have.
    :raises PackageIndexError: it is not there, has more, or cannot be read.
    """
    if found.base.startswith("file:"):
        file = Path(url2pathname(urlsplit(f"{found.base}{path}").path))
        try:
            return read_bounded(file, most)
        except (OSError, ValueError) as error:
            raise PackageIndexError(f"{file} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    return _fetched(f"{found.base}{path}", _credentials(index), most)


def _fetched(url: str, auth: tuple[str, str] | None, most: int) -> bytes:
    import httpx

    data = b""
    try:
        with (
            httpx.Client(follow_redirects=True, timeout=_PATIENCE, auth=auth) as client,
            ended_after(client, _LONGEST),
            client.stream("GET", url, headers={"Accept-Encoding": "identity"}) as answer,
        ):
            answer.raise_for_status()
            for chunk in answer.iter_raw():
                data += chunk
                if len(data) > most:
                    raise PackageIndexError(f"{url} has more than {most} bytes")
    except (httpx.HTTPError, httpx.InvalidURL, TooSlowError) as error:
        raise PackageIndexError(f"{url} cannot be read: {_without_address(error)}") from None
    return data


def _credentials(index: str) -> tuple[str, str] | None:
    given = urlsplit(index)
    return (given.username, given.password or "") if given.username else None


def _bytes(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise PackageIndexError(f"{file} cannot be read: {error.strerror}") from None


def _from_web(project: str, index: str) -> Found:
    import httpx

    shown = redact(index).rstrip("/")
    auth = _credentials(index)
    with httpx.Client(follow_redirects=True, timeout=_PATIENCE, auth=auth) as client:
        for base in dict.fromkeys((shown, _ROOT.sub("", shown))):
            url = f"{base}/{catalogue_key(project)}"
            try:
                with ended_after(client, _LONGEST):
                    answer = client.get(url)
                if answer.status_code == httpx.codes.NOT_FOUND:
                    continue
                answer.raise_for_status()
            except (httpx.HTTPError, httpx.InvalidURL, TooSlowError) as error:
                why, opened = _without_address(error), f"{base}/index.html"
                mistake = f"{url} cannot be read: {why}"
                raise PackageIndexError(mistake, remedy=f"does this open: {opened}") from None
            catalogue = _checked(load_catalogue(answer.content, url), project, url)
            return Found(catalogue=catalogue, base=f"{base}/", credentials=auth is not None)
        raise _no_project(project, shown, _listed(client, shown))


def _checked(catalogue: Catalogue, project: str, place: str) -> Catalogue:
    if catalogue.project != project:
        raise PackageIndexError(f"{place} is the catalogue of {catalogue.project}")
    return catalogue


def _without_address(error: Exception) -> str:
    """Return what went wrong: httpx repeats the address or a part of it, and may do so over several lines."""
    import httpx

    if isinstance(error, httpx.InvalidURL):
        return "it is no address"
    return (str(error).split(" for url ", maxsplit=1)[0].splitlines() or [type(error).__name__])[0]


def _listed(client: httpx.Client, shown: str) -> list[str]:
    """Return the projects that an index lists, for a hint; nothing where it does not say."""
    import httpx

    for base in dict.fromkeys((shown, _ROOT.sub("", shown))):
        try:
            with ended_after(client, _LONGEST):
                answer = client.get(f"{base}/simple/index.json")
            names = [item["name"] for item in answer.raise_for_status().json()["projects"]]
        except (httpx.HTTPError, httpx.InvalidURL, TooSlowError, RuntimeError, ValueError, KeyError, TypeError):
            continue
        return [name for name in names if isinstance(name, str)]
    return []


def _no_project(project: str, index: str, names: Iterable[str]) -> PackageIndexError:
    known = sorted({str(canonicalize_name(name)) for name in names})[:_MOST_NAMES]
    close = get_close_matches(project, known, n=1, cutoff=0.5)
    remedy = f"did you mean {close[0]}?" if close else _remedy(index)
    return PackageIndexError(f"{redact(index)} has no project {project}", remedy=remedy)


def _remedy(index: str) -> str:
    return f"name the address that has {redact(index).rstrip('/')}/index.html with the list of its projects"
