"""A development server for an index in a folder: one URL gives HTML or JSON, as the client asks."""

from __future__ import annotations

import hashlib
import re
import shutil
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar
from urllib.parse import unquote, urlsplit

_HTML = "text/html"
_V1_HTML = "application/vnd.pypi.simple.v1+html"
_V1_JSON = "application/vnd.pypi.simple.v1+json"
_LATEST = {
    "application/vnd.pypi.simple.latest+html": _V1_HTML,
    "application/vnd.pypi.simple.latest+json": _V1_JSON,
}
# The first is what a client gets that has no preference.
_OFFERED = (_HTML, _V1_HTML, _V1_JSON)
_RANGE = re.compile(r"bytes=(\d*)-(\d*)")


def make_server(root: Path, host: str, port: int) -> ThreadingHTTPServer:
    """Make a server for the index under ``root``; port 0 takes a free one.

    :raises OSError: the port is taken.
    """
    handler = type("_IndexHandler", (_Handler,), {"root": root.resolve()})
    return ThreadingHTTPServer((host, port), handler)


def negotiate(accept: str) -> str | None:
    """Give the content type for an Accept header, or None when none of ours will do (RFC 9110 §12.5.1)."""
    if not accept.strip():
        return _HTML
    weights: dict[str, float] = {}
    for part in accept.split(","):
        media, *parameters = (piece.strip() for piece in part.split(";"))
        quality = next((p[2:] for p in parameters if p.startswith("q=")), "1")
        try:
            weights[_LATEST.get(media, media)] = float(quality)
        except ValueError:
            continue
    best = max(_OFFERED, key=lambda offered: _weight(offered, weights))
    return best if _weight(best, weights) > 0 else None


def _weight(offered: str, weights: dict[str, float]) -> float:
    for pattern in (offered, offered.split("/", maxsplit=1)[0] + "/*", "*/*"):
        if pattern in weights:
            return weights[pattern]
    return 0.0


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Head and body are two writes; with the algorithm the second waits 40 ms for the first to be acknowledged.
    disable_nagle_algorithm = True
    server_version = "wheelsmith"
    root: ClassVar[Path]

    def do_GET(self) -> None:  # http.server's name
        self._answer()

    def do_HEAD(self) -> None:  # http.server's name
        self._answer()

    def _answer(self) -> None:
        path = unquote(urlsplit(self.path).path)
        target = (self.root / path.lstrip("/")).resolve()
        hidden = any(part.startswith(("_", ".")) for part in Path(path).parts[1:2])
        if not target.is_relative_to(self.root) or hidden:
            self._error(HTTPStatus.NOT_FOUND)
        elif target.is_dir() and (target / "index.html").is_file():
            if path.endswith("/"):
                self._page(target)
            else:
                self._redirect(urlsplit(self.path).path + "/")
        elif target.is_file():
            self._file(target)
        else:
            self._error(HTTPStatus.NOT_FOUND)

    def _page(self, folder: Path) -> None:
        kind = negotiate(self.headers.get("Accept", ""))
        if kind is None:
            self._error(HTTPStatus.NOT_ACCEPTABLE)
            return
        data = (folder / ("index.json" if kind == _V1_JSON else "index.html")).read_bytes()
        etag = f'"{hashlib.sha256(data).hexdigest()[:32]}"'
        # no-cache asks again each time and is answered with 304; max-age would hide a new wheel.
        headers = {"Cache-Control": "no-cache", "ETag": etag, "Vary": "Accept"}
        if self.headers.get("If-None-Match") == etag:
            self._head(HTTPStatus.NOT_MODIFIED, headers)
            return
        charset = "; charset=utf-8" if kind != _V1_JSON else ""
        self._head(HTTPStatus.OK, {**headers, "Content-Type": kind + charset, "Content-Length": str(len(data))})
        if self.command == "GET":
            self.wfile.write(data)

    def _file(self, path: Path) -> None:
        size = path.stat().st_size
        kind = {".json": _V1_JSON, ".html": _HTML}.get(path.suffix, "application/octet-stream")
        headers = {"Content-Type": kind, "Accept-Ranges": "bytes", "Cache-Control": "no-cache"}
        if path.is_relative_to(self.root / "files"):
            headers["Cache-Control"] = "max-age=365000000, immutable"
        span = self._span(size)
        if span is None:
            self._head(HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE, {"Content-Range": f"bytes */{size}"})
            return
        start, end = span
        status = HTTPStatus.OK
        if end - start != size:
            status = HTTPStatus.PARTIAL_CONTENT
            headers["Content-Range"] = f"bytes {start}-{end - 1}/{size}"
        self._head(status, {**headers, "Content-Length": str(end - start)})
        if self.command == "GET":
            with path.open("rb") as file:
                file.seek(start)
                if status is HTTPStatus.OK:
                    shutil.copyfileobj(file, self.wfile)
                else:
                    self.wfile.write(file.read(end - start))

    def _span(self, size: int) -> tuple[int, int] | None:
        """Give the bytes asked for, end exclusive; None when there are none such."""
        match = _RANGE.fullmatch(self.headers.get("Range", ""))
        if not match or not (match[1] or match[2]):
            return 0, size
        start = int(match[1]) if match[1] else max(0, size - int(match[2]))
        end = min(int(match[2]) + 1, size) if match[1] and match[2] else size
        return (start, end) if start < end else None

    def _redirect(self, location: str) -> None:
        self._head(HTTPStatus.MOVED_PERMANENTLY, {"Location": location, "Content-Length": "0"})

    def _error(self, status: HTTPStatus) -> None:
        data = f"{status.value} {status.phrase}\n".encode()
        self._head(status, {"Content-Type": "text/plain", "Content-Length": str(len(data))})
        if self.command == "GET":
            self.wfile.write(data)

    def _head(self, status: HTTPStatus, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if status in {HTTPStatus.NOT_MODIFIED, HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE}:
            self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # http.server's name
        """Say nothing: who serves reads the client's output."""
