"""A bucket as a website shows it: a folder is its index.html, and nobody needs a key."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import ThreadingHTTPServer

from loopback import QuietHandler, running

_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))
_ANYBODY = "AWS4-HMAC-SHA256 Credential=A/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=a"


@contextmanager
def served_bucket(bucket: str) -> Iterator[str]:
    """Yield the address at which a bucket is shown.

    :param bucket: its own address.
    """
    with running(ThreadingHTTPServer(("127.0.0.1", 0), type("Site", (_Site,), {"bucket": bucket}))) as url:
        yield url


def fetched(url: str) -> bytes:
    """Return what lies at an address; nothing where nothing does."""
    try:
        with _DIRECT.open(url, timeout=60) as answer:
            return bytes(answer.read())
    except urllib.error.HTTPError:
        return b""


class _Site(QuietHandler):
    bucket = ""

    def do_GET(self) -> None:
        path = f"{self.path}index.html" if self.path.endswith("/") else self.path
        # moto shows what is not public to whoever names a key, and looks no further.
        request = urllib.request.Request(f"{self.bucket}{path}", headers={"Authorization": _ANYBODY})
        try:
            with _DIRECT.open(request, timeout=60) as answer:
                data, kind = answer.read(), answer.headers["Content-Type"]
        except urllib.error.HTTPError as error:
            self.send_error(error.code)
            return
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
