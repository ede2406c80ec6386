"""Requests to GitHub's API, and the address of an index there."""

from __future__ import annotations

import os
import re
import time
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from http import HTTPStatus
from itertools import count
from typing import Any
from urllib.parse import urlsplit

import httpx

from wheelsmith.base.errors import AddressError, PackageIndexError
from wheelsmith.index.storage.compare_and_swap import backoff
from wheelsmith.model import read_wheel_name
from wheelsmith.toolchain.http import failure_reason

ATTEMPTS = 8
_SYNTAX = "write github://OWNER/REPO[@BRANCH][/FOLDER]"
_TARGET = re.compile(
    r"github://(?P<repo>[A-Za-z0-9-]+/[A-Za-z0-9._-]+)(@(?P<branch>[A-Za-z0-9._-]+))?(?P<folder>(/[A-Za-z0-9_~-]+)*)/?"
)
_BRANCH = "gh-pages"
_TIMEOUT = 120.0  # seconds without data
_LONGEST_PAUSE, _USUAL_PAUSE = 3600.0, 60.0  # seconds that a rate limit may ask for; if it names none


class UnavailableError(Exception):  # not a WheelsmithError: it never reaches users
    """GitHub failed temporarily. The message is the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GitHubTarget:
    """The repository, branch and folder of a ``github://`` target.

    :param folder: path in the branch, with a trailing slash; empty for the top.
    """

    repo: str
    branch: str
    folder: str

    @property
    def name(self) -> str:
        """Return the target as a ``github://`` address."""
        branch = "" if self.branch == _BRANCH else f"@{self.branch}"
        return f"github://{self.repo}{branch}/{self.folder}".rstrip("/")

    def tag(self, wheel: str) -> str:
        """Return the tag of the release that has a wheel: project, version, and the branch and folder if unusual."""
        name = read_wheel_name(wheel)
        place = (self.branch if self.branch != _BRANCH else "", *self.folder.split("/"))
        return "-".join((name.project, name.version.public, *filter(None, place)))


def parse_target(target: str) -> GitHubTarget:
    """Read ``github://OWNER/REPO[@BRANCH][/FOLDER]``.

    :raises AddressError: the target has another form. The message omits the target because it may contain a token.
    """
    found = _TARGET.fullmatch(target)
    if found is None or set(found["repo"].split("/")[1]) <= {"."} or "/.." in target:
        raise AddressError("the github:// target names no repository", remedy=_SYNTAX)
    folder = found["folder"].strip("/")
    return GitHubTarget(repo=found["repo"], branch=found["branch"] or _BRANCH, folder=f"{folder}/" if folder else "")


class GitHubApi:
    """Requests to GitHub, repeated after temporary failures."""

    def __init__(self, target: GitHubTarget) -> None:
        api = (os.environ.get("GITHUB_API_URL") or "https://api.github.com").rstrip("/")
        parts = urlsplit(api)
        if parts.scheme != "https" and parts.hostname not in {"127.0.0.1", "localhost", "::1"}:
            raise PackageIndexError("GITHUB_API_URL is not an https address", remedy="export GITHUB_API_URL=https://…")
        self.target = target
        self.web = os.environ.get("GITHUB_SERVER_URL") or api.removesuffix("/api/v3").replace("//api.", "//")
        self.url = f"{api}/repos/{target.repo}"
        self._token = os.environ.get("GITHUB_TOKEN") or os.environ.get("GH_TOKEN")
        headers = {"Accept": "application/vnd.github+json", "X-GitHub-Api-Version": "2022-11-28"}
        self._client = httpx.Client(headers=headers, timeout=_TIMEOUT, follow_redirects=True)
        if self._token:
            self._client.headers["Authorization"] = f"Bearer {self._token}"
        weakref.finalize(self, self._client.close)
        self._head: tuple[str, str | None] = "", None  # ETag and commit
        self._blobs: dict[str, bytes] = {}

    def send(self, method: str, path: str, *expected: int, **options: Any) -> httpx.Response:
        """Send a request until GitHub answers it with success or one of the expected statuses.

        :raises PackageIndexError: GitHub refused it, or all attempts failed.
        """
        for number in range(ATTEMPTS):
            try:
                return self.send_once(method, f"{self.url}{path}", *expected, **options)
            except UnavailableError as error:
                reason = str(error)
            backoff(number)
        raise PackageIndexError(
            f"{self.target.name} cannot be reached: {reason}", remedy="check the network, then try again"
        )

    def send_once(self, method: str, url: str, *expected: int, **options: Any) -> httpx.Response:
        """Send a request once. If a rate limit asks for a pause, wait for it.

        :raises UnavailableError: the request may be repeated.
        :raises PackageIndexError: GitHub refused the request.
        """
        try:
            response = self._client.request(method, url, **options)
        except httpx.HTTPError as error:
            raise UnavailableError(failure_reason(error)) from None
        status = response.status_code
        if response.is_success or status in expected:
            return response
        if pause := _requested_pause(response):
            time.sleep(pause)
            raise UnavailableError(f"GitHub's rate limit ({status})")
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR or status == HTTPStatus.REQUEST_TIMEOUT:
            raise UnavailableError(f"GitHub answered {status}")
        raise self.refusal(response)

    def refusal(self, response: httpx.Response) -> PackageIndexError:
        """Return the error for a request that GitHub refused."""
        name, status, details = self.target.name, response.status_code, message_of(response)
        if self._token:
            details = details.replace(self._token, "…")
        if status == HTTPStatus.UNAUTHORIZED:
            what, remedy = f"the token for {name} is not accepted", "export GITHUB_TOKEN with a valid token"
        elif status in {HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND}:
            token = "with this token" if self._token else "without a token"
            what = f"GitHub allows no such request for {name} {token} ({status})"
            remedy = "check the name, and export GITHUB_TOKEN with the permission contents: write"
        elif status == HTTPStatus.CONFLICT and "empty" in details:
            what, remedy = f"{self.target.repo} has no commit", "push a first commit, for example a README"
        else:
            what, remedy = f"GitHub refused a request for {name} ({status})", "fix the stated cause, then try again"
        return PackageIndexError(f"{what}: {details}", remedy=remedy)

    def head(self) -> str | None:
        """Return the newest commit of the branch, or None if there is no branch."""
        tag, commit = self._head
        # An answer without changes does not count towards the rate limit.
        response = self.send("GET", f"/git/ref/heads/{self.target.branch}", 304, 404, headers={"If-None-Match": tag})
        if response.status_code == HTTPStatus.NOT_MODIFIED:
            return commit
        if response.status_code == HTTPStatus.NOT_FOUND:
            self.send("GET", "")  # raises if it is the repository that is missing
            return None
        found: str = response.json()["object"]["sha"]
        self._head = response.headers.get("ETag", ""), found
        return found

    def blob(self, sha: str) -> bytes:
        """Return the content of a file in git."""
        if sha not in self._blobs:
            accept = {"Accept": "application/vnd.github.raw+json"}
            self._blobs[sha] = self.send("GET", f"/git/blobs/{sha}", headers=accept).content
        return self._blobs[sha]

    def pages(self, path: str) -> Iterator[dict[str, Any]]:
        """Yield the items of a listing of several pages."""
        for page in count(1):
            items = self.send("GET", path, params={"per_page": 100, "page": page}).json()
            yield from items
            if len(items) < 100:  # noqa: PLR2004  # as requested
                return

    def download(self, asset: int) -> bytes | None:
        """Return the content of an asset, or None if it does not exist."""
        accept = {"Accept": "application/octet-stream"}
        response = self.send("GET", f"/releases/assets/{asset}", 404, headers=accept)
        return response.content if response.is_success else None

    def delete_asset(self, asset: int) -> None:
        """Delete an asset. A missing one is not an error."""
        self.send("DELETE", f"/releases/assets/{asset}", 404)


def message_of(response: httpx.Response) -> str:
    """Return GitHub's message in a response, on one line."""
    try:
        plain = response.json()
        reasons = (each.get("message") or each.get("code") for each in plain.get("errors", ()))
        words = [plain.get("message", ""), *reasons]
    except (ValueError, AttributeError):
        words = [response.reason_phrase]
    return "".join(char if char.isprintable() else " " for char in "; ".join(filter(None, words)))[:200]


def _requested_pause(response: httpx.Response) -> float:
    """Return the seconds that a rate limit asks to wait; 0 if the response is no rate limit."""
    if response.status_code not in {HTTPStatus.FORBIDDEN, HTTPStatus.TOO_MANY_REQUESTS}:
        return 0.0
    after, headers = response.headers.get("Retry-After", ""), response.headers
    if after.isdigit():
        pause = float(after)
    elif headers.get("X-RateLimit-Remaining") == "0" and headers.get("X-RateLimit-Reset", "").isdigit():
        pause = float(headers["X-RateLimit-Reset"]) - time.time()
    elif response.status_code == HTTPStatus.TOO_MANY_REQUESTS or "rate limit" in response.text.lower():
        pause = _USUAL_PAUSE
    else:
        return 0.0
    return min(max(pause, 0.1), _LONGEST_PAUSE)
