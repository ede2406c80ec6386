"""A page of a package index that somebody else writes: it is read within bounds, and no file of this machine for it."""

import gzip
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from loopback import running
from wrong_server import JSON

from wheelsmith.base.errors import ToolchainError
from wheelsmith.toolchain import package_index
from wheelsmith.toolchain.package_index import Location, list_files
from wheelsmith.toolchain.pip import PipSettings

SETTINGS = PipSettings(
    indexes=(), find_links=(), cert=None, client_cert=None, proxy=None, trusted_hosts=(), timeout=20.0
)


def page(*urls):
    files = [{"filename": "thing-1.0.tar.gz", "url": url, "hashes": {}} for url in urls]
    return json.dumps({"meta": {"api-version": "1.0"}, "name": "thing", "files": files}).encode()


@pytest.fixture
def asked():
    """Ask for a project, and let a server answer as it likes; ``give`` writes to it until it is told to end."""

    class Handler(BaseHTTPRequestHandler):
        give = staticmethod(lambda handler: None)

        def do_GET(self):
            type(self).give(self)

        def log_message(self, *_):
            pass

    with running(server := ThreadingHTTPServer(("127.0.0.1", 0), Handler)):

        def asked(give, user=""):
            Handler.give = staticmethod(give)
            return list_files("thing", f"http://{user}127.0.0.1:{server.server_port}/simple", SETTINGS)

        yield asked


def answered(content, status=200, **headers):
    def give(handler):
        handler.send_response(status)
        for name, value in ({"Content_Type": JSON} | headers).items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()
        handler.wfile.write(content)

    return give


def test_no_file_of_this_machine_is_taken_for_one_of_the_network(asked, tmp_path):
    (tmp_path / "private.tar.gz").touch()
    found = asked(answered(page((tmp_path / "private.tar.gz").as_uri(), "file:///proc/self/pagemap", "/files/right")))
    assert [offer.location.url is not None and offer.location.url.endswith("/files/right") for offer in found] == [True]


def test_a_folder_may_name_files_beside_it(tmp_path):
    (tmp_path / "thing").mkdir()
    (tmp_path / "thing/index.html").write_text('<a href="../thing-1.0.tar.gz">thing-1.0.tar.gz</a>')
    (found,) = list_files("thing", tmp_path.as_uri(), SETTINGS)
    assert found.location == Location(path=tmp_path / "thing-1.0.tar.gz")


def test_a_packed_page_is_read(asked):
    (found,) = asked(answered(gzip.compress(page("/files/x")), Content_Encoding="gzip"))
    assert found.filename == "thing-1.0.tar.gz"


@pytest.mark.parametrize(
    ("content", "packing", "why"),
    [
        (gzip.compress(gzip.compress(bytes(4 << 20))), "gzip, gzip", "unsupported compression"),
        (gzip.compress(bytes(4 << 20)), "gzip", "larger than 1 MiB"),
        (b"[]", "gzip", "rror"),
        (b"[]", "br", "unsupported compression"),
    ],
    ids=["twice", "much", "not packed", "another way"],
)
def test_a_page_is_unpacked_within_bounds(content, packing, why, asked, monkeypatch):
    monkeypatch.setattr(package_index, "_MAX_PAGE", 1 << 20)
    with pytest.raises(ToolchainError, match=why):
        asked(answered(content, Content_Encoding=packing))


def test_what_comes_with_a_redirect_is_not_read(asked):
    ended = threading.Event()

    def give(handler):
        if handler.path == "/elsewhere":
            answered(page("/files/x"))(handler)
            return
        answered(b"", 302, Location="/elsewhere")(handler)
        try:
            while True:
                handler.wfile.write(bytes(1 << 20))
        except OSError:
            ended.set()

    assert len(asked(give)) == 1
    assert ended.wait(60)


def test_a_page_is_text_as_pages_are(asked):
    """Some of the encodings that a server may name take days for what UTF-8 takes no time for."""
    name = "<a href=/thing-1.0.tar.gz>thing-1.0.tar.gz</a>"
    (found,) = asked(answered(name.encode(), Content_Type="text/html; charset=utf-16"))
    assert found.filename == "thing-1.0.tar.gz"


def test_html_that_python_cannot_read_is_told(asked):
    with pytest.raises(ToolchainError, match="its page of thing cannot be read"):
        asked(answered(b"<![<", Content_Type="text/html"))


@pytest.mark.parametrize("user", ["ada:s3cret@", "ada:s3@cret@", "s3cret@"])
@pytest.mark.parametrize("status", [401, 500])
def test_credentials_are_told_to_nobody(status, user, asked):
    with pytest.raises(ToolchainError) as raised:
        asked(answered(b"", status), user)
    assert "cret" not in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("index", ["http://[/simple", "http://a:b/simple", "http://ada:s3cret@[/simple"])
def test_an_address_that_is_none_is_told(index):
    with pytest.raises(ToolchainError) as raised:
        list_files("thing", index, SETTINGS)
    assert "cret" not in str(raised.value)
