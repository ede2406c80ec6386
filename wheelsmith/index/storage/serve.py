"""A development server for an index in a folder. The Accept header selects HTML or JSON."""

from __future__ import annotations

import hashlib
import re
import shutil
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar
from urllib.parse import unquote, urlsplit

from wheelsmith.index.storage.protocol import HTML, SIMPLE_JSON, ResponseHeaders, response_headers

_V1_HTML = "application/vnd.pypi.simple.v1+html"
_LATEST = {
    "application/vnd.pypi.simple.latest+html": _V1_HTML,
    "application/vnd.pypi.simple.latest+json": SIMPLE_JSON,
}
# The first is the default for clients without a preference.
_OFFERED = (HTML, _V1_HTML, SIMPLE_JSON)
_RANGE = re.compile(r"bytes=(\d*)-(\d*)")


def make_server(root: Path, host: str, port: int) -> ThreadingHTTPServer:
    """Create a server for the index in ``root``.

    :param port: TCP port; 0 selects a free one.
    :raises OSError: the port is in use.
    """
    handler = type("_IndexHandler", (_Handler,), {"root": root.resolve()})
    return ThreadingHTTPServer((host, port), handler)


def negotiate(accept: str) -> str | None:
    """Return the content type for an Accept header, or None if no offered type is acceptable (RFC 9110 §12.5.1)."""
    if not accept.strip():
        return HTML
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
    # Head and body are two writes. With Nagle's algorithm the second waits 40 ms for the acknowledgement of the first.
    disable_nagle_algorithm = True
    server_version = "wheelsmith"
    root: ClassVar[Path]

    def do_GET(self) -> None:  # http.server's name
        self._respond()

    def do_HEAD(self) -> None:  # http.server's name
        self._respond()

    def _respond(self) -> None:
        path = unquote(urlsplit(self.path).path)
        target = self._resolve(path)
        if target is None:
            self._send_error(HTTPStatus.NOT_FOUND)
        elif target.is_dir() and (target / "index.html").is_file():
            if path.endswith("/"):
                self._send_page(target)
            else:
                self._send_redirect(urlsplit(self.path).path + "/")
        elif target.is_file():
            self._send_file(target)
        else:
            self._send_error(HTTPStatus.NOT_FOUND)

    def _resolve(self, path: str) -> Path | None:
        """Return the file or folder of a URL path, or None if it is missing, outside the index, or private."""
        try:
            target = (self.root / path.lstrip("/")).resolve(strict=True)
            place = target.relative_to(self.root)
        except (OSError, ValueError):
            return None
        return None if place.parts and place.parts[0].startswith(("_", ".")) else target

    def _send_page(self, folder: Path) -> None:
        # A page for people has no JSON form, so it is HTML for every client.
        kind = negotiate(self.headers.get("Accept", "")) if (folder / "index.json").is_file() else HTML
        if kind is None:
            self._send_error(HTTPStatus.NOT_ACCEPTABLE)
            return
        page = folder / ("index.json" if kind == SIMPLE_JSON else "index.html")
        data = page.read_bytes()
        etag = f'"{hashlib.sha256(data).hexdigest()[:32]}"'
        headers = {"Cache-Control": self._stored_headers(page).cache_control, "ETag": etag, "Vary": "Accept"}
        known = self.headers.get("If-None-Match", "").split(",")
        if any(tag.strip().removeprefix("W/") in {etag, "*"} for tag in known):
            self._send_head(HTTPStatus.NOT_MODIFIED, headers)
            return
        charset = "; charset=utf-8" if kind != SIMPLE_JSON else ""
        self._send_head(HTTPStatus.OK, {**headers, "Content-Type": kind + charset, "Content-Length": str(len(data))})
        if self.command == "GET":
            self.wfile.write(data)

    def _send_file(self, path: Path) -> None:
        size = path.stat().st_size
        stored = self._stored_headers(path)
        headers = {"Content-Type": stored.content_type, "Accept-Ranges": "bytes", "Cache-Control": stored.cache_control}
        span = self._requested_range(size)
        start, end = span or (0, size)
        if span and start >= end:
            unsatisfiable = {"Content-Range": f"bytes */{size}", "Content-Length": "0"}
            self._send_head(HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE, unsatisfiable)
            return
        status = HTTPStatus.OK
        if span:
            status = HTTPStatus.PARTIAL_CONTENT
            headers["Content-Range"] = f"bytes {start}-{end - 1}/{size}"
        self._send_head(status, {**headers, "Content-Length": str(end - start)})
        if self.command == "GET":
            with path.open("rb") as file:
                file.seek(start)
                if status is HTTPStatus.OK:
                    shutil.copyfileobj(file, self.wfile)
                else:
                    self.wfile.write(file.read(end - start))

    def _stored_headers(self, path: Path) -> ResponseHeaders:
        return response_headers(path.relative_to(self.root).as_posix())

    def _requested_range(self, size: int) -> tuple[int, int] | None:
        """Return the requested byte range, or None if the request has no valid Range header.

        :return: start and exclusive end. The end may be before the start.
        """
        match = _RANGE.fullmatch(self.headers.get("Range", ""))
        if not match or not (match[1] or match[2]):
            return None
        start = int(match[1]) if match[1] else max(0, size - int(match[2]))
        end = min(int(match[2]) + 1, size) if match[1] and match[2] else size
        return start, end

    def _send_redirect(self, location: str) -> None:
        self._send_head(HTTPStatus.MOVED_PERMANENTLY, {"Location": location, "Content-Length": "0"})

    def _send_error(self, status: HTTPStatus) -> None:
        data = f"{status.value} {status.phrase}\n".encode()
        self._send_head(status, {"Content-Type": "text/plain", "Content-Length": str(len(data))})
        if self.command == "GET":
            self.wfile.write(data)

    def _send_head(self, status: HTTPStatus, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # http.server's name
        """Do not log requests."""
