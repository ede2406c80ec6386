"""Find a pinned file on the user's indexes, by its name and hash."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urljoin

import httpx

from wheelsmith.base.deadline import TooSlowError, ended_after
from wheelsmith.base.errors import ToolchainError
from wheelsmith.model import PinnedFile
from wheelsmith.toolchain.pip_settings import PipSettings, local_folder

if TYPE_CHECKING:
    from mousebender.simple import ProjectDetails

_ACCEPT = "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.1"
_LONGEST = 120.0  # seconds for all of a page


@dataclass(frozen=True, slots=True, kw_only=True)
class Location:
    """Where a pinned file is: exactly one of a URL and a path on this machine."""

    url: str | None = None
    path: Path | None = None


def locate(pin: PinnedFile, settings: PipSettings) -> Location:
    """Return the first place that offers exactly this file.

    :raises ToolchainError: no configured index has it, or none answers.
    """
    for link in settings.find_links:
        folder = local_folder(link)
        # The hash is verified when the file is read; here its size tells it from a build of the same name.
        if folder and (path := folder / pin.filename).is_file() and path.stat().st_size == pin.size:
            return Location(path=path)
    troubles = []
    for index in settings.indexes:
        try:
            # One each: a client that an index was too slow for is closed.
            with settings.client() as client:
                found = _on_index(pin, index, client)
        except (httpx.HTTPError, OSError, ValueError, RuntimeError, TooSlowError) as error:
            troubles.append(f"{_host(index)}: {error or type(error).__name__}")
            continue
        if found:
            return found
    raise _not_found(pin, troubles)


def _on_index(pin: PinnedFile, index: str, client: httpx.Client) -> Location | None:
    base = f"{index.rstrip('/')}/{pin.project}/"
    folder = local_folder(base)
    if folder:
        page = folder / "index.html"
        if not page.is_file():
            return None
        details = _parse(page.read_text(encoding="utf-8"), "text/html", pin.project)
    else:
        with ended_after(client, _LONGEST):
            response = client.get(base, headers={"Accept": _ACCEPT})
        if response.status_code == httpx.codes.NOT_FOUND:
            return None
        response.raise_for_status()
        details = _parse(response.text, response.headers["content-type"], pin.project)
        base = str(response.url)
    for file in details["files"]:
        if file["filename"] == pin.filename and file["hashes"].get("sha256") in {pin.sha256, None}:
            url = urljoin(base, file["url"]).split("#")[0]
            local = local_folder(url)
            return Location(path=local) if local else Location(url=url)
    return None


def _parse(text: str, content_type: str, project: str) -> ProjectDetails:
    from mousebender import simple

    if "json" in content_type:
        return simple.parse_project_details(text, content_type, project)
    return simple.from_project_details_html(text, project)


def _host(index: str) -> str:
    return httpx.URL(index).host or index


def _not_found(pin: PinnedFile, troubles: list[str]) -> ToolchainError:
    if troubles:
        return ToolchainError(
            f"{pin.filename} could not be looked up ({'; '.join(troubles)})",
            remedy="check the network and pip's configuration: python3 -m pip config list",
        )
    return ToolchainError(
        f"no configured index offers {pin.filename} (sha256 {pin.sha256[:12]}…)",
        remedy="add an index that has it: PIP_EXTRA_INDEX_URL=… wheelsmith …",
    )
