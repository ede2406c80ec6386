"""Servers that do one thing wrong: a proxy before the development server that spoils what passes through it."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

from wheelsmith.index import make_server


@dataclass(frozen=True)
class Asked:
    """A request as it came: ``path`` keeps its escapes, header names are in lower case."""

    method: str
    path: str
    headers: Mapping[str, str]

    @property
    def file(self) -> bool:
        return self.path.startswith("/files/")

    @property
    def page(self) -> bool:
        return not self.file


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""


Right = Callable[[Asked], Answer]
Fault = Callable[[Asked, Right], Answer]


@contextmanager
def serving(root: Path) -> Iterator[str]:
    """Serve a folder as ``wheelsmith serve`` does."""
    server = make_server(root, "127.0.0.1", 0)
    with _running(server):
        yield f"http://127.0.0.1:{server.server_address[1]}"


@contextmanager
def spoiled(root: Path, fault: Fault, host: str = "127.0.0.1") -> Iterator[str]:
    """Serve a folder with a fault, which is handed each request and the way to the right answer."""
    with serving(root) as url:
        port = urlsplit(url).port

        def right(asked: Asked) -> Answer:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
            connection.request(asked.method, asked.path, headers=dict(asked.headers))
            response = connection.getresponse()
            headers = {name.lower(): value for name, value in response.getheaders()}
            answer = Answer(response.status, headers, response.read())
            connection.close()
            return answer

        handler = type("_Spoiled", (_Handler,), {"answer": staticmethod(lambda asked: fault(asked, right))})
        server = ThreadingHTTPServer((host, 0), handler)
        with _running(server):
            yield f"http://{host}:{server.server_address[1]}"


@contextmanager
def _running(server: ThreadingHTTPServer) -> Iterator[None]:
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self._pass_on()

    def do_HEAD(self):
        self._pass_on()

    def _pass_on(self):
        headers = {name.lower(): value for name, value in self.headers.items()}
        answer = self.answer(Asked(self.command, self.path, headers))
        self.send_response_only(answer.status)
        for name, value in answer.headers.items():
            if name not in {"content-length", "connection"}:
                self.send_header(name, value)
        length = answer.headers.get("content-length") if self.command == "HEAD" else str(len(answer.body))
        if length is not None and answer.status != 304:
            self.send_header("content-length", length)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body)

    def log_message(self, format, *args):
        pass
