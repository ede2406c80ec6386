"""Fetching pinned files from an index that may be slow of mind, broken or hostile."""

import hashlib
import io
import tarfile
import threading
import zipfile
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from wheels import make_wheel

from wheelsmith.base.errors import NoEnvironmentError, ToolchainError
from wheelsmith.model import PinnedFile
from wheelsmith.model.events import ignore
from wheelsmith.toolchain import Toolchains
from wheelsmith.toolchain.package_index import locate
from wheelsmith.toolchain.pip import PipSettings, pip_settings
from wheelsmith.toolchain.prefix_builder import unpack
from wheelsmith.toolchain.remote import fetch_part, fetch_whole


class Index:
    """A package index with one file, and the bytes it sent of it."""

    def __init__(self, wheel, pin):
        self.wheel, self.pin, self.sent, self.ranges, self.cut = wheel.read_bytes(), pin, 0, True, None

    def handler(index):  # noqa: N805  # self is the request handler's, inside
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                if not self.path.endswith(".whl"):
                    page = f'<a href="/f/{index.pin.filename}#sha256={index.pin.sha256}">{index.pin.filename}</a>'
                    return self.send(200, page.encode(), {"Content-Type": "text/html"})
                data, asked = index.wheel, self.headers.get("Range")
                if index.ranges and asked:
                    start, end = asked.removeprefix("bytes=").split("-")
                    data = data[int(start) : int(end) + 1]
                    return self.send(206, data, {})
                return self.send(200, data, {})

            def send(self, status, data, headers):
                data = data[: index.cut]
                index.sent += len(data)
                self.send_response(status)
                for key, value in {"Content-Length": str(len(data)), **headers}.items():
                    self.send_header(key, value)
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_):
                pass

        return Handler


@pytest.fixture
def index(tmp_path):
    big = bytes(range(256)) * 4
    headers = {f"toy/include/h{n}.h": f"// {n}\n".encode() for n in range(50)}
    ballast = {"toy/lib/big.so": hashlib.shake_256(big).digest(6 << 20)}
    wheel = make_wheel(tmp_path / "origin", "toy", "1", files={**headers, **ballast})
    with zipfile.ZipFile(wheel) as archive:
        record = hashlib.sha256(archive.read("toy-1.dist-info/RECORD")).hexdigest()
    pin = PinnedFile(
        project="toy",
        version="1",
        filename=wheel.name,
        sha256=hashlib.sha256(wheel.read_bytes()).hexdigest(),
        size=wheel.stat().st_size,
        record_sha256=record,
    )
    index = Index(wheel, pin)
    server = ThreadingHTTPServer(("127.0.0.1", 0), index.handler())
    threading.Thread(target=server.serve_forever, daemon=True).start()
    index.settings = settings(f"http://127.0.0.1:{server.server_address[1]}/simple")
    yield index
    server.shutdown()
    server.server_close()


def settings(*indexes, find_links=()):
    return PipSettings(
        indexes=indexes, find_links=find_links, cert=None, client_cert=None, proxy=None, trusted_hosts=(), timeout=5
    )


def wanted(name):
    return "/include/" in name or name.endswith("RECORD")


def place(name):
    return name if "/include/" in name else None


def fetch(index, tmp_path, pin=None):
    pin = pin or index.pin
    with index.settings.client() as client:
        return fetch_part(pin, locate(pin, index.settings), tmp_path, wanted, client, ignore)


def test_only_what_is_wanted_is_fetched_and_proven(index, tmp_path):
    wheel = fetch(index, tmp_path)
    unpack(index.pin, wheel, tmp_path / "out", place)
    assert len(list((tmp_path / "out/toy/include").iterdir())) == 50
    assert index.sent < index.pin.size * 0.75


def test_a_server_without_ranges_sends_the_whole_wheel(index, tmp_path):
    index.ranges = False
    unpack(index.pin, fetch(index, tmp_path), tmp_path / "out", place)
    assert len(list((tmp_path / "out/toy/include").iterdir())) == 50


def test_another_file_under_the_same_name_is_refused(index, tmp_path):
    index.ranges = False
    index.wheel = index.wheel[:-1] + b"x"
    with pytest.raises(ToolchainError, match="is not the pinned file"):
        fetch(index, tmp_path)


def test_a_changed_member_is_refused_though_only_part_was_fetched(index, tmp_path):
    other = make_wheel(tmp_path / "other", "toy", "1", files={"toy/include/h0.h": b"evil"})
    index.wheel = other.read_bytes()
    pin = replace(index.pin, size=len(index.wheel))
    with pytest.raises(ToolchainError, match="RECORD differs from the pinned one"):
        unpack(pin, fetch(index, tmp_path, pin), tmp_path / "out", place)


def test_a_transfer_that_breaks_off(index, tmp_path):
    index.cut = 1000
    with pytest.raises(ToolchainError) as caught:
        fetch(index, tmp_path)
    assert "pip config list" in caught.value.remedy


def test_an_index_that_is_not_there_or_lacks_the_file(index, tmp_path):
    dead = settings("http://127.0.0.1:9/simple")
    with pytest.raises(ToolchainError, match="could not be looked up"):
        locate(index.pin, dead)
    with pytest.raises(ToolchainError, match="no configured index offers"):
        locate(replace(index.pin, filename="toy-2-py3-none-any.whl"), index.settings)


def test_a_local_folder_comes_first(index, tmp_path):
    here = settings(find_links=(str(tmp_path / "origin"),))
    with here.client() as client:
        location = locate(index.pin, here)
        assert location.path == tmp_path / "origin" / index.pin.filename
        assert fetch_whole(index.pin, location, tmp_path, client, ignore) == location.path


@pytest.mark.parametrize("name", ["../evil", "/evil", "a/../../evil"])
def test_nothing_is_written_outside(name, index, tmp_path):
    wheel = fetch(index, tmp_path)
    with pytest.raises(ToolchainError, match="outside its folder"):
        unpack(index.pin, wheel, tmp_path / "out", lambda _: name)


def test_pips_own_settings_are_used(monkeypatch, tmp_path):
    config = tmp_path / "pip.conf"
    config.write_text("[global]\nindex-url = http://127.0.0.1:1/a\nextra-index-url = http://127.0.0.1:1/b\n")
    monkeypatch.setenv("PIP_CONFIG_FILE", str(config))
    for name in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL"):
        monkeypatch.delenv(name, raising=False)
    assert pip_settings().indexes[0] == "http://127.0.0.1:1/a"
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:1/c")
    monkeypatch.setenv("PIP_TIMEOUT", "7")
    assert pip_settings().indexes[0] == "http://127.0.0.1:1/c"
    assert pip_settings().timeout == 7


def test_what_a_build_requires_is_not_run(monkeypatch, tmp_path):
    ran = tmp_path / "ran"
    setup = f"open({str(ran)!r}, 'w')\nfrom setuptools import setup\nsetup(name='payload', version='1')\n"
    with tarfile.open(tmp_path / "payload-1.tar.gz", "w:gz") as archive:
        member = tarfile.TarInfo("payload-1/setup.py")
        member.size = len(setup)
        archive.addfile(member, io.BytesIO(setup.encode()))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "links"))
    make_wheel(tmp_path, "plain", "1")
    for number, name in enumerate(("payload-1.tar.gz", "plain-1-py3-none-any.whl")):
        needs = f"{name.partition('-')[0]} @ {(tmp_path / name).as_uri()}"
        make_wheel(tmp_path / "links", f"needy{number}", "1", requires=(needs,))
        with pytest.raises(NoEnvironmentError, match=r"requires .* at a URL"):
            Toolchains(tmp_path, ignore).lock((f"needy{number}",), "3.11", "x86_64")
    assert not ran.exists()


def test_nothing_in_the_folder_that_it_is_started_in_is_run(monkeypatch, tmp_path):
    (tmp_path / "pip.py").write_text("open('ran', 'w')")
    (tmp_path / "json.py").write_text("open('ran', 'w')")
    monkeypatch.chdir(tmp_path)
    assert pip_settings().timeout > 0
    assert not (tmp_path / "ran").exists()
