"""A GitHub on this machine: branches by the Git Data API, releases and their assets, and GitHub Pages.

It watches every change: ``broken`` has each link of a page to a file that is not there, as soon as it is not.
"""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
import re
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urljoin, urlsplit

from hub_repos import RefusedError
from loopback import QuietHandler, running

OWNER = "acme/kernels"
PAGES = f"/pages/{OWNER}/"
TOKEN = "ghp_averysecrettoken"
_LINK = re.compile(r'href="([^"#]+)#sha256=([0-9a-f]{64})"')
_KINDS = {".html": "text/html; charset=utf-8", ".json": "application/json"}


def moment(before: float = 0.0) -> str:
    return datetime.fromtimestamp(time.time() - before, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def sha1(kind: str, data: bytes) -> str:
    return hashlib.sha1(f"{kind} {len(data)}\0".encode() + data).hexdigest()


@dataclass
class Asset:
    id: int
    release: int
    name: str
    data: bytes = b""
    state: str = "starter"
    created_at: str = field(default_factory=moment)

    def described(self, *, digest: bool) -> dict[str, object]:
        whole = self.state == "uploaded"
        known = f"sha256:{hashlib.sha256(self.data).hexdigest()}" if whole and digest else None
        size = len(self.data)
        shown = {"id": self.id, "name": self.name, "state": self.state, "size": size, "digest": known}
        return {**shown, "created_at": self.created_at, "updated_at": self.created_at}


@dataclass
class GitHub:
    """One repository, and every request that came.

    :param faults: what befalls every so-many-th request that changes something, by kind.
    :param once: what befalls the next requests to paths that contain a text, by that text.
    :param digests: whether the API reports hashes of assets.
    """

    faults: dict[str, int] = field(default_factory=dict)
    once: dict[str, list[str]] = field(default_factory=dict)
    digests: bool = True
    token: str = TOKEN
    protected: bool = False
    is_empty: bool = False
    page: int = 100
    happened: Counter[str] = field(default_factory=Counter)
    requests: list[str] = field(default_factory=list)
    tokens_elsewhere: list[str] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    blobs: dict[str, bytes] = field(default_factory=dict)
    trees: dict[str, dict[str, str]] = field(default_factory=dict)
    commits: dict[str, dict[str, object]] = field(default_factory=dict)
    branches: dict[str, str] = field(default_factory=dict)
    releases: dict[int, dict[str, object]] = field(default_factory=dict)
    assets: dict[int, Asset] = field(default_factory=dict)
    url: str = ""
    lock: threading.RLock = field(default_factory=threading.RLock)
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    _links: dict[str, list[tuple[str, str]]] = field(default_factory=dict)

    @property
    def environ(self) -> dict[str, str]:
        return {"GITHUB_API_URL": f"{self.url}/api", "GITHUB_SERVER_URL": self.url, "GITHUB_TOKEN": self.token}

    @property
    def elsewhere(self) -> str:
        """Return where the bytes of assets are: on another host, which must not get the token."""
        return self.url.replace("127.0.0.1", "localhost")

    @property
    def index(self) -> str:
        """Return where pip finds the pages."""
        return f"{self.url}{PAGES}"

    def files(self, branch: str = "gh-pages") -> dict[str, bytes]:
        head = self.branches.get(branch)
        tree = self.trees[self.commits[head]["tree"]] if head else {}
        return {path: self.blobs[blob] for path, blob in tree.items()}

    def names(self, tag: str | None = None) -> list[str]:
        """Return the names of all assets, or of those of a release."""
        chosen = {number for number, release in self.releases.items() if tag in {None, release["tag_name"]}}
        return sorted(asset.name for asset in self.assets.values() if asset.release in chosen)

    def add_release(self, tag: str, body: str = "") -> int:
        number = next(self.numbers)
        self.releases[number] = {"tag_name": tag, "name": tag, "body": body}
        return number

    def watch(self) -> None:
        """Note each link of a page in the branch that leads nowhere."""
        there = {
            (self.releases[asset.release]["tag_name"], asset.name): hashlib.sha256(asset.data).hexdigest()
            for asset in self.assets.values()
            if asset.state == "uploaded"
        }
        for branch, head in self.branches.items():
            tree = self.trees[self.commits[head]["tree"]]
            for path, blob in tree.items():
                if not path.endswith("index.html"):
                    continue
                if blob not in self._links:
                    self._links[blob] = _LINK.findall(self.blobs[blob].decode())
                for link, sha256 in self._links[blob]:
                    if "/releases/download/" in link:
                        tag, name = unquote(link.partition("/releases/download/")[2]).split("/")
                        if there.get((tag, name)) != sha256:
                            self.broken.append(f"{branch}/{path} names {name}")
                    elif unquote(urljoin(f"/{path}", link)).lstrip("/") not in tree:
                        self.broken.append(f"{branch}/{path} names {link}")

    def fault(self, method: str, path: str) -> str | None:
        """Return what befalls a request."""
        planned = next((kinds for text, kinds in self.once.items() if kinds and text in f"{method} {path}"), None)
        kind = planned.pop(0) if planned else None
        if kind is None and method != "GET":
            number = next(self.numbers)
            possible = [kind for kind in self.faults if kind != "starter" or "/uploads/" in path]
            kind = next((kind for kind in possible if number % self.faults[kind] == 0), None)
        if kind:
            self.happened[kind] += 1
        return kind


class Handler(QuietHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    hub: GitHub

    def do_GET(self):
        self._answer()

    do_HEAD = do_POST = do_PATCH = do_DELETE = do_GET

    def _answer(self):
        url = urlsplit(self.path)
        self.path_only = unquote(url.path)
        self.query = {key: values[0] for key, values in parse_qs(url.query).items()}
        self.hub.requests.append(f"{self.command} {self.path_only}")
        self._body_read = False
        if not self.path_only.startswith(("/api/", "/uploads/")):
            if "Authorization" in self.headers:
                self.hub.tokens_elsewhere.append(self.path_only)
            return self._serve()
        with self.hub.lock:
            fault = self.hub.fault(self.command, self.path_only)
        try:
            self._say(*self._result(fault))
        except RefusedError as refused:
            errors = [{"code": refused.code, "resource": "x"}] if refused.code else []
            headers = {"Content-Type": "application/json", **({"Retry-After": "0"} if fault in {"403", "429"} else {})}
            self.send(refused.status, json.dumps({"message": str(refused), "errors": errors}).encode(), headers)
        except ConnectionError:
            self.close_connection = True

    def _result(self, fault: str | None) -> tuple[int, object]:
        if fault in {"500", "403", "429"}:
            raise RefusedError(int(fault), "try again" if fault == "500" else "You have exceeded a rate limit")
        result = self._dispatch(fault)
        if fault == "500-done":
            raise RefusedError(500, "try again")
        if fault == "cut-done":
            raise ConnectionError
        return result

    def _say(self, status: int, plain: object):
        if isinstance(plain, bytes):
            return self.send(status, plain, {"Content-Type": "application/octet-stream"})
        if isinstance(plain, str):
            return self.send(status, b"", {"Location": plain})
        data = json.dumps(plain).encode()
        headers = {"Content-Type": "application/json", "ETag": f'"{hashlib.md5(data).hexdigest()}"'}
        if self.command == "GET" and self.headers.get("If-None-Match") == headers["ETag"]:
            return self.send(304, b"", headers)
        self.send(status, data if status != 204 else b"", headers)

    def _read(self) -> bytes:
        self._body_read = True
        if "Content-Length" not in self.headers:
            raise RefusedError(411, "Length Required")
        length = int(self.headers["Content-Length"])
        data = self.rfile.read(length)
        if len(data) != length:
            raise ConnectionError
        return data

    def _json(self) -> dict:
        return json.loads(self._read())

    def _dispatch(self, fault: str | None) -> tuple[int, object]:
        hub = self.hub
        given = self.headers.get("Authorization")
        if given and given != f"Bearer {hub.token}":
            raise RefusedError(401, "Bad credentials")
        kind, _, rest = self.path_only.strip("/").partition("/")
        parts = rest.removeprefix("repos/").split("/")
        if "/".join(parts[:2]).lower() != OWNER or (self.command != "GET" and not given):
            raise RefusedError(404, "Not Found")
        parts = parts[2:]
        if kind == "uploads":
            return self._upload(int(parts[1]), fault)
        if not parts:
            return 200, {"full_name": OWNER}
        if hub.is_empty and parts[0] == "git":
            raise RefusedError(409, "Git Repository is empty.")
        if parts[0] == "git":
            with hub.lock:
                answer = self._git(parts[1], parts[2:])
                hub.watch()
            return answer
        if parts[:2] == ["releases", "assets"]:
            return self._asset(int(parts[2]))
        with hub.lock:
            return self._release(parts[1:])

    # --- git

    def _git(self, kind: str, rest: list[str]) -> tuple[int, object]:
        hub = self.hub
        if kind in {"ref", "refs"}:
            return self._ref(rest)
        if kind == "blobs" and self.command == "GET":
            return 200, self._found(hub.blobs, rest[0])
        if kind == "trees" and self.command == "GET":
            tree = self._found(hub.trees, self._found(hub.commits, rest[0])["tree"])
            items = [
                {"path": path, "mode": "100644", "type": "blob", "sha": blob, "size": len(hub.blobs[blob])}
                for path, blob in tree.items()
            ]
            return 200, {"sha": rest[0], "tree": items, "truncated": False}
        if kind == "commits" and self.command == "GET":
            return 200, {"sha": rest[0], "tree": {"sha": self._found(hub.commits, rest[0])["tree"]}}
        plain = self._json()
        if kind == "blobs":
            return 201, {"sha": self._keep(base64.b64decode(plain["content"]))}
        if kind == "trees":
            return 201, {"sha": self._make_tree(plain)}
        oid = sha1("commit", json.dumps([plain, next(hub.numbers)]).encode())
        hub.commits[oid] = {"tree": plain["tree"], "parents": plain["parents"], "message": plain["message"]}
        return 201, {"sha": oid}

    def _found(self, known: dict, name: str):
        if name not in known:
            raise RefusedError(404, "Not Found")
        return known[name]

    def _keep(self, data: bytes) -> str:
        oid = sha1("blob", data)
        self.hub.blobs[oid] = data
        return oid

    def _make_tree(self, plain: dict) -> str:
        tree = dict(self._found(self.hub.trees, plain["base_tree"])) if "base_tree" in plain else {}
        for item in plain["tree"]:
            if "content" in item:
                tree[item["path"]] = self._keep(item["content"].encode())
            elif item["sha"] is None:
                if tree.pop(item["path"], None) is None:
                    raise RefusedError(422, "GitRPC::BadObjectState")
            else:
                tree[item["path"]] = item["sha"]
        oid = sha1("tree", json.dumps(tree, sort_keys=True).encode())
        self.hub.trees[oid] = tree
        return oid

    def _ref(self, rest: list[str]) -> tuple[int, object]:
        hub = self.hub
        if self.command == "GET":
            return 200, {"object": {"sha": self._found(hub.branches, rest[1])}}
        plain = self._json()
        if hub.protected:
            raise RefusedError(422, "Changes must be made through a pull request.")
        if self.command == "POST":
            name = plain["ref"].removeprefix("refs/heads/")
            if name in hub.branches:
                raise RefusedError(422, "Reference already exists")
        else:
            name = rest[1]
            older, now = plain["sha"], hub.branches.get(name)
            while older and older != now:
                older = next(iter(hub.commits[older]["parents"]), None)
            if older is None:
                raise RefusedError(422, "Update is not a fast forward")
        hub.branches[name] = plain["sha"]
        return 200, {"object": {"sha": plain["sha"]}}

    # --- releases

    def _described(self, number: int) -> dict[str, object]:
        upload = f"{self.hub.url}/uploads/repos/{OWNER}/releases/{number}/assets{{?name,label}}"
        return {"id": number, "upload_url": upload, "assets": [], **self.hub.releases[number]}

    def _release(self, rest: list[str]) -> tuple[int, object]:
        hub = self.hub
        if self.command == "POST":
            plain = self._json()
            if any(each["tag_name"] == plain["tag_name"] for each in hub.releases.values()):
                raise RefusedError(422, "Validation Failed", "already_exists")
            return 201, self._described(hub.add_release(plain["tag_name"], plain["body"]))
        if rest[:1] == ["tags"]:
            numbers = [number for number, each in hub.releases.items() if each["tag_name"] == rest[1]]
            if not numbers:
                raise RefusedError(404, "Not Found")
            return 200, self._described(numbers[0])
        size, page = int(self.query["per_page"]), int(self.query["page"])
        if rest[1:] == ["assets"]:
            every = [a.described(digest=hub.digests) for a in hub.assets.values() if a.release == int(rest[0])]
        else:
            every = [self._described(number) for number in hub.releases]
        return 200, every[size * (page - 1) : size * page]

    def _asset(self, number: int) -> tuple[int, object]:
        with self.hub.lock:
            self._found(self.hub.assets, number)
            if self.command == "DELETE":
                del self.hub.assets[number]
                self.hub.watch()
                return 204, {}
        return 302, f"{self.hub.elsewhere}/objects/{number}"

    def _upload(self, release: int, fault: str | None) -> tuple[int, object]:
        hub = self.hub
        name = re.sub(r"[^A-Za-z0-9._+-]", ".", self.query["name"])
        with hub.lock:
            if any(each.release == release and each.name == name for each in hub.assets.values()):
                self._read()
                raise RefusedError(422, "Validation Failed", "already_exists")
            asset = Asset(next(hub.numbers), release, name)
            hub.assets[asset.id] = asset
        try:
            data = self._read()
        except ConnectionError:
            asset.created_at = moment(3600)  # so nobody has to wait for what is not coming
            raise
        if not data:
            del hub.assets[asset.id]
            raise RefusedError(400, "Bad Content-Length")
        if fault == "starter":
            raise RefusedError(502, "Bad Gateway")
        with hub.lock:
            asset.data, asset.state = data, "uploaded"
        return 201, asset.described(digest=hub.digests)

    # --- what installers ask for

    def _serve(self):
        hub, path = self.hub, self.path_only
        if path.startswith(f"/{OWNER}/releases/download/"):
            tag, name = path.split("/")[-2:]
            for asset in list(hub.assets.values()):
                if (asset.name, hub.releases[asset.release]["tag_name"]) == (name, tag) and asset.state == "uploaded":
                    return self.send(302, b"", {"Location": f"{hub.elsewhere}/objects/{asset.id}"})
        elif path.startswith("/objects/"):
            asset = hub.assets.get(int(path.rpartition("/")[2]))
            if asset:
                return self._send_range(asset.data)
        elif path.startswith(PAGES):
            key = path.removeprefix(PAGES)
            files = hub.files()
            if (not key or key.endswith("/")) and f"{key}index.html" in files:
                key += "index.html"
            elif f"{key}/index.html" in files:
                return self.send(301, b"", {"Location": f"{path}/"})
            if key in files:
                suffix = f".{key.rpartition('.')[2]}"
                return self.send(200, files[key], {"Content-Type": _KINDS.get(suffix, "application/octet-stream")})
        self.send(404, b"Not Found", {"Content-Type": "text/plain"})

    def _send_range(self, data: bytes):
        headers = {"Content-Type": "application/octet-stream", "Accept-Ranges": "bytes"}
        asked = re.fullmatch(r"bytes=(\d*)-(\d*)", self.headers.get("Range", ""))
        if not asked:
            return self.send(200, data, headers)
        first = int(asked[1]) if asked[1] else max(0, len(data) - int(asked[2]))
        last = min(int(asked[2]) + 1, len(data)) if asked[1] and asked[2] else len(data)
        if first >= last:
            return self.send(416, b"", {"Content-Range": f"bytes */{len(data)}"})
        self.send(206, data[first:last], {**headers, "Content-Range": f"bytes {first}-{last - 1}/{len(data)}"})

    def send(self, status: int, data: bytes, headers: dict[str, str]):
        # A request is read before it is answered, so that the connection can be used again.
        if not self._body_read and int(self.headers.get("Content-Length") or 0):
            self.rfile.read(int(self.headers["Content-Length"]))
        try:
            self.send_response(status)
            for key, value in {**headers, "Content-Length": str(len(data))}.items():
                self.send_header(key, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(data)
        except OSError:
            self.close_connection = True


class Server(ThreadingHTTPServer):
    request_queue_size = 256

    def handle_error(self, *_):
        pass  # a client that was killed is no error of ours


@contextmanager
def serve_github(github: GitHub | None = None) -> Iterator[GitHub]:
    """Serve a repository for as long as the block runs."""
    github = github or GitHub()
    with running(Server(("127.0.0.1", 0), type("Handler", (Handler,), {"hub": github}))) as github.url:
        yield github
