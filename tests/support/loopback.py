"""HTTP servers on this machine, each in threads of its own."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from wheelsmith.index.storage.serve import make_server


class QuietHandler(BaseHTTPRequestHandler):
    """A handler that logs nothing."""

    def log_message(self, *args: object) -> None:
        """Say nothing."""


class QuietFiles(QuietHandler, SimpleHTTPRequestHandler):
    """Serves a folder as any server of files does."""


@contextmanager
def running(server: ThreadingHTTPServer) -> Iterator[str]:
    """Let a server answer until the block ends; gives its address, without a slash."""
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield f"http://{server.server_address[0]}:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def serving(root: Path) -> Iterator[str]:
    """Serve a folder as ``wheelsmith serve`` does."""
    server = make_server(root, "127.0.0.1", 0)
    told = server.handle_error

    def handle_error(*asked: object) -> None:
        # A client that hangs up is no mistake of the server's.
        if not isinstance(sys.exception(), ConnectionError):
            told(*asked)

    server.handle_error = handle_error
    with running(server) as url:
        yield url


@contextmanager
def serving_files(root: Path) -> Iterator[str]:
    """Serve a folder as any server of files does, with HTML alone."""
    with running(ThreadingHTTPServer(("127.0.0.1", 0), partial(QuietFiles, directory=root))) as url:
        yield url
