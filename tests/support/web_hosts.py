"""Hosts for a published folder, as users have them: nginx, and a bucket with or without a CDN before it."""

from __future__ import annotations

import hashlib
import os
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from wrong_server import Answer, Overrides, Right, spoiled

SERVE = Path(__file__).parent.parent.parent / "docs" / "how-to" / "serve"
EDGE = Path(__file__).parent / "edge.mjs"
# As Debian's own nginx.conf has it, with every path in a folder of ours.
_NGINX = """
daemon off; worker_processes 1; pid run/pid; error_log stderr; {user}
events {{}}
http {{
    include /etc/nginx/mime.types; default_type application/octet-stream; access_log off; sendfile on; tcp_nopush on;
    client_body_temp_path run/a; proxy_temp_path run/b; fastcgi_temp_path run/c; uwsgi_temp_path run/d;
    scgi_temp_path run/e;
    include site.conf;
}}
"""


@contextmanager
def nginx(root: Path, *changes: tuple[str, str]) -> Iterator[str]:
    """Serve a folder by the documented configuration, with lines of it changed."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    site = (SERVE / "nginx.conf").read_text()
    for old, new in (("listen 80;", f"listen 127.0.0.1:{port};"), ("root /srv/wheels;", f"root {root};"), *changes):
        assert site.count(old) == 1, f"nginx.conf has {old!r} {site.count(old)} times"
        site = site.replace(old, new)
    with tempfile.TemporaryDirectory(prefix="nginx-") as folder:
        Path(folder, "run").mkdir()
        Path(folder, "site.conf").write_text(site)
        # Its workers are somebody else, who may not read what a test of root made.
        Path(folder, "nginx.conf").write_text(_NGINX.format(user="" if os.getuid() else "user root;"))
        command = ["nginx", "-p", folder, "-c", f"{folder}/nginx.conf", "-e", "stderr"]
        env = {**os.environ, "PATH": f"{os.environ.get('PATH', '')}:/usr/sbin"}
        with (Path(folder) / "log").open("w") as log, subprocess.Popen(command, stderr=log, env=env) as server:
            try:
                _wait_for(server, port, Path(folder, "log"))
                yield f"http://127.0.0.1:{port}"
            finally:
                server.terminate()


def _wait_for(server: subprocess.Popen, port: int, log: Path) -> None:
    for _ in range(500):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        if server.poll() is not None:
            break
        time.sleep(0.02)
    pytest.fail(f"nginx did not start: {log.read_text()[-1000:]}")


@contextmanager
def bucket(root: Path, *, missing: int = 404) -> Iterator[str]:
    """Serve a folder as S3's own endpoint does: keys alone, no folders, and + in a path read as a space.

    :param missing: what S3 says of a key that is not there: 404 to who may list the bucket, else 403.
    """

    def answer(asked: Overrides, right: Right) -> Answer:
        path, gone = asked.path.replace("+", "%20"), Answer(missing, {"server": "AmazonS3"}, b"<Error/>")
        if path.endswith("/"):
            return gone
        if path.startswith("/_state/"):
            return Answer(200, {"server": "AmazonS3"}, (root / path[1:]).read_bytes())
        kept = {name: value for name, value in asked.headers.items() if name == "range"}
        found = right(replace(asked, method="GET", path=path, headers=kept))
        if found.status not in {200, 206}:
            return gone
        whole = right(replace(asked, method="GET", path=path, headers={})).body
        tag = f'"{hashlib.md5(whole).hexdigest()}"'
        headers = {**found.headers, "etag": tag, "server": "AmazonS3"}
        if asked.headers.get("if-none-match") == tag:
            return Answer(304, {name: headers[name] for name in ("etag", "cache-control", "server")})
        return replace(found, headers=headers)

    with spoiled(root, answer) as url:
        yield url


@contextmanager
def edge(kind: str, origin: str) -> Iterator[str]:
    """Put ``cloudfront`` or ``cloudflare``, with the documented functions, before an origin."""
    command = ["node", str(EDGE), kind, origin, str(SERVE)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            port = server.stdout.readline().strip()
            assert port, "node did not start"
            yield f"http://127.0.0.1:{port}"
        finally:
            server.terminate()
