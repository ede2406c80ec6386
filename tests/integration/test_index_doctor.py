"""The doctor before a right server, before servers that each do one thing wrong, and before hostile ones."""

import gzip
import json
import shlex
from dataclasses import replace

import pytest
from click.testing import CliRunner
from loopback import serving
from wheels import make_wheel, offer
from wrong_server import (
    JSON,
    Answer,
    Overrides,
    Right,
    deaf_to,
    dripping,
    for_absent,
    html_alone,
    in_json,
    instead,
    on_files,
    on_pages,
    spoiled,
    with_header,
    with_link,
)

from wheelsmith.base.errors import PackageIndexError
from wheelsmith.cli.index_doctor import doctor
from wheelsmith.index.doctor.crawl import CrawlScope, examine
from wheelsmith.index.publish.writer import Index
from wheelsmith.index.storage.folder import Folder
from wheelsmith.model import Cell

pytestmark = pytest.mark.xdist_group("doctor")

ONE = CrawlScope(roots=("cpu",), max_projects=1, max_wheels=1)


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """Wheels of two projects for the CPU, and one for CUDA, all with + in their names."""
    made, index = tmp_path_factory.mktemp("wheels"), tmp_path_factory.mktemp("index")
    kinds = (("kernel", "2.9", None), ("kernel", "2.10", None), ("kernel", "2.10", "13.0"), ("other", "2.9", None))
    offers = []
    for name, torch, cuda in kinds:
        cell = Cell(release=torch, toolkit=cuda, arch="x86_64")
        path = make_wheel(made, name, f"1+{cell.compute}.torch{torch}", requires=(f"torch=={torch}.*",))
        offers.append(offer(path, cell))
    Index(Folder(index)).add(offers, upload_time="2026-01-02T03:04:05Z")
    return index


def rules(diagnosis):
    return {finding.rule for finding in diagnosis.findings}


def test_the_development_server_gives_nothing_to_complain_of(root):
    with serving(root) as url:
        diagnosis = examine(url)
        assert (diagnosis.findings, diagnosis.unexamined, diagnosis.host) == ((), (), "wheelsmith")
        assert diagnosis.roots == (f"{url}/simple/", f"{url}/cpu/", f"{url}/cu130/")
        assert (diagnosis.pages, diagnosis.wheels) == (5, 4)
        alone = examine(f"{url}/cu130")
        assert (alone.findings, alone.roots, alone.wheels) == ((), (f"{url}/cu130/",), 1)


X86, ARM = "cp39-abi3-manylinux_2_28_x86_64", "cp39-abi3-manylinux_2_28_aarch64"
TORCH, MORE = "torch==2.11.*", "numpy"
# Wheels in the root cu130 (name, version, tag, requirements), and the rule that names them; None for none.
LISTED = {
    "requirements of one architecture": (
        [("kernel", "1+cu130.torch2.11", X86, TORCH), ("kernel", "1+cu130.torch2.11", ARM, TORCH, MORE)],
        "requirements",
    ),
    "an extra of one architecture": (
        [
            ("kernel", "1+cu130.torch2.11", X86, TORCH),
            ("kernel", "1+cu130.torch2.11", ARM, TORCH, f"{MORE}; extra == 'a'"),
        ],
        "requirements",
    ),
    "requirements of two versions": (
        [("kernel", "1+cu130", X86, "torch"), ("kernel", "2+cu130", X86, "torch", MORE)],
        None,
    ),
    "another CUDA": ([("kernel", "1+cu126.torch2.11", X86, TORCH)], "other-platforms"),
    "another CUDA, as flash-attn spells it": (
        [("kernel", "1+cu12torch2.11cxx11abitrue", X86, TORCH)],
        "other-platforms",
    ),
    "a newer CUDA": ([("kernel", "1+cu132.torch2.12", X86, "torch==2.12.*")], "other-platforms"),
    "the CPU": (
        [("kernel", "1+cpu.torch2.11", X86, TORCH), ("kernel", "1+cu130.torch2.11", X86, TORCH)],
        "other-platforms",
    ),
    "no platform": ([("kernel", "1", X86, TORCH)], None),
    "the newest for one architecture": (
        [("kernel", "1+cu130", X86), ("kernel", "1+cu130", ARM), ("kernel", "1.1+cu130", X86)],
        "architecture",
    ),
    "always for one architecture": ([("kernel", "1+cu130", X86), ("kernel", "1.1+cu130", X86)], None),
    "a pre-release for one architecture": (
        [("kernel", "1+cu130", X86), ("kernel", "1+cu130", ARM), ("kernel", "2rc1+cu130", X86)],
        None,
    ),
    "a copy from PyPI": ([("einops", "0.8", "py3-none-any")], "copy"),
    "a copy after other projects": (
        [*((f"a{n}", "1", "py3-none-any") for n in range(4)), ("numpy", "2.0", X86)],
        "copy",
    ),
    "a build of one's own": ([("einops", "0.8+cu130", X86)], None),
}


@pytest.mark.parametrize("name", LISTED)
def test_wheels_that_do_not_belong_together_are_named(name, tmp_path):
    wheels, wanted = LISTED[name]
    cells = {
        tag: Cell(release="2.11", toolkit="13.0", arch="aarch64" if tag == ARM else "x86_64") for tag in (X86, ARM)
    }
    offers = [
        offer(make_wheel(tmp_path / "made", name, version, tag=tag, requires=requires), cells.get(tag, cells[X86]))
        for name, version, tag, *requires in wheels
    ]
    Index(Folder(tmp_path / "index")).add(offers, upload_time="2026-01-02T03:04:05Z")
    # Pages in JSON name the cells of a wheel, as those in HTML do not.
    with spoiled(tmp_path / "index", html_alone(str)) as url:
        diagnosis = examine(url, CrawlScope(roots=("cu130",), max_wheels=1))
    assert (rules(diagnosis) - {"no-json"}, diagnosis.ok) == ({wanted} - {None}, True)


def test_a_wheel_that_says_which_cells_it_serves_belongs_to_their_roots(tmp_path):
    path = make_wheel(tmp_path / "made", "kernel", "1+cu126", tag=X86, requires=("torch>=2.11",))
    cells = [Cell(release="2.11", toolkit=cuda, arch="x86_64") for cuda in ("12.6", "12.9", "13.0")]
    Index(Folder(tmp_path / "index")).add([offer(path, *cells)], upload_time="2026-01-02T03:04:05Z")
    with serving(tmp_path / "index") as url:
        assert examine(url).findings == ()
    with spoiled(tmp_path / "index", html_alone(str)) as url:
        diagnosis = examine(url, CrawlScope(roots=("cu126", "cu129", "cu130")))
    places = {each.rule: each.places for each in diagnosis.findings}
    assert places["other-platforms"] == (f"{url}/cu130/kernel/",)


def is_kernel(asked: Overrides) -> bool:
    return asked.page and "/kernel/" in asked.path


def away_from_the_slash(asked: Overrides, right: Right) -> Answer:
    if asked.page and asked.path.endswith("/") and len(asked.path) > 1:
        return Answer(301, {"location": asked.path.removesuffix("/")})
    return right(replace(asked, path=f"{asked.path}/") if asked.page else asked)


def raw_plus(asked: Overrides, right: Right) -> Answer:
    return on_pages(lambda answer: replace(answer, body=answer.body.replace(b"%2B", b"+")))(asked, right)


def compressed(answer: Answer) -> Answer:
    return with_header(content_encoding="gzip")(replace(answer, body=gzip.compress(answer.body)))


def zeros(answer: Answer) -> Answer:
    return replace(answer, body=bytes(len(answer.body))) if answer.status == 206 else answer


def sent_as(content_type):
    return on_pages(with_header(content_type=content_type))


def on_kernel(change):
    return lambda asked, right: on_pages(change)(asked, right) if is_kernel(asked) else right(asked)


# What the server does, and the rules that name it; the first is an error unless listed in MILD.
FAULTS = {
    "plain text": (sent_as("text/plain"), {"content-type"}),
    "no type": (sent_as(None), {"content-type"}),
    "no json behind its type": (on_kernel(lambda answer: replace(answer, body=b"<p>")), {"unreadable-page"}),
    "half a url": (with_link('<a href="http://[">x</a>'), {"unreadable-page", "no-json"}),
    "no json": (html_alone(str), {"no-json"}),
    "no vary": (on_pages(with_header(vary=None)), {"vary"}),
    "compressed pages": (on_pages(compressed), set()),
    "no folder index": (instead(404, lambda a: a.page and a.path.endswith("/")), {"folder-index"}),
    "no page": (instead(404, is_kernel), {"page-missing"}),
    "size as text": (in_json(lambda data: data["files"][0].update(size="5")), {"unreadable-page"}),
    "forbidden page": (instead(403, is_kernel), {"refused"}),
    "a loop": (lambda a, r: Answer(302, {"location": a.path}) if is_kernel(a) else r(a), {"no-answer"}),
    "away from the slash": (away_from_the_slash, {"slash-dropped", "wheel-missing"}),
    "403 for absent": (for_absent(403), {"absent-project"}),
    "200 for absent": (for_absent(200, **{"content-type": "text/html"}), {"absent-project"}),
    "ten minutes": (on_pages(with_header(cache_control="max-age=600")), {"stale-pages"}),
    "no tag": (on_pages(with_header(etag=None)), {"no-validator"}),
    "hash of another": (in_json(lambda data: data["files"][-1].update(hashes={"sha256": "0" * 64})), {"wheel-hash"}),
    "no wheel": (instead(404, lambda a: a.path.endswith(".whl")), {"wheel-missing"}),
    "no escapes": (lambda a, r: Answer(404) if "%2B" in a.path else raw_plus(a, r), {"plus-quoted"}),
    "+ is a space": (lambda a, r: raw_plus(replace(a, path=a.path.replace("+", "%20")), r), {"plus-raw"}),
    "+ in links": (raw_plus, {"plus-raw"}),
    "compressed wheel": (on_files(compressed), {"wheel-encoding"}),
    "other bytes": (on_files(lambda answer: replace(answer, body=answer.body.replace(b"l", b"L"))), {"wheel-hash"}),
    "no side-car": (instead(404, lambda a: a.path.endswith(".metadata")), {"side-car-missing"}),
    "other side-car": (on_files(lambda a: replace(a, body=a.body + b"\n"), ".metadata"), {"side-car-hash"}),
    "no parts": (deaf_to("range", lambda a: a.path.endswith(".whl")), {"ranges"}),
    "wrong parts": (on_files(zeros), {"ranges"}),
    "state for all": (lambda a, r: Answer(200, {}, b"{}") if a.path.startswith("/_state/") else r(a), {"state"}),
}
MILD = {
    *("no json", "no vary", "compressed pages", "ten minutes", "no tag", "+ in links", "no parts", "wrong parts"),
    "state for all",
}


@pytest.mark.parametrize("name", FAULTS)
def test_each_fault_is_named(name, root):
    fault, wanted = FAULTS[name]
    with spoiled(root, fault, prefix="/pre/fix") as url:
        diagnosis = examine(url, ONE)
    assert (rules(diagnosis), diagnosis.ok) == (wanted, name in MILD)
    assert all(finding.command.startswith("curl -sSL ") and finding.remedy for finding in diagnosis.findings)


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        *((JSON, body) for body in (b"[" * 200_000, b"{}", b"[]", b'{"files": {"a": 1}}', b'{"files": [1, null]}')),
        *(("text/html", body) for body in (b"\xff\xfe", b"<![" * 20_000 + b"<a " * 20_000)),
    ],
)
def test_pages_of_any_bytes_are_a_finding(kind, body, root):
    with spoiled(root, on_pages(lambda answer: replace(with_header(content_type=kind)(answer), body=body))) as url:
        diagnosis = examine(url, replace(ONE, projects=("kernel",)))
    assert "unreadable-page" in rules(diagnosis)
    assert not diagnosis.ok


def test_a_page_that_is_too_large_is_not_read_to_its_end(root, monkeypatch):
    monkeypatch.setattr("wheelsmith.index.doctor.crawl.MAX_PAGE", 2**19)
    for change in (lambda body: body + b" " * 2**20, lambda body: gzip.compress(bytes(32 * 2**20))):
        encoding = "gzip" if change(b"")[:2] == b"\x1f\x8b" else None
        fault = on_pages(lambda a, c=change, e=encoding: with_header(content_encoding=e)(replace(a, body=c(a.body))))
        with spoiled(root, fault) as url:
            diagnosis = examine(url, replace(ONE, projects=("kernel",)))
        assert any("it is larger than" in what for what in diagnosis.unexamined)


def test_a_wheel_that_is_too_large_is_not_downloaded_whole(root, monkeypatch):
    monkeypatch.setattr("wheelsmith.index.doctor.crawl._MAX_WHEEL", 200)
    with serving(root) as url:
        diagnosis = examine(url, ONE)
    assert (diagnosis.findings, len(diagnosis.unexamined)) == ((), 1)
    assert "its hash, because it is larger than" in diagnosis.unexamined[0]


def test_links_of_other_schemes_are_never_followed(root, tmp_path):
    secret = tmp_path / "kernel-9-py3-none-any.whl"
    secret.write_bytes(b"secret")
    with spoiled(root, in_json(lambda data: data["files"][0].update(url=secret.as_uri()))) as url:
        diagnosis = examine(url, replace(ONE, max_wheels=9))
    assert (diagnosis.ok, diagnosis.wheels) == (True, 1)
    away = Answer(302, {"location": secret.as_uri()})
    with spoiled(root, lambda asked, right: away if is_kernel(asked) else right(asked)) as url:
        assert rules(examine(url, ONE)) == {"no-answer"}


def test_a_look_has_an_end(root, monkeypatch):
    monkeypatch.setattr("wheelsmith.index.doctor.http_exchange._REQUEST_SECONDS", 0.2)
    with dripping() as url, pytest.raises(PackageIndexError, match="took longer than"):
        examine(url)
    monkeypatch.setattr("wheelsmith.index.doctor.http_exchange._SECONDS", 0.0)
    with serving(root) as url:
        assert examine(url, ONE).unexamined == ("the rest: the time limit of 0s was reached",)


def test_credentials_go_home_and_nowhere_else(root, tmp_path, monkeypatch):
    heard = set()

    def remember(name):
        def fault(asked, right):
            heard.add((name, asked.headers.get("authorization")))
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
            basic = "Basic dXNlcjpzM2NyZXQ="
            assert heard == {("home", basic), ("files", None)}
            assert ("page-missing" in answer.output, "s3cret" in answer.output, answer.exit_code) == (True, False, 1)
            heard.clear()
            (tmp_path / "netrc").write_text("machine 127.0.0.1 login user password s3cret\n")
            monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
            examine(url, replace(ONE, max_wheels=0))
            assert heard == {("home", basic)}


def test_what_a_server_says_moves_no_cursor_and_runs_in_no_shell(root):
    path = "/files/$(touch x)';touch x;'/kernel-8-py3-none-any.whl"

    def lie(data):
        data["files"].append({**data["files"][0], "filename": "kernel-8-py3-none-any.whl", "url": path})

    def spell(asked, right):
        answer = in_json(lie)(asked, right)
        return with_header(cache_control="max-age=\x1b[2J")(answer) if asked.page else answer

    with spoiled(root, spell) as url:
        answer = CliRunner().invoke(doctor, [url, "--root", "cpu"])
    assert "\x1b" not in answer.output
    assert "stale-pages: pages count as fresh for \\x1b[2j s" in answer.output
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
        examine("http://127.0.0.1:9/")


def test_the_command_tells_people_and_pipelines_the_same(root):
    with serving(root) as url:
        good = CliRunner().invoke(doctor, [url])
        assert (good.exit_code, "no problems found" in good.output) == (0, True)
        assert "3 roots, 5 pages, 4 wheels; " in good.output
    with spoiled(root, on_pages(with_header(cache_control="max-age=600", content_type="text/plain"))) as url:
        for_people = CliRunner().invoke(doctor, [url, "--root", "cpu"])
        for_pipelines = CliRunner().invoke(doctor, [url, "--root", "cpu", "--json"])
    assert for_people.exit_code == for_pipelines.exit_code == 1
    data = json.loads(for_pipelines.output)
    assert data["schema_version"] == 1
    assert [(f["rule"], f["severity"]) for f in data["findings"]] == [
        ("content-type", "error"),
        ("stale-pages", "warning"),
    ]
    for found in data["findings"]:
        assert f"{found['rule']}: {found['message']} ({', '.join(found['hurts'])})" in for_people.output
        assert f"help: {found['remedy']}" in for_people.output
    assert "1 error, 1 warning" in for_people.output
