"""The development server: odd requests get an answer, and what is not for readers gets none."""

import http.client
import json
import shutil
from urllib.parse import urlsplit

import pytest
from loopback import serving
from wheels import make_wheel, offer
from wrong_server import JSON

from wheelsmith.index.publish.writer import Index
from wheelsmith.index.storage.folder import Folder
from wheelsmith.model import Cell


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    made, root = tmp_path_factory.mktemp("wheels"), tmp_path_factory.mktemp("index")
    given = offer(make_wheel(made, "kernel", "1+cpu.torch2.9"), Cell(release="2.9", toolkit=None, arch="x86_64"))
    Index(Folder(root)).add([given], upload_time="2026-01-02T03:04:05Z")
    (root / "people").mkdir()
    (root / "people" / "index.html").write_text("<p>hello")
    (root / "out").symlink_to(made)
    with serving(root) as url:
        yield url
    shutil.rmtree(root / "people")


def get(url, path, method="GET", **headers):
    """Ask for a path as it is written."""
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=20)
    connection.request(method, path, headers={name.replace("_", "-"): value for name, value in headers.items()})
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer.status, answer.headers, body


@pytest.mark.parametrize(
    "path",
    [
        "/_state/kernel.json",
        "/%5fstate/kernel.json",
        "//_state/kernel.json",
        "/simple/../_state/kernel.json",
        "/simple/%2e%2e/_state/kernel.json",
        "/_state/.listing.json",
        "/../../../../etc/passwd",
        "/out/kernel-1+cpu.torch2.9-py3-none-any.whl",
        "/%00",
        "/simple/kernel/%ff",
        "/" + "a" * 5000,
        "/files/",
        "/cpu/nothing/",
    ],
)
def test_what_is_not_for_readers_is_not_there(path, served):
    assert get(served, path)[0] == 404


def test_a_redirect_stays_on_the_server(served):
    for path in ("/simple", "//simple", "/simple?x=1"):
        status, headers, _ = get(served, path)
        assert (status, headers["Location"]) == (301, "/simple/")


def test_a_page_for_people_is_html_for_everybody(served):
    for accept in (JSON, "text/html", "*/*"):
        status, headers, body = get(served, "/people/", accept=accept)
        assert (status, headers.get_content_type(), body) == (200, "text/html", b"<p>hello")


def test_a_page_that_the_client_has_is_not_sent_again(served):
    tag = get(served, "/cpu/kernel/")[1]["ETag"]
    for known in (tag, f"W/{tag}", f'"other", {tag}', "*"):
        status, headers, body = get(served, "/cpu/kernel/", if_none_match=known)
        assert (status, headers["ETag"], body) == (304, tag, b"")
        # Zero would be the length of the page.
        assert headers["Content-Length"] is None
    assert get(served, "/cpu/kernel/", if_none_match='"other"')[0] == 200


def test_any_part_of_a_wheel_is_a_part(served):
    file = json.loads(get(served, "/cpu/kernel/", accept=JSON)[2])["files"][0]
    path, size = file["url"].removeprefix("../.."), file["size"]
    whole = get(served, path)[2]
    parts = {"bytes=0-3": (0, 4), "bytes=-4": (size - 4, size), f"bytes=0-{size * 9}": (0, size), "bytes=5-": (5, size)}
    for asked, (start, end) in parts.items():
        status, headers, body = get(served, path, range=asked)
        assert (status, headers["Content-Range"], body) == (206, f"bytes {start}-{end - 1}/{size}", whole[start:end])
    status, headers, body = get(served, path, range=f"bytes={size}-")
    assert (status, headers["Content-Range"], body) == (416, f"bytes */{size}", b"")
    for unread in ("bytes=0-1,4-5", "lines=1-2", "bytes=-"):
        assert get(served, path, range=unread)[0] == 200
    status, headers, body = get(served, path, method="HEAD")
    assert (status, headers["Content-Length"], body) == (200, str(size), b"")
