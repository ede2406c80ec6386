"""A Hub on this machine, as much of it as huggingface_hub asks for when it fetches a kernel.

Each folder under the root is a repo, ``org/name``. ``python loopback_hub.py FOLDER --port 8090`` serves it by hand.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

_API = re.compile(r"/api/(?P<kind>kernels|models)/(?P<repo>[^/]+/[^/]+)(?P<rest>/.*)?")
_FILE = re.compile(r"(?:/kernels)?/(?P<repo>[^/]+/[^/]+)/resolve/(?P<revision>[^/]+)/(?P<path>.+)")


@dataclass
class Repo:
    """One repo: what its files hold, and the names of its one commit."""

    files: dict[str, bytes]
    branches: tuple[str, ...] = ("main", "v1")
    kind: str = "kernels"
    token: str | None = None
    # Path → what is sent in its place, or a status.
    faults: dict[str, bytes | int] = field(default_factory=dict)

    @property
    def commit(self) -> str:
        content = json.dumps(sorted((name, hashlib.sha256(data).hexdigest()) for name, data in self.files.items()))
        return hashlib.sha1(content.encode()).hexdigest()  # as git's commits look


@dataclass
class Hub:
    """Repos by name, and every request that came."""

    repos: dict[str, Repo] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)
    tokens: list[str] = field(default_factory=list)
    down: bool = False
    endpoint: str = ""

    def add_folder(self, name: str, folder: Path) -> Repo:
        files = {
            path.relative_to(folder).as_posix(): path.read_bytes()
            for path in sorted(folder.rglob("*"))
            if path.is_file()
        }
        self.repos[name] = Repo(files=files)
        return self.repos[name]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: Hub

    def do_HEAD(self):
        self._answer()

    def do_GET(self):
        self._answer()

    def _answer(self):
        path = unquote(urlsplit(self.path).path)
        self.hub.requests.append(f"{self.command} {path}")
        self.hub.tokens.append(self.headers.get("Authorization", ""))
        if self.hub.down:
            return self._send(503, b"down")
        if match := _API.fullmatch(path):
            return self._api(match["kind"], match["repo"], match["rest"] or "")
        if match := _FILE.fullmatch(path):
            return self._file(match["repo"], match["revision"], match["path"])
        return self._send(404, b"")

    def _repo(self, name: str, kind: str | None) -> Repo | None:
        repo = self.hub.repos.get(name)
        if repo is None or (kind and repo.kind != kind):
            self._send(404, b"{}", {"X-Error-Code": "RepoNotFound"})
            return None
        if repo.token and self.headers.get("Authorization") != f"Bearer {repo.token}":
            self._send(401, b"{}", {"X-Error-Code": "RepoNotFound"})
            return None
        return repo

    def _revision(self, repo: Repo, revision: str) -> bool:
        if revision in {*repo.branches, repo.commit}:
            return True
        self._send(404, b"{}", {"X-Error-Code": "RevisionNotFound"})
        return False

    def _api(self, kind: str, name: str, rest: str):
        repo = self._repo(name, kind)
        if repo is None:
            return
        action, _, revision = rest.strip("/").partition("/")
        revision = revision.split("/")[0] or "main"
        if not self._revision(repo, revision):
            return
        if action == "tree":
            answer = [
                {"type": "file", "path": path, "size": len(data), "oid": hashlib.sha1(data).hexdigest()}
                for path, data in repo.files.items()
            ]
        else:
            siblings = [{"rfilename": path} for path in repo.files]
            answer = {"id": name, "sha": repo.commit, "private": False, "tags": [], "downloads": 0, "likes": 0}
            answer["siblings"] = siblings
        self._send(200, json.dumps(answer).encode(), {"Content-Type": "application/json"})

    def _file(self, name: str, revision: str, path: str):
        repo = self._repo(name, None)
        if repo is None or not self._revision(repo, revision):
            return None
        fault = repo.faults.get(path)
        if isinstance(fault, int):
            return self._send(fault, b"")
        data = repo.files.get(path)
        if data is None:
            return self._send(404, b"", {"X-Error-Code": "EntryNotFound"})
        headers = {
            "X-Repo-Commit": repo.commit,
            "ETag": f'"{hashlib.sha1(data).hexdigest()}"',
            "Accept-Ranges": "bytes",
        }
        self._send(200, data if fault is None else fault, headers, length=len(data))

    def _send(self, status: int, data: bytes, headers: dict[str, str] | None = None, length: int | None = None):
        self.send_response(status)
        self.send_header("Content-Length", str(len(data) if length is None else length))
        for key, value in (headers or {}).items():
            self.send_header(key, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(data)
            if length is not None and length != len(data):
                self.close_connection = True

    def log_message(self, *_):
        pass


@contextmanager
def serve(hub: Hub, port: int = 0) -> Iterator[Hub]:
    """Serve a hub for as long as the block runs."""
    server = ThreadingHTTPServer(("127.0.0.1", port), type("Handler", (_Handler,), {"hub": hub}))
    hub.endpoint = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--port", type=int, default=8090)
    options = parser.parse_args()
    hub = Hub()
    for folder in sorted(options.folder.glob("*/*")):
        hub.add_folder(f"{folder.parent.name}/{folder.name}", folder)
    with serve(hub, options.port):
        print(hub.endpoint, *hub.repos, flush=True)
        threading.Event().wait()


if __name__ == "__main__":
    main()
