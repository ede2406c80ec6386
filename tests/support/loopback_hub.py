"""A Hub on this machine, as much of it as huggingface_hub asks for when it fetches from a repo or commits to one.

Large files travel as LFS: clients must run with ``HF_HUB_DISABLE_XET=1``.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, unquote, urlencode, urlsplit

import hub_writes
from hub_repos import Commit, RefusedError, Repo, folders, git_hash, is_large, sha256, written_date
from hub_weather import Weather
from loopback import QuietHandler, running

if TYPE_CHECKING:
    import pytest

KINDS = ("models", "datasets", "spaces", "kernels")


@dataclass
class Hub:
    """Repos by name, and every request that came.

    :param trusted: organizations whose kernels are loaded without a question.
    :param silent: set, and commits are taken and never answered.
    :param page: entries in one answer to a listing.
    """

    repos: dict[str, Repo] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)
    tokens: list[str] = field(default_factory=list)
    trusted: set[str] = field(default_factory=set)
    weather: Weather = field(default_factory=Weather)
    down: bool = False
    silent: bool = False
    page: int = 1000
    endpoint: str = ""
    closing: threading.Event = field(default_factory=threading.Event)

    def add_folder(self, name: str, folder: Path) -> Repo:
        files = {
            path.relative_to(folder).as_posix(): path.read_bytes()
            for path in sorted(folder.rglob("*"))
            if path.is_file()
        }
        return self.add(name, files=files)

    def add(self, name: str, *, kind: str = "kernels", files: dict[str, bytes] | None = None, **more) -> Repo:
        self.repos[name] = Repo(first=files or {}, kind=kind, **more)
        return self.repos[name]

    def environment(self, home: Path, **more: str) -> dict[str, str]:
        """Return what a client needs in its environment: the client reads it when it is imported."""
        return {
            "HF_ENDPOINT": self.endpoint,
            "HF_HOME": str(home),
            "HF_HUB_DISABLE_XET": "1",
            **more,
        }


def use_here(monkeypatch: pytest.MonkeyPatch, endpoint: str, home: Path) -> None:
    """Let the client in this process use a Hub; one in a process of its own takes all this from the environment."""
    from huggingface_hub import constants as known

    template = known.HUGGINGFACE_CO_URL_TEMPLATE.replace(known.ENDPOINT, endpoint)
    monkeypatch.setattr(known, "HUGGINGFACE_CO_URL_TEMPLATE", template)
    monkeypatch.setattr(known, "ENDPOINT", endpoint)
    monkeypatch.setattr(known, "HF_HUB_CACHE", str(home / "hub"))
    monkeypatch.setattr(known, "HF_TOKEN_PATH", str(home / "token"))
    monkeypatch.setattr(known, "HF_HUB_DISABLE_XET", True)
    monkeypatch.delenv("HF_TOKEN", raising=False)


class Handler(QuietHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    hub: Hub

    def do_HEAD(self):
        self._answer()

    def do_GET(self):
        self._answer()

    def do_POST(self):
        self._answer()

    def do_PUT(self):
        self._answer()

    def _answer(self):
        url = urlsplit(self.path)
        self.hub.requests.append(f"{self.command} {unquote(url.path)}")
        self.hub.tokens.append(self.headers.get("Authorization", ""))
        self.query = {key: values[0] for key, values in parse_qs(url.query).items()}
        self.body = self._read_body()
        if self.body is None:
            self.close_connection = True  # the client was killed while it sent
            return
        try:
            self._dispatch([unquote(part) for part in url.path.split("/")[1:]])
        except RefusedError as refused:
            headers = {"X-Error-Code": refused.code} if refused.code else {}
            self.send(refused.status, json.dumps({"error": refused.message}).encode(), headers)

    def _dispatch(self, parts: list[str]):
        if self.hub.down:
            raise RefusedError(503, "down")
        if parts[:3] == ["api", "repos", "create"]:
            return hub_writes.create_repo(self)
        if parts[:2] == ["api", "organizations"]:
            return self.say(
                {"name": parts[2], "fullname": parts[2], "trustedKernelPublisher": parts[2] in self.hub.trusted}
            )
        if parts[0] == "lfs":
            return hub_writes.store_large(self, "/".join(parts[1:3]), parts[3], verify=parts[4:] == ["verify"])
        if parts[0] == "api" and len(parts) > 3 and parts[1] in KINDS:
            repo = self._repo("/".join(parts[2:4]), parts[1])
            return self._api(repo, "/".join(parts[2:4]), parts[4] if parts[4:] else "", parts[5:])
        kind = parts.pop(0) if parts[0] in KINDS else "models"
        if parts[2:5] == ["info", "lfs", "objects"] and parts[1].endswith(".git"):
            name = f"{parts[0]}/{parts[1].removesuffix('.git')}"
            return hub_writes.offer_uploads(self, name, self._repo(name, kind))
        if parts[2:3] == ["resolve"]:
            return self._file(self._repo("/".join(parts[:2]), kind), parts[3], "/".join(parts[4:]))
        raise RefusedError(404)

    def _repo(self, name: str, kind: str) -> Repo:
        repo = self.hub.repos.get(name)
        if repo is None or repo.kind != kind:
            raise RefusedError(404, "Repository not found", "RepoNotFound")
        if repo.token and self.headers.get("Authorization") != f"Bearer {repo.token}":
            raise RefusedError(401, "Invalid username or password.", "RepoNotFound")
        return repo

    def _api(self, repo: Repo, name: str, action: str, rest: list[str]):
        if self.command == "POST" and action != "paths-info":
            return hub_writes.change(self, repo, name, action, rest)
        if action == "refs":
            return self._refs(repo)
        commit = repo.at(rest[0] if rest else "main")
        if action == "tree":
            return self._tree(repo, commit, "/".join(rest[1:]))
        if action == "paths-info":
            paths = parse_qs(self.body.decode()).get("paths", [])
            return self.say([repo.described(commit, path) for path in paths if path in commit.files])
        if action == "commits":
            return self.say(
                [
                    {"id": c.oid, "title": c.title, "date": written_date(c.when), "authors": [], "message": ""}
                    for c in repo.history(rest[0])
                ]
            )
        return self.say(
            {
                "id": name,
                "sha": commit.oid,
                "private": False,
                "tags": [],
                "downloads": 0,
                "likes": 0,
                "siblings": [{"rfilename": path} for path in commit.files],
            }
        )

    def _refs(self, repo: Repo):
        late = self.hub.weather.lags()

        def seen(oid: str) -> str:
            return (late and repo.commits[oid].parent) or oid

        branches = [
            {"name": name, "ref": f"refs/heads/{name}", "targetCommit": seen(oid)}
            for name, oid in repo.branches.items()
        ]
        self.say({"branches": branches, "tags": [], "converts": []})

    def _tree(self, repo: Repo, commit: Commit, folder: str):
        start = f"{folder}/" if folder else ""
        paths = sorted(path for path in commit.files if path.startswith(start))
        if not paths and folder:
            raise RefusedError(404, "Entry not found", "EntryNotFound")
        inside = folders(paths) - folders([f"{start}x"])
        if self.query.get("recursive") != "true":
            paths = [path for path in paths if "/" not in path[len(start) :]]
            inside = {path for path in inside if "/" not in path[len(start) :]}
        expand = self.query.get("expand") == "true"
        page = min(self.hub.page, 50) if expand else self.hub.page
        first = int(self.query.get("cursor", 0))
        entries = [*sorted(inside), *paths][first : first + page]
        answer = [
            {"type": "directory", "path": path, "oid": git_hash(path.encode()), "size": 0}
            if path in inside
            else repo.described(commit, path, expand=expand)
            for path in entries
        ]
        headers = {}
        if first + page < len(inside) + len(paths):
            query = urlencode({**self.query, "cursor": first + page})
            headers["Link"] = f'<{self.hub.endpoint}{urlsplit(self.path).path}?{query}>; rel="next"'
        self.say(answer, headers)

    def _file(self, repo: Repo, revision: str, path: str):
        commit = repo.at(revision)
        fault = repo.faults.get(path)
        if isinstance(fault, int):
            raise RefusedError(fault)
        if self.hub.weather.unreadable():
            raise RefusedError(503, "try again")
        data = commit.files.get(path)
        if data is None:
            raise RefusedError(404, "Entry not found", "EntryNotFound")
        tag = sha256(data) if is_large(data[:512], len(data)) else git_hash(data)
        headers = {"X-Repo-Commit": commit.oid, "ETag": f'"{tag}"', "Accept-Ranges": "bytes"}
        self.send(200, data if fault is None else fault, headers, length=len(data))

    def _read_body(self) -> bytes | None:
        if self.headers.get("Transfer-Encoding") == "chunked":
            chunks = []
            while size := int(self.rfile.readline().split(b";")[0] or b"0", 16):
                chunks.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            return b"".join(chunks)
        length = int(self.headers.get("Content-Length") or 0)
        try:
            data = self.rfile.read(length)
        except OSError:
            return None
        return data if len(data) == length else None

    def say(self, answer: object, headers: dict[str, str] | None = None):
        self.send(200, json.dumps(answer).encode(), {"Content-Type": "application/json", **(headers or {})})

    def send(self, status: int, data: bytes, headers: dict[str, str] | None = None, length: int | None = None):
        try:
            self.send_response(status)
            self.send_header("Content-Length", str(len(data) if length is None else length))
            for key, value in (headers or {}).items():
                self.send_header(key, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(data)
                if length is not None and length != len(data):
                    self.close_connection = True
        except OSError:
            self.close_connection = True  # the client was killed while it waited


class Server(ThreadingHTTPServer):
    # Many clients knock at once.
    request_queue_size = 256

    def handle_error(self, *_):
        pass  # a client that was killed is no error of ours


@contextmanager
def serve(hub: Hub) -> Iterator[Hub]:
    """Serve a hub for as long as the block runs."""
    server = Server(("127.0.0.1", 0), type("Handler", (Handler,), {"hub": hub}))
    with running(server) as hub.endpoint:
        try:
            yield hub
        finally:
            hub.closing.set()
