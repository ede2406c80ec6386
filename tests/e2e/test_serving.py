"""The documented hosts, run for real: installers install from them, and the doctor finds no problems."""

import http.client
import json
import os
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import wants
from web_hosts import EDGE, SERVE, bucket, edge, nginx
from wheels import make_wheel, offer

from wheelsmith.index.doctor.crawl import examine
from wheelsmith.index.doctor.finding import Severity
from wheelsmith.index.publish.writer import Index
from wheelsmith.index.storage.folder import Folder
from wheelsmith.model import Cell

pytestmark = [pytest.mark.e2e, pytest.mark.release("needs nginx and Node.js"), pytest.mark.xdist_group("serving")]

JSON = "application/vnd.pypi.simple.v1+json"
NOW = "2026-01-02T03:04:05Z"


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """Wheels for two torch releases and two compute platforms, and a project with a page of more than 100 kB."""
    made, index = tmp_path_factory.mktemp("wheels"), tmp_path_factory.mktemp("index")
    offers = []
    for torch in ("2.9", "2.10"):
        for cuda in (None, "13.0"):
            cell = Cell(release=torch, toolkit=cuda, arch="x86_64")
            offers.append(offer(make_wheel(made, "kernel", f"1+{cell.compute}.torch{torch}"), cell))
    many = make_wheel(made, "many", "1")
    given = offer(many, Cell(release="2.9", toolkit=None, arch="x86_64"))
    offers.append(given)
    Index(Folder(index)).add(offers, upload_time=NOW)
    # A page for people: HTML alone.
    (index / "index.html").write_text("<!DOCTYPE html><title>Wheels</title>")
    return index


@pytest.fixture(scope="module")
def served(root):
    wants.program("nginx")
    with nginx(root) as url:
        yield url


@pytest.fixture(scope="module", params=["cloudfront", "cloudflare"])
def behind_a_cdn(request, root):
    wants.program("node")
    with (
        bucket(root, missing=403 if request.param == "cloudflare" else 404) as origin,
        edge(request.param, origin) as url,
    ):
        yield request.param, url


def get(url, method="GET", **headers):
    """Ask for a URL as it is written, and give status, headers and body."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.netloc, timeout=20)
    path = url.removeprefix(f"http://{parts.netloc}")
    connection.request(method, path, headers={name.replace("_", "-"): value for name, value in headers.items()})
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer.status, {name.lower(): answer.headers.get_all(name) for name in answer.headers}, body


def installed(command, target):
    """Run an installer and give what it installed."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "UV_"))}
    answer = subprocess.run(
        command, env={**env, "PIP_CONFIG_FILE": os.devnull}, capture_output=True, text=True, timeout=120
    )
    assert answer.returncode == 0, answer.stderr
    return [path.name for path in Path(target).glob("*.dist-info")]


def by_pip(url, target):
    command = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--no-cache-dir"]
    return installed([*command, "--target", target, "--index-url", url, "kernel"], target)


def by_uv(url, target):
    command = [Path(sys.executable).with_name("uv"), "pip", "install", "--no-config", "--no-cache"]
    return installed(
        [*command, "--python", sys.executable, "--target", target, "--default-index", url, "kernel"], target
    )


def test_the_doctor_has_nothing_to_complain_of_in_nginx(served):
    diagnosis = examine(served)
    assert (diagnosis.findings, diagnosis.unexamined, diagnosis.host) == ((), (), "nginx")
    assert [url.removeprefix(served) for url in diagnosis.roots] == ["/simple/", "/cpu/", "/cu130/"]
    assert (diagnosis.pages, diagnosis.wheels) == (5, 5)


@pytest.mark.parametrize("install", [by_pip, by_uv])
@pytest.mark.parametrize("compute", ["cpu", "cu130"])
def test_installers_install_from_nginx(install, compute, served, tmp_path):
    assert install(f"{served}/{compute}/", tmp_path) == [f"kernel-1+{compute}.torch2.10.dist-info"]


def test_nginx_serves_what_installers_rely_on(served):
    kinds = {
        "text/html": "text/html; charset=utf-8",
        f"{JSON}, text/html;q=0.01": JSON,
        "application/vnd.pypi.simple.latest+json": JSON,
        f"{JSON};q=0, text/html": "text/html; charset=utf-8",
        f"text/html, {JSON.upper()} ; q=0.0": "text/html; charset=utf-8",
        "*/*": "text/html; charset=utf-8",
    }
    for accept, kind in kinds.items():
        status, headers, _ = get(f"{served}/cpu/kernel/", accept=accept)
        assert (status, headers["content-type"], headers["cache-control"]) == (200, [kind], ["no-cache"])
        assert "Accept" in headers["vary"]
        status, again, body = get(f"{served}/cpu/kernel/", accept=accept, if_none_match=headers["etag"][0])
        assert (status, body, again["cache-control"]) == (304, b"", ["no-cache"])
    file = json.loads(get(f"{served}/cpu/kernel/", accept=JSON)[2])["files"][0]
    for url in (file["url"], file["url"].replace("%2B", "+")):
        wheel = f"{served}/{url.removeprefix('../../')}"
        status, headers, body = get(wheel, accept_encoding="gzip", range="bytes=-4")
        assert (status, len(body), headers["content-range"]) == (
            206,
            4,
            [f"bytes {file['size'] - 4}-{file['size'] - 1}/{file['size']}"],
        )
        assert headers["cache-control"] == ["max-age=365000000, immutable"]
        assert "content-encoding" not in headers
        assert get(f"{wheel}.metadata")[2].startswith(b"Metadata-Version")


def test_nginx_hides_what_is_not_for_readers(served):
    hidden = ("_state/kernel.json", "_state/.listing.json", "%5Fstate/kernel.json", "x/../_state/kernel.json", ".lock")
    for path in (*hidden, "files/", "cpu/nothing/", "cpu/nothing", "../../etc/passwd"):
        assert get(f"{served}/{path}")[0] in {400, 404}
    status, headers, _ = get(f"{served}/cpu/kernel", host="wheels.example.org")
    assert (status, headers["location"]) == (301, ["/cpu/kernel/"])
    assert get(f"{served}/", accept=JSON)[1]["content-type"] == ["text/html; charset=utf-8"]


def test_nginx_compresses_pages_for_who_asks(served, root):
    page = root / "cpu" / "many" / "index.json"
    text = page.read_bytes()
    page.write_bytes(text + b" " * 200_000)
    try:
        status, headers, body = get(f"{served}/cpu/many/", accept=JSON, accept_encoding="gzip")
        assert (status, headers["content-encoding"], len(body) < 10_000) == (200, ["gzip"], True)
        assert get(f"{served}/cpu/many/", accept=JSON, if_none_match=headers["etag"][0])[0] == 304
        assert examine(f"{served}/cpu/").findings == ()
    finally:
        page.write_bytes(text)


VARY = "        add_header Vary Accept;\n    }\n    location ~ ^/(simple"
KEPT = "v1+json;\n        add_header Cache-Control no-cache;"
STATE = "    location ~ ^/[_.] {\n        return 404;\n    }"
GONE = "location @missing {\n        return 404;\n    }"
# What each changes in the documented configuration, and the rule that names it.
WRONG = {
    "types left to mime.types": ("default_type application/vnd.pypi.simple.v1+json;", "", "content-type"),
    "no vary": (VARY, VARY.replace("add_header Vary Accept;", ""), "vary"),
    "an hour": (KEPT, KEPT.replace("no-cache", "max-age=3600"), "stale-pages"),
    "no tags": ("    charset utf-8;", "    charset utf-8; etag off;", "no-validator"),
    "no index": ("index $simple_page index.html;", "index nothing;", "folder-index"),
    "html alone": ("index $simple_page index.html;", "index index.html;", "no-json"),
    "a page for all": ("    location / {", "    error_page 404 =200 /index.html;\n    location / {", "absent-project"),
    "forbidden": (GONE, "error_page 404 =403 @gone; location @gone { return 403; }", "absent-project"),
    "no parts": ("        gzip off;", "        gzip off; max_ranges 0;", "ranges"),
    "state for all": (STATE, "", "state"),
    "no side-cars": ("        gzip off;", "        location ~ [.]metadata$ { return 404; }", "side-car-missing"),
}


@pytest.mark.parametrize("name", WRONG)
def test_the_doctor_names_what_is_wrong_with_another_nginx(name, root):
    wants.program("nginx")
    old, new, rule = WRONG[name]
    with nginx(root, (old, new)) as url:
        found = {
            finding.rule: finding for finding in examine(f"{url}/cpu/" if name != "state for all" else url).findings
        }
    assert set(found) == {rule}
    assert found[rule].host == "nginx"


def test_the_doctor_has_nothing_to_complain_of_in_a_bucket_behind_a_cdn(behind_a_cdn):
    kind, url = behind_a_cdn
    diagnosis = examine(url)
    assert (diagnosis.findings, diagnosis.unexamined, diagnosis.host) == ((), (), kind)
    assert (diagnosis.pages, diagnosis.wheels) == (5, 5)


@pytest.mark.parametrize("install", [by_pip, by_uv])
def test_installers_install_from_a_bucket_behind_a_cdn(install, behind_a_cdn, tmp_path):
    assert install(f"{behind_a_cdn[1]}/cu130/", tmp_path) == ["kernel-1+cu130.torch2.10.dist-info"]


def test_a_cdn_hides_state_and_redirects_nowhere_else(behind_a_cdn):
    _, url = behind_a_cdn
    for path in (
        "_state/kernel.json",
        "%5Fstate/kernel.json",
        "%5fstate/.listing.json",
        ".lock",
        "/_state/kernel.json",
    ):
        assert get(f"{url}/{path}")[0] == 404
    status, headers, _ = get(f"{url}//example.org/x")
    assert (status, headers["location"]) == (301, ["/example.org/x/"])
    page = "text/html; charset=utf-8"
    assert get(f"{url}/cpu/kernel/", method="HEAD")[1]["content-type"] == [page]
    assert get(f"{url}/", accept=JSON)[1]["content-type"] == [page]


def test_a_bare_bucket_is_told_what_it_lacks(root):
    with bucket(root) as url:
        # The worst come first, and the last of a rule would win.
        found = {finding.rule: finding for finding in reversed(examine(url).findings)}
    assert set(found) == {"folder-index", "state"}
    assert found["folder-index"].severity is Severity.ERROR
    assert "docs/how-to/serve/cloudfront-request.js" in found["folder-index"].remedy


def test_the_cloudfront_function_answers_recorded_events():
    wants.program("node")
    pip = f"{JSON}, application/vnd.pypi.simple.v1+html; q=0.1, text/html; q=0.01"
    asked = {
        ("/simple/kernel/", pip): "/simple/kernel/index.json",
        ("/simple/kernel/", "text/html"): "/simple/kernel/index.html",
        ("/simple/kernel/", None): "/simple/kernel/index.html",
        ("/simple/kernel/", f"{JSON};q=0"): "/simple/kernel/index.html",
        ("/simple/kernel/", f"{JSON};q=0.5"): "/simple/kernel/index.json",
        ("/rocm6.4/kernel/", pip): "/rocm6.4/kernel/index.json",
        ("/", pip): "/index.html",
        ("/kernel/", pip): "/kernel/index.html",
        ("/files/ab/k-1+cpu-py3-none-any.whl", "*/*"): "/files/ab/k-1%2Bcpu-py3-none-any.whl",
        ("/files/ab/k-1%2Bcpu-py3-none-any.whl.metadata", "*/*"): "/files/ab/k-1%2Bcpu-py3-none-any.whl.metadata",
        ("/simple/kernel", pip): "/simple/kernel/",
        ("/rocm6.4", pip): "/rocm6.4/",
        ("//example.org/x", pip): "/example.org/x/",
        ("/_state/kernel.json", pip): 404,
        ("/%5Fstate/kernel.json", pip): 404,
        ("/%/kernel/", pip): "/%/kernel/index.html",
    }
    events = [
        {
            "version": "1.0",
            "context": {"eventType": "viewer-request", "distributionId": "EXAMPLE", "requestId": "x"},
            "viewer": {"ip": "192.0.2.1"},
            "request": {
                "method": "GET",
                "uri": uri,
                "querystring": {},
                "headers": {
                    "host": {"value": "wheels.example.org"},
                    **({"accept": {"value": accept}} if accept else {}),
                },
                "cookies": {},
            },
        }
        for uri, accept in asked
    ]
    command = ["node", EDGE, "event", SERVE / "cloudfront-request.js"]
    answer = subprocess.run(command, input=json.dumps(events), capture_output=True, text=True, check=True, timeout=60)
    for (question, wanted_), made in zip(asked.items(), json.loads(answer.stdout), strict=True):
        if isinstance(wanted_, int):
            assert made["statusCode"] == wanted_, question
        elif made.get("statusCode") == 301:
            assert made["headers"]["location"]["value"] == wanted_, question
        else:
            assert made["uri"] == wanted_, question
