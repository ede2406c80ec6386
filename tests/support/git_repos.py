"""Git repositories to fetch from, honest ones and others, and a server for them on this machine."""

from __future__ import annotations

import base64
import hashlib
import os
import subprocess
import threading
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

from loopback import QuietHandler, running

FILE, EXECUTABLE, LINK, MODULE, FOLDER = "100644", "100755", "120000", "160000", "40000"

# Path → text, or a mode and a text or an object's name.
Files = Mapping[str, str | bytes | tuple[str, str | bytes]]

_SETTINGS = {
    "PATH": os.environ["PATH"],
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_SYSTEM": os.devnull,
    **{f"GIT_{who}_{what}": "tester" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
    **{f"GIT_{who}_DATE": "2020-01-01T00:00:00Z" for who in ("AUTHOR", "COMMITTER")},
}


def git(folder: Path, *argv: str, given: bytes = b"") -> str:
    done = subprocess.run(
        ["git", f"--git-dir={folder}", *argv], input=given, capture_output=True, check=True, env=_SETTINGS
    )
    return done.stdout.decode().strip()


@dataclass(frozen=True)
class GitRepo:
    """A bare repository."""

    path: Path

    @classmethod
    def make(cls, path: Path) -> GitRepo:
        for name in ("objects", "refs/heads"):
            (path / name).mkdir(parents=True)
        (path / "HEAD").write_text("ref: refs/heads/main\n")
        (path / "config").write_text("[core]\n\trepositoryformatversion = 0\n\tbare = true\n")
        return cls(path)

    @property
    def url(self) -> str:
        return f"file://{self.path}"

    def write(self, kind: str, data: bytes) -> str:
        """Write an object as it is given, whatever git would say of it."""
        whole = b"%s %d\0" % (kind.encode(), len(data)) + data
        name = hashlib.sha1(whole, usedforsecurity=False).hexdigest()
        path = self.path / "objects" / name[:2] / name[2:]
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(zlib.compress(whole))
        return name

    def blob(self, text: str | bytes) -> str:
        return self.write("blob", text if isinstance(text, bytes) else text.encode())

    def tree(self, *entries: tuple[str, str | bytes, str]) -> str:
        """Write a folder: mode, name and object of each thing in it."""
        return self.write(
            "tree",
            b"".join(
                b"%s %s\0%s" % (mode.encode(), os.fsencode(name), bytes.fromhex(item)) for mode, name, item in entries
            ),
        )

    def pack_of_copies(self, piece: bytes, times: int) -> str:
        """Keep a piece and what it is many times over, which takes a few bytes more; return the blob of that."""
        base = hashlib.sha1(b"blob %d\0" % len(piece) + piece, usedforsecurity=False).digest()
        # Copy from the beginning, as many bytes as three bytes say.
        copy = bytes([0x80 | 0x40 | 0x20 | 0x10]) + len(piece).to_bytes(3, "little")
        delta = _varint(len(piece)) + _varint(times * len(piece)) + copy * times
        body = _header(3, len(piece)) + zlib.compress(piece) + _header(7, len(delta)) + base + zlib.compress(delta)
        pack = b"PACK" + (2).to_bytes(4, "big") + (2).to_bytes(4, "big") + body
        pack += hashlib.sha1(pack, usedforsecurity=False).digest()
        git(self.path, "index-pack", "--stdin", given=pack)
        whole = hashlib.sha1(b"blob %d\0" % (times * len(piece)), usedforsecurity=False)
        for _ in range(times):
            whole.update(piece)
        return whole.hexdigest()

    def tree_of(self, files: Files) -> str:
        """Write folders of files."""
        here: dict[str, tuple[str, str]] = {}
        below: dict[str, dict[str, Any]] = {}
        for path, value in files.items():
            first, slash, rest = path.partition("/")
            if slash:
                below.setdefault(first, {})[rest] = value
                continue
            mode, text = value if isinstance(value, tuple) else (FILE, value)
            here[first] = (mode, text if mode in {MODULE, FOLDER} else self.blob(text))
        here |= {name: (FOLDER, self.tree_of(inner)) for name, inner in below.items()}
        # As git orders them: a folder as if its name ended with a slash.
        order = sorted(here, key=lambda name: name + "/" * (here[name][0] == FOLDER))
        return self.tree(*((here[name][0], name, here[name][1]) for name in order))

    def commit(self, files: Files, *, branch: str = "main", parent: str | None = None) -> str:
        return self.commit_tree(self.tree_of(files), branch=branch, parent=parent)

    def commit_tree(self, tree: str, *, branch: str = "main", parent: str | None = None) -> str:
        head = f"tree {tree}\n" + (f"parent {parent}\n" if parent else "")
        people = "".join(f"{who} tester <tester> 1577836800 +0000\n" for who in ("author", "committer"))
        commit = self.write("commit", f"{head}{people}\nmade by a test\n".encode())
        ref = self.path / "refs/heads" / branch
        ref.parent.mkdir(parents=True, exist_ok=True)
        ref.write_text(f"{commit}\n")
        return commit

    def tag(self, name: str, commit: str) -> None:
        git(self.path, "tag", "-a", "-m", name, name, commit)


def _header(kind: int, size: int) -> bytes:
    """Begin an object of a pack."""
    first, rest = kind << 4 | size & 15, size >> 4
    return bytes([first | 0x80]) + _varint(rest) if rest else bytes([first])


def _varint(number: int) -> bytes:
    parts = [number >> at & 0x7F for at in range(0, max(number.bit_length(), 1), 7)]
    return bytes([part | 0x80 for part in parts[:-1]] + parts[-1:])


def modules(**paths: str) -> str:
    """Write a .gitmodules: name=PATH URL."""
    lines = []
    for name, told in paths.items():
        path, _, url = told.partition(" ")
        lines.append(f'[submodule "{name}"]\n\tpath = {path}\n\turl = {url}\n')
    return "".join(lines)


@dataclass
class GitServer:
    """Repositories below a folder, through git's own http-backend.

    :param requests: every path that was asked for.
    :param password: that is asked for, where there is one.
    :param silent: a path that begins so is never answered.
    """

    root: Path
    url: str = ""
    password: str | None = None
    silent: str | None = None
    requests: list[str] = field(default_factory=list)
    closing: threading.Event = field(default_factory=threading.Event)

    def url_of(self, repo: GitRepo) -> str:
        return f"{self.url}/{repo.path.relative_to(self.root)}"


class _Handler(QuietHandler):
    server_of: GitServer

    def do_GET(self):
        self._answer()

    def do_POST(self):
        self._answer()

    def _answer(self):
        server = self.server_of
        server.requests.append(self.path)
        if server.silent and self.path.startswith(server.silent):
            server.closing.wait()
            return
        if server.password and self.headers.get("Authorization") != _basic(server.password):
            self.send_response(401)
            self.send_header("WWW-Authenticate", 'Basic realm="git"')
            self.end_headers()
            return
        path, _, query = self.path.partition("?")
        environment = _SETTINGS | {
            "GIT_PROJECT_ROOT": str(server.root),
            "GIT_HTTP_EXPORT_ALL": "1",
            "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
            "REQUEST_METHOD": self.command,
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
        }
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        done = subprocess.run(["git", "http-backend"], input=body, capture_output=True, env=environment)
        head, _, content = done.stdout.partition(b"\r\n\r\n")
        headers = dict(line.split(": ", 1) for line in head.decode().splitlines())
        self.send_response(int(headers.pop("Status", "200").split()[0]))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)


def _basic(password: str) -> str:
    return "Basic " + base64.b64encode(f"ada:{password}".encode()).decode()


@contextmanager
def serve_git(root: Path) -> Iterator[GitServer]:
    server = GitServer(root)
    listening = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"server_of": server}))
    listening.daemon_threads = True
    with running(listening) as server.url:
        try:
            yield server
        finally:
            server.closing.set()
