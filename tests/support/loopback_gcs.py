"""A loopback Google Cloud Storage: as much of its XML API as an index needs, with a generation for every write.

https://docs.cloud.google.com/storage/docs/xml-api/overview
"""

from __future__ import annotations

import hashlib
import itertools
import threading
from email.utils import formatdate
from http.server import ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

from loopback import QuietHandler

BUCKET = "wheels"


class LoopbackGcs(ThreadingHTTPServer):
    """Objects by path, in memory: content, headers, generation."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.objects: dict[str, tuple[bytes, dict[str, str], int, str]] = {}
        self.uploads: dict[str, dict[int, bytes]] = {}
        self.kept: dict[str, dict[str, str]] = {}
        self.numbers = itertools.count(1)
        self.lock = threading.Lock()

    @property
    def environ(self) -> dict[str, str]:
        return {"GOOGLE_BASE_URL": f"http://127.0.0.1:{self.server_address[1]}", "GOOGLE_BEARER_TOKEN": "of-nobody"}


class _Handler(QuietHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # headers and content are written one after the other
    server: LoopbackGcs

    def do_GET(self) -> None:
        bucket, key, query = self._target()
        if bucket != BUCKET:
            self._fail(404, "NoSuchBucket")
        elif not key:
            self._list(query.get("prefix", [""])[0])
        elif key not in self.server.objects:
            self._fail(404, "NoSuchKey")
        else:
            data, headers, generation, modified = self.server.objects[key]
            self._answer(200, data, {**headers, **_identity(data, generation), "Last-Modified": modified})

    do_HEAD = do_GET

    def do_PUT(self) -> None:
        bucket, key, query = self._target()
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if bucket != BUCKET:
            self._fail(404, "NoSuchBucket")
        elif "uploadId" in query:
            self.server.uploads[query["uploadId"][0]][int(query["partNumber"][0])] = body
            self._answer(200, b"", {"ETag": f'"{hashlib.md5(body).hexdigest()}"'})
        else:
            self._write(key, body, self._metadata())

    def do_POST(self) -> None:
        _, key, query = self._target()
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if "uploads" in query:
            name = str(next(self.server.numbers))
            self.server.uploads[name], self.server.kept[name] = {}, self._metadata()
            text = f"<InitiateMultipartUploadResult><UploadId>{name}</UploadId></InitiateMultipartUploadResult>"
            self._answer(200, text.encode(), {})
        else:
            name = query["uploadId"][0]
            parts = self.server.uploads.pop(name)
            self._write(key, b"".join(parts[number] for number in sorted(parts)), self.server.kept[name])

    def do_DELETE(self) -> None:
        _, key, query = self._target()
        if "uploadId" in query:
            self.server.uploads.pop(query["uploadId"][0], None)
            self._answer(204, b"", {})
        elif self.server.objects.pop(key, None) is None:
            self._fail(404, "NoSuchKey")
        else:
            self._answer(204, b"", {})

    def _target(self) -> tuple[str, str, dict[str, list[str]]]:
        parts = urlsplit(self.path)
        bucket, _, key = parts.path.lstrip("/").partition("/")
        return bucket, unquote(key), parse_qs(parts.query, keep_blank_values=True)

    def _metadata(self) -> dict[str, str]:
        return {name: self.headers[name] for name in ("Content-Type", "Cache-Control") if name in self.headers}

    def _write(self, key: str, data: bytes, headers: dict[str, str]) -> None:
        wanted = self.headers.get("x-goog-if-generation-match")
        with self.server.lock:
            now = self.server.objects[key][2] if key in self.server.objects else 0
            if wanted is not None and int(wanted) != now:
                self._fail(412, "PreconditionFailed")
                return
            generation = next(self.server.numbers)
            self.server.objects[key] = (data, headers, generation, formatdate(usegmt=True))
        text = f"<CompleteMultipartUploadResult><ETag>{generation}</ETag></CompleteMultipartUploadResult>"
        self._answer(200, text.encode(), _identity(data, generation))

    def _list(self, prefix: str) -> None:
        found = "".join(
            f"<Contents><Key>{escape(key)}</Key><Size>{len(data)}</Size><ETag>{generation}</ETag>"
            "<LastModified>2026-01-02T03:04:05.000Z</LastModified></Contents>"
            for key, (data, _, generation, _) in sorted(self.server.objects.items())
            if key.startswith(prefix)
        )
        text = f"<ListBucketResult><Prefix>{escape(prefix)}</Prefix>{found}</ListBucketResult>"
        self._answer(200, text.encode(), {"Content-Type": "application/xml"})

    def _fail(self, status: int, code: str) -> None:
        self._answer(status, f"<Error><Code>{code}</Code></Error>".encode(), {"Content-Type": "application/xml"})

    def _answer(self, status: int, data: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)


def _identity(data: bytes, generation: int) -> dict[str, str]:
    return {"ETag": f'"{hashlib.md5(data).hexdigest()}"', "x-goog-generation": str(generation)}
