"""The doctor before indexes that lie, never end, or are made to hurt who looks at them."""

import gzip
import hashlib
import json
import shlex
import threading
import zipfile
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from click.testing import CliRunner
from wheels import make_wheel, offer
from wrong_server import JSON, Answer, in_json, on_pages, running, serving, spoiled, with_header

from wheelsmith.base.errors import PackageIndexError
from wheelsmith.cli.index_doctor import doctor
from wheelsmith.index.doctor import FetchBounds, Severity, WalkScope, examine
from wheelsmith.index.publish import Index
from wheelsmith.index.storage import Folder
from wheelsmith.model import Cell

pytestmark = pytest.mark.xdist_group("doctor")

NOW = "2026-01-02T03:04:05Z"
CPU = Cell(release="2.9", toolkit=None, arch="x86_64")
ONE = WalkScope(roots=("cpu",), most_wheels=1)


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    made, index = tmp_path_factory.mktemp("wheels"), tmp_path_factory.mktemp("index")
    Index(Folder(index)).add([offer(make_wheel(made, "kernel", "1+cpu.torch2.9"), CPU)], upload_time=NOW)
    return index


def rules(diagnosis):
    return {finding.rule for finding in diagnosis.findings}


def publish(folder, path, metadata, **changes):
    """Publish a wheel with a side-car and a name of our choice."""
    given = offer(path, CPU)
    entry = replace(given.entry, metadata_sha256=hashlib.sha256(metadata).hexdigest(), **changes)
    Index(Folder(folder)).add([replace(given, side_files={".metadata": metadata}, entry=entry)], upload_time=NOW)


def metadata_in(path):
    with zipfile.ZipFile(path) as archive:
        return next(archive.read(name) for name in archive.namelist() if name.endswith("METADATA"))


def test_a_side_car_that_asks_for_other_things_than_its_wheel(tmp_path):
    path = make_wheel(tmp_path / "w", "kernel", "1", requires=("torch>=2",))
    publish(tmp_path / "index", path, metadata_in(path).replace(b"torch>=2", b"torch >= 2") + b"Summary: new\n")
    with serving(tmp_path / "index") as url:
        diagnosis = examine(url, ONE)
        assert [(f.rule, f.severity) for f in diagnosis.findings] == [("side-car-differs", Severity.WARNING)]
    other = make_wheel(tmp_path / "w", "kernel", "2", requires=("torch>=2",))
    publish(tmp_path / "index", other, metadata_in(other).replace(b"torch>=2", b"torch>=3"))
    with serving(tmp_path / "index") as url:
        (found,) = examine(url, ONE).findings
        assert (found.rule, found.severity, found.hurts) == ("side-car-differs", Severity.ERROR, ("pip from 26.2",))
        assert "Requires-Dist" in found.message


def test_a_wheel_that_was_renamed(tmp_path):
    path = make_wheel(tmp_path / "w", "kernel", "1")
    publish(tmp_path / "index", path, metadata_in(path), filename="kernel-2-py3-none-any.whl")
    with serving(tmp_path / "index") as url:
        assert rules(examine(url, ONE)) == {"wheel-lies"}


def test_what_is_no_wheel(tmp_path):
    path = make_wheel(tmp_path / "w", "kernel", "1")
    given, text = offer(path, CPU), b"no archive at all"
    broken = tmp_path / "broken" / path.name
    broken.parent.mkdir()
    broken.write_bytes(text)
    entry = replace(given.entry, sha256=hashlib.sha256(text).hexdigest(), size=len(text))
    Index(Folder(tmp_path / "index")).add([replace(given, wheel=broken, entry=entry)], upload_time=NOW)
    with serving(tmp_path / "index") as url:
        assert rules(examine(url, ONE)) == {"wheel-broken"}


def test_metadata_that_unpacks_to_gigabytes_is_not_unpacked(tmp_path):
    path = tmp_path / "kernel-1-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("kernel-1.dist-info/METADATA", bytes(64 * 2**20))
    given = offer(make_wheel(tmp_path / "w", "kernel", "1"), CPU)
    entry = replace(given.entry, sha256=hashlib.sha256(path.read_bytes()).hexdigest(), size=path.stat().st_size)
    Index(Folder(tmp_path / "index")).add([replace(given, wheel=path, entry=entry)], upload_time=NOW)
    with serving(tmp_path / "index") as url:
        (found,) = examine(url, ONE).findings
        assert (found.rule, "too large to be true" in found.message) == ("wheel-broken", True)


def test_a_wheel_too_large_to_fetch_is_read_from_its_end(tmp_path):
    filler = hashlib.shake_128(b"incompressible").digest(4 * 2**20)
    path = make_wheel(tmp_path / "w", "kernel", "1", files={"kernel.bin": filler})
    publish(tmp_path / "index", path, metadata_in(path) + b"Requires-Dist: other\n")
    with serving(tmp_path / "index") as url:
        diagnosis = examine(url, ONE, FetchBounds(file=2**20))
        assert rules(diagnosis) == {"side-car-differs"}
        assert diagnosis.unexamined == ("kernel-1-py3-none-any.whl: its hash, for it was not fetched whole",)


def test_a_page_that_is_too_large_is_not_read_to_its_end(root):
    big = on_pages(
        lambda answer: (
            replace(answer, body=answer.body + b" " * 2**20) if JSON in answer.headers["content-type"] else answer
        )
    )
    with spoiled(root, big) as url:
        diagnosis = examine(url, replace(ONE, projects=("kernel",)), FetchBounds(page=2**19))
        assert any("it is larger than" in what for what in diagnosis.unexamined)
    bomb = gzip.compress(bytes(32 * 2**20))
    with spoiled(
        root, on_pages(lambda answer: with_header(content_encoding="gzip")(replace(answer, body=bomb)))
    ) as url:
        assert examine(url, replace(ONE, projects=("kernel",)), FetchBounds(page=2**19)).unexamined


@pytest.mark.parametrize(
    "body", [b"[" * 200_000, b"{}", b"[]", b'{"files": {"a": 1}}', b'{"files": [1, null]}', b"\xff\xfe"]
)
def test_json_of_any_shape_is_a_finding(body, root):
    with spoiled(root, on_pages(lambda answer: replace(with_header(content_type=JSON)(answer), body=body))) as url:
        diagnosis = examine(url, replace(ONE, projects=("kernel",)))
        assert rules(diagnosis) & {"unreadable-page", "json-shape"}
        assert not diagnosis.ok


def test_html_that_breaks_parsers_is_a_finding(root):
    answer = Answer(200, {"content-type": "text/html"}, b"<![" * 20_000 + b"<a " * 20_000)
    with spoiled(root, lambda asked, right: answer) as url:
        assert "unreadable-page" in rules(examine(url, replace(ONE, projects=("kernel",))))


def test_links_of_other_schemes_are_never_followed(root, tmp_path):
    secret = tmp_path / "kernel-9-py3-none-any.whl"
    secret.write_bytes(b"secret")
    asked_for = []

    def link_out(data):
        data["files"][0]["url"] = secret.as_uri()

    def fault(asked, right):
        asked_for.append(asked.path)
        return in_json(link_out)(asked, right)

    with spoiled(root, fault) as url:
        diagnosis = examine(url, ONE)
    assert "foreign-scheme" in rules(diagnosis)
    assert diagnosis.wheels == 0
    assert not any(path.startswith("/files/") for path in asked_for)
    with spoiled(
        root,
        lambda asked, right: Answer(302, {"location": secret.as_uri()}) if "kernel" in asked.path else right(asked),
    ) as url:
        (found,) = examine(url, ONE).findings
        assert (found.rule, "file:, which is not the web" in found.message) == ("no-answer", True)


def test_bounds_end_a_look_and_are_told(root):
    with serving(root) as url:
        diagnosis = examine(url, ONE, FetchBounds(requests=9))
        assert (diagnosis.requests, diagnosis.unexamined) == (9, ("the rest: 9 requests were made",))
        assert examine(url, ONE, FetchBounds(time=0.0)).unexamined == ("the rest: 0 s went by",)


class _Dripping(BaseHTTPRequestHandler):
    """Sends a byte now and then, for ever."""

    stop = threading.Event()

    def do_GET(self):
        self.send_response(200)
        self.send_header("content-type", "text/html")
        self.end_headers()
        while not self.stop.wait(0.02):
            self.wfile.write(b" ")
            self.wfile.flush()

    def log_message(self, *args):
        pass


@contextmanager
def dripping():
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Dripping)
    server.daemon_threads = True
    _Dripping.stop.clear()
    with running(server):
        yield f"http://127.0.0.1:{server.server_address[1]}"
        _Dripping.stop.set()


def test_a_page_that_never_ends_is_left(root):
    with dripping() as url:
        diagnosis = examine(url, WalkScope(roots=("cpu",), projects=("kernel",)), FetchBounds(patience=0.2, time=2.0))
        assert diagnosis.unexamined


def test_credentials_go_home_and_nowhere_else(root):
    heard = []

    def remember(name):
        def fault(asked, right):
            heard.append((name, asked.headers.get("authorization")))
            return right(asked)

        return fault

    with spoiled(root, remember("files")) as files:

        def send_away(asked, right):
            answer = remember("home")(asked, right)
            body = answer.body.replace(b"../../files", f"{files}/files".encode())
            return replace(answer, body=body) if asked.page else answer

        with spoiled(root, send_away) as url:
            home = url.replace("http://", "http://user:s3cret@")
            answer = CliRunner().invoke(doctor, [home, "--root", "cpu", "--project", "missing", "--project", "kernel"])
    assert {name for name, _ in heard} == {"home", "files"}
    assert {given for name, given in heard if name == "files"} == {None}
    assert {given for name, given in heard if name == "home"} == {"Basic dXNlcjpzM2NyZXQ="}
    assert "page-missing" in answer.output
    assert "s3cret" not in answer.output
    assert answer.exit_code == 1


def test_credentials_are_taken_from_netrc_as_pip_and_uv_take_them(root, tmp_path, monkeypatch):
    file = tmp_path / "netrc"
    file.write_text("machine 127.0.0.1 login user password s3cret\n")
    file.chmod(0o600)
    monkeypatch.setenv("NETRC", str(file))
    heard = set()

    def remember(asked, right):
        heard.add(asked.headers.get("authorization"))
        return right(asked)

    with spoiled(root, remember) as url:
        examine(url, ONE)
    assert heard == {"Basic dXNlcjpzM2NyZXQ="}
    monkeypatch.setenv("NETRC", str(tmp_path))
    with serving(root) as url:
        assert examine(url, ONE).findings == ()


def test_what_a_server_says_moves_no_cursor_and_runs_in_no_shell(root):
    name, path = "kernel\x1b[2J-9-py3-none-any.whl", "/files/$(touch x)';touch x;'/kernel-8-py3-none-any.whl"

    def lie(data):
        file = data["files"][0]
        data["files"] += [{**file, "filename": name}, {**file, "filename": "kernel-8-py3-none-any.whl", "url": path}]

    with spoiled(root, in_json(lie)) as url:
        answer = CliRunner().invoke(doctor, [url, "--root", "cpu"])
    assert "\x1b" not in answer.output
    assert "wheel-name: kernel\\x1b[2J-9-py3-none-any.whl is no wheel's name" in answer.output
    command = next(line for line in answer.output.splitlines() if "touch" in line and "show:" in line)
    assert shlex.split(command)[-1] == f"{url}{path}"


@pytest.mark.parametrize(
    "url", ["ftp://example.org/simple/", "simple", "http://", "http://[", "file:///etc/", "http://\x00/"]
)
def test_what_is_no_url_of_the_web_is_refused(url):
    with pytest.raises(PackageIndexError):
        examine(url)


def test_a_server_that_is_not_there_is_an_error_of_its_own():
    with pytest.raises(PackageIndexError, match="cannot be reached"):
        examine("http://127.0.0.1:9/", bounds=FetchBounds(patience=1))


def test_the_command_tells_people_and_pipelines_the_same(root):
    with serving(root) as url:
        good = CliRunner().invoke(doctor, [url])
        assert (good.exit_code, "nothing to complain of" in good.output) == (0, True)
        assert "2 roots, 2 pages, 1 wheel; " in good.output
    with spoiled(root, on_pages(with_header(cache_control="max-age=600", content_type="text/plain"))) as url:
        for_people = CliRunner().invoke(doctor, [url, "--root", "cpu"])
        for_pipelines = CliRunner().invoke(doctor, [url, "--root", "cpu", "--json"])
    assert for_people.exit_code == for_pipelines.exit_code == 1
    data = json.loads(for_pipelines.output)
    assert data["schema_version"] == 1
    assert [(f["rule"], f["severity"]) for f in data["findings"]] == [
        ("content-type", "error"),
        ("stale-pages", "warning"),
        ("page-for-people", "warning"),
    ]
    for found in data["findings"]:
        assert f"{found['rule']}: {found['message']} ({', '.join(found['hurts'])})" in for_people.output
        assert f"help: {found['remedy']}" in for_people.output
    assert "1 error, 2 warnings" in for_people.output
