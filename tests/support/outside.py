"""The places outside that installers are sent to, on this machine: commands that name them run as they are written.

A proxy takes every https connection to download.pytorch.org and pypi.org and hands it to a server with a certificate of
the tests' own.
"""

from __future__ import annotations

import os
import select
import socket
import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import trustme

from wheelsmith.index.storage.serve import make_server


@contextmanager
def outside(roots: Mapping[str, Path], folder: Path) -> Iterator[dict[str, str]]:
    """Serve folders as hosts; gives the environment in which programs find them there.

    :param roots: host → the folder that it serves.
    """
    authority = trustme.CA()
    bundle = folder / "authority.pem"
    authority.cert_pem.write_to_path(bundle)
    servers = {host: _secure(root, authority.issue_cert(host)) for host, root in roots.items()}
    ports = {host: server.server_address[1] for host, server in servers.items()}
    proxy = ThreadingHTTPServer(("127.0.0.1", 0), type("Proxy", (_Proxy,), {"ports": ports}))
    everyone = [*servers.values(), proxy]
    for server in everyone:
        threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{proxy.server_address[1]}"
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PIP_", "UV_", "WHEELSMITH_"))}
    try:
        yield {
            **kept,
            **dict.fromkeys(("HTTPS_PROXY", "https_proxy"), address),
            **dict.fromkeys(("NO_PROXY", "no_proxy"), "127.0.0.1,localhost"),
            **dict.fromkeys(("SSL_CERT_FILE", "PIP_CERT", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"), str(bundle)),
            "PIP_CONFIG_FILE": os.devnull,
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "PIP_CACHE_DIR": str(folder / "pip"),
            "UV_NO_CONFIG": "1",
            "UV_CACHE_DIR": str(folder / "uv"),
            "UV_PYTHON_DOWNLOADS": "never",
        }
    finally:
        for server in everyone:
            server.shutdown()
            server.server_close()


def _secure(root: Path, certificate: trustme.LeafCert) -> ThreadingHTTPServer:
    server = make_server(root, "127.0.0.1", 0)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate.configure_cert(context)
    # The handshake is left to the thread of each request.
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    return server


class _Proxy(BaseHTTPRequestHandler):
    ports: Mapping[str, int] = {}

    def do_CONNECT(self) -> None:
        port = self.ports.get(self.path.partition(":")[0])
        if port is None:
            self.send_error(502)
            return
        with socket.create_connection(("127.0.0.1", port)) as server:
            self.send_response(200)
            self.end_headers()
            pair = [self.connection, server]
            while ready := select.select(pair, [], [], 60)[0]:
                for one in ready:
                    try:
                        data = one.recv(65536)
                    except ConnectionResetError:
                        return
                    if not data:
                        return
                    pair[1 - pair.index(one)].sendall(data)

    def log_message(self, *words) -> None:
        pass
