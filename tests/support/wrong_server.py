"""Servers that do one thing wrong: a proxy before the development server that spoils what passes through it."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from http.server import ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

from loopback import QuietHandler, running, serving

JSON = "application/vnd.pypi.simple.v1+json"


@dataclass(frozen=True)
class Overrides:
    """A request as it came: ``path`` keeps its escapes, header names are in lower case."""

    method: str
    path: str
    headers: Mapping[str, str]

    @property
    def page(self) -> bool:
        return not self.path.startswith("/files/")


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""


Right = Callable[[Overrides], Answer]
Fault = Callable[[Overrides, Right], Answer]
Change = Callable[[Answer], Answer]


@contextmanager
def spoiled(root: Path, fault: Fault, host: str = "127.0.0.1", prefix: str = "") -> Iterator[str]:
    """Serve a folder under a prefix with a fault, which is handed each request and the way to the right answer."""
    with serving(root) as url:
        port = urlsplit(url).port

        def right(asked: Overrides) -> Answer:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
            connection.request(asked.method, asked.path, headers=dict(asked.headers))
            response = connection.getresponse()
            headers = {name.lower(): value for name, value in response.getheaders()}
            answer = Answer(response.status, headers, response.read())
            connection.close()
            return answer

        def answer(asked: Overrides) -> Answer:
            inner = asked.path.removeprefix(prefix)
            given = fault(replace(asked, path=inner), right) if asked.path.startswith(prefix) else Answer(404)
            if given.headers.get("location", "").startswith("/"):
                given.headers["location"] = prefix + given.headers["location"]
            return given

        handler = type("_Spoiled", (_Handler,), {"answer": staticmethod(answer)})
        with running(ThreadingHTTPServer((host, 0), handler)) as address:
            yield f"{address}{prefix}"


@contextmanager
def dripping() -> Iterator[str]:
    """Serve a page that never ends, a byte now and then."""
    stop = threading.Event()

    class Dripping(QuietHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("content-type", "text/html")
            self.end_headers()
            while not stop.wait(0.02):
                self.wfile.write(b" ")

    server = ThreadingHTTPServer(("127.0.0.1", 0), Dripping)
    server.daemon_threads = True
    server.handle_error = lambda *asked: None  # a client that hangs up
    with running(server) as url:
        yield url
        stop.set()


class _Handler(QuietHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self):
        self._pass_on()

    def do_HEAD(self):
        self._pass_on()

    def _pass_on(self):
        headers = {name.lower(): value for name, value in self.headers.items()}
        answer = self.answer(Overrides(self.command, self.path, headers))
        self.send_response_only(answer.status)
        for name, value in answer.headers.items():
            if name not in {"content-length", "connection"}:
                self.send_header(name, value)
        length = answer.headers.get("content-length") if self.command == "HEAD" else str(len(answer.body))
        silent = self.command == "HEAD" or answer.status == 304
        if length is not None and answer.status != 304:
            self.send_header("content-length", length)
        self.end_headers()
        if not silent:
            self.wfile.write(answer.body)


# What servers do wrong.


def on_pages(change: Change) -> Fault:
    """Change pages that are there."""

    def fault(asked: Overrides, right: Right) -> Answer:
        answer = right(asked)
        return change(answer) if asked.page and answer.status == 200 else answer

    return fault


def on_files(change: Change, ending: str = ".whl") -> Fault:
    """Change wheels, or their side-cars."""

    def fault(asked: Overrides, right: Right) -> Answer:
        answer = right(asked)
        return change(answer) if asked.path.endswith(ending) and answer.status in {200, 206} else answer

    return fault


def with_header(**headers: str | None) -> Change:
    """Set headers; None removes one."""

    def change(answer: Answer) -> Answer:
        merged = {**answer.headers, **{name.replace("_", "-"): value for name, value in headers.items()}}
        return replace(answer, headers={name: value for name, value in merged.items() if value is not None})

    return change


def in_json(change: Callable[[dict], object]) -> Fault:
    """Change the data of a project's JSON; HTML goes out as it is."""

    def edit(answer: Answer) -> Answer:
        if JSON not in answer.headers["content-type"]:
            return answer
        data = json.loads(answer.body)
        if "files" in data:
            change(data)
        return replace(answer, body=json.dumps(data).encode())

    return on_pages(edit)


def html_alone(change: Callable[[str], str]) -> Fault:
    """Serve HTML to everybody, changed."""

    def fault(asked: Overrides, right: Right) -> Answer:
        if not asked.page:
            return right(asked)
        answer = right(replace(asked, headers={**asked.headers, "accept": "text/html"}))
        if answer.status != 200:
            return answer
        return with_header(vary=None)(replace(answer, body=change(answer.body.decode()).encode()))

    return fault


def with_link(anchor: str) -> Fault:
    """Put another link on the pages of projects."""

    def fault(asked: Overrides, right: Right) -> Answer:
        body = f"<body>{anchor}" if "/kernel/" in asked.path else "<body>"
        return html_alone(lambda text: text.replace("<body>", body))(asked, right)

    return fault


def instead(status: int, when: Callable[[Overrides], bool], **headers: str) -> Fault:
    """Answer with a status where ``when`` says so."""
    given = {name.replace("_", "-"): value for name, value in headers.items()}

    def fault(asked: Overrides, right: Right) -> Answer:
        return Answer(status, dict(given), b"<p>no\n") if when(asked) else right(asked)

    return fault


def for_absent(status: int, **headers: str) -> Fault:
    """Answer for projects that are not there."""

    def fault(asked: Overrides, right: Right) -> Answer:
        answer = right(asked)
        absent = asked.page and answer.status == 404 and asked.path.endswith("/") and asked.path.count("/") > 2
        return Answer(status, dict(headers), b"<p>not here") if absent else answer

    return fault


def deaf_to(header: str, when: Callable[[Overrides], bool]) -> Fault:
    """Take no notice of a header."""

    def fault(asked: Overrides, right: Right) -> Answer:
        kept = {name: value for name, value in asked.headers.items() if name != header}
        return right(replace(asked, headers=kept) if when(asked) else asked)

    return fault
