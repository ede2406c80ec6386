"""A reverse proxy before a loopback S3 that answers as a bad day would: 409, 412, 500, 503, silence, lost answers."""

from __future__ import annotations

import http.client
import threading
from collections import Counter
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import ThreadingHTTPServer
from typing import Self

from loopback import QuietHandler

_NOT_FORWARDED = {"connection", "keep-alive", "transfer-encoding", "date", "server"}
_CODES = {409: "ConditionalRequestConflict", 412: "PreconditionFailed", 500: "InternalError", 503: "SlowDown"}


@dataclass
class Faults:
    """Which request goes wrong: of every kind, each so-many-th of those that it can happen to.

    :param every: kind → period. The kinds are statuses (``409``, ``412``, ``500``, ``503``), answered without doing
        anything; and ``silence``, ``500-done``, ``silence-done`` and ``cut-done``, of which the last three have done
        what was asked. 409 and 412 befall conditional writes only.
    :param next_put: what befalls the next conditional writes, one after another.
    :param next_complete: likewise the next requests that complete an upload in parts.
    :param patience: seconds after which the client gives up waiting; silence lasts longer.
    """

    every: dict[str, int] = field(default_factory=dict)
    next_put: list[str] = field(default_factory=list)
    next_complete: list[str] = field(default_factory=list)
    patience: float = 0.0
    seen: Counter[str] = field(default_factory=Counter)
    done: Counter[str] = field(default_factory=Counter)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def next(self, request: str, *, conditional: bool) -> str | None:
        """Return what is to befall a request."""
        with self.lock:
            if conditional and self.next_put:
                return self.next_put.pop(0)
            if request.startswith("POST") and "uploadId=" in request and self.next_complete:
                return self.next_complete.pop(0)
            for kind, period in self.every.items():
                if kind in {"409", "412"} and not conditional:
                    continue
                self.seen[kind] += 1
                if self.seen[kind] % period == 0:
                    self.done[kind] += 1
                    return kind
        return None


class FlakyProxy(ThreadingHTTPServer):
    """Forwards to ``upstream``; counts the answers that came from there, and knows whose requests they were.

    While it is ``blind`` it drops preconditions, as some hosts do.
    """

    request_queue_size = 512
    daemon_threads = True

    def __init__(self, upstream: int, faults: Faults | None = None) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.upstream = upstream
        self.faults = faults or Faults()
        self.answers: Counter[str] = Counter()
        self.conflicts: Counter[str] = Counter()
        self.keys: set[str] = set()
        self.blind = False
        self.stopped = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def __enter__(self) -> Self:
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stopped.set()
        self.shutdown()
        self.server_close()

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing: a client that was killed hangs up in the middle."""


class _Handler(QuietHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # headers and content are written one after the other
    server: FlakyProxy

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        conditional = self.command == "PUT" and ("If-Match" in self.headers or "If-None-Match" in self.headers)
        fault = self.server.faults.next(f"{self.command} {self.path}", conditional=conditional) or ""
        key = (self.headers.get("Authorization") or "").partition("Credential=")[2].partition("/")[0]
        self.server.keys.add(key)
        if fault in {"409", "412", "500", "503"}:
            self._fail(int(fault))
            return
        if fault == "silence":
            self._hang_up(self.server.faults.patience * 1.5)
            return
        status, headers, data = self._forward(body)
        self.server.answers[f"{self.command} {status}"] += 1
        if status == HTTPStatus.PRECONDITION_FAILED:
            self.server.conflicts[self.path.partition("?")[0]] += 1
        if fault == "500-done":
            self._fail(500)
        elif fault == "silence-done":
            self._hang_up(self.server.faults.patience * 1.5)
        elif fault == "cut-done":
            self._hang_up(0)
        else:
            self._answer(status, headers, data)

    do_HEAD = do_PUT = do_POST = do_DELETE = do_GET

    def _forward(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.server.upstream, timeout=60)
        try:
            dropped = ("if-match", "if-none-match") if self.server.blind else ()
            headers = {name: value for name, value in self.headers.items() if name.lower() not in dropped}
            connection.request(self.command, self.path, body, headers)
            response = connection.getresponse()
            answered = [(name, value) for name, value in response.getheaders() if name.lower() not in _NOT_FORWARDED]
            return response.status, answered, response.read()
        finally:
            connection.close()

    def _fail(self, status: int) -> None:
        data = f"<?xml version='1.0'?><Error><Code>{_CODES[status]}</Code><Message>injected</Message></Error>".encode()
        self._answer(status, [("Content-Type", "application/xml")], b"" if self.command == "HEAD" else data)

    def _answer(self, status: int, headers: list[tuple[str, str]], data: bytes) -> None:
        self.send_response(status)
        for name, value in headers:
            if name.lower() != "content-length":
                self.send_header(name, value)
        # The answer to HEAD has a length, but no content.
        length = {name.lower(): value for name, value in headers}.get("content-length") if not data else len(data)
        self.send_header("Content-Length", str(length or 0))
        self.end_headers()
        self.wfile.write(data)

    def _hang_up(self, after: float) -> None:
        self.server.stopped.wait(after)
        self.close_connection = True
