"""moto's S3 with conditional writes that are one step, as they are in a bucket: python atomic_s3.py PORT.

moto looks at the condition and writes later, while its other threads do the same: of many who overtake each other,
several are told that they came first.
"""

from __future__ import annotations

import io
import sys
import threading
from collections.abc import Callable, Iterable
from typing import Any

import moto.server
from werkzeug.serving import run_simple

Application = Callable[[dict[str, Any], Any], Iterable[bytes]]


def one_at_a_time(application: Application) -> Application:
    """Return an application that answers a request when it has answered the one before."""
    lock = threading.Lock()

    def answer(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        # Whoever sends slowly keeps nobody waiting.
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        with lock:
            return [b"".join(application({**environ, "wsgi.input": io.BytesIO(body)}, start_response))]

    return answer


def run(host: str, port: int, application: Application, **options: Any) -> None:
    """Serve an application as ``run_simple`` does."""
    run_simple(host, port, one_at_a_time(application), **options)


if __name__ == "__main__":
    moto.server.run_simple = run
    moto.server.main(["-H", "127.0.0.1", "-p", sys.argv[1]])
