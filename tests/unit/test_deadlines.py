"""Servers that send a byte at a time, so that no time-out of a connection ever comes."""

import socket
import threading
from contextlib import contextmanager

import httpx
import pytest

from wheelsmith.base.deadline import TooSlowError, deadline, require_progress
from wheelsmith.base.errors import PackageIndexError, ToolchainError
from wheelsmith.index.pick.source import find_catalogue
from wheelsmith.model import PinnedFile
from wheelsmith.toolchain.package_index import locate
from wheelsmith.toolchain.pip import PipSettings, run_pip

PIN = PinnedFile(project="p", version="1", filename="p-1-py3-none-any.whl", size=1, sha256="0" * 64)


@contextmanager
def dripping(first):
    """Serve an answer that begins at once and never ends."""
    ended = threading.Event()

    def drip(connection):
        with connection:
            try:
                connection.recv(65536)
                connection.sendall(first)
                while not ended.wait(0.02):
                    connection.sendall(b"x")
            except OSError:
                return

    def accept():
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            threading.Thread(target=drip, args=(connection,), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=accept, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.getsockname()[1]}"
        finally:
            ended.set()
            server.shutdown(socket.SHUT_RDWR)


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nX-Long: "
BODY = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 100000\r\n\r\n"
pytestmark = pytest.mark.parametrize("first", [HEAD, BODY], ids=["headers", "body"])


def test_a_request_has_an_end(first):
    with (
        dripping(first) as url,
        httpx.Client(timeout=30) as client,
        pytest.raises(TooSlowError, match=r"longer than 0\.2s"),
        deadline(client, 0.2),
    ):
        client.get(url)


def test_pick_does_not_wait_for_ever(first, monkeypatch):
    monkeypatch.setattr("wheelsmith.index.pick.source._MAX_SECONDS", 0.2)
    with dripping(first) as url, pytest.raises(PackageIndexError, match="took longer"):
        find_catalogue("p", url)


def test_toolchains_are_sought_on_the_next_index(first, monkeypatch):
    monkeypatch.setattr("wheelsmith.toolchain.package_index._PAGE_TIMEOUT", 0.2)
    with dripping(first) as url, dripping(first) as other:
        settings = PipSettings(
            indexes=(url, other),
            find_links=(),
            cert=None,
            client_cert=None,
            proxy=None,
            trusted_hosts=(),
            timeout=30,
        )
        with pytest.raises(ToolchainError) as caught:
            locate(PIN, settings)
    assert caught.value.message.count("took longer") == 2


def test_a_download_that_stands_still_ends(first):
    told = pytest.raises(TooSlowError, match=r"only \d+ B arrived")
    with dripping(BODY) as url, httpx.Client() as client, client.stream("GET", url) as response, told:
        list(require_progress(response.iter_bytes(), window=0.2))
    del first


def test_pip_has_an_end_too(first):
    with dripping(first) as url, pytest.raises(ToolchainError, match="pip download took longer than 2s"):
        run_pip("download", "--no-deps", "--index-url", url, "p", seconds=2)
