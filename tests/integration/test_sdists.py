"""An sdist of the user's own package index is a source: found once, by its hash ever after, and not run for a plan."""

import gzip
import hashlib
import io
import json
import shutil
import tarfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from command_line import run_command
from kernels import matrix, pure_kernel

from wheelsmith.base.beneath import remove_tree
from wheelsmith.base.errors import MatrixMistakesError, SourceError
from wheelsmith.run import prepare as preparing
from wheelsmith.run.prepare import Request, prepare
from wheelsmith.run.project_source import parse_source

MATRIX = "kernel: {sdist: %s}\naxes: {torch: [2.13], cuda: [cpu], python: ['3.99']}\n"


def sdist(name="thing", version="1.0", text="raise SystemExit('never run to plan')\n", **more):
    files = {"setup.py": text, "PKG-INFO": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n", **more}
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as archive:
        for path, content in files.items():
            info = tarfile.TarInfo(f"{name}-{version}/{path}")
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content.encode()))
    return gzip.compress(data.getvalue(), mtime=0)


class Shelf:
    """A package index: what it has of each project, and how often it was asked."""

    def __init__(self):
        self.files, self.told, self.yanked, self.asked = {}, {}, {}, []
        self.html = False
        self.page = None

    def has(self, filename, data):
        self.files[filename] = data

    def listing(self):
        for name, data in self.files.items():
            sha256 = self.told.get(name, hashlib.sha256(data).hexdigest())
            yield name, {"sha256": sha256} if sha256 else {}, self.yanked.get(name, False)

    def answer(self, path):
        """Return status, type and content."""
        self.asked.append(path)
        if path.startswith("/files/"):
            return 200, "application/octet-stream", self.files[path.removeprefix("/files/")]
        if path != "/simple/thing/":
            return 404, "text/plain", b""
        if self.page:
            return self.page
        if self.html:
            lines = (
                f'<a href="/files/{name}{"#sha256=" + hashes["sha256"] if hashes else ""}"'
                f'{f""" data-yanked="{yanked}" """ if yanked is not False else ""}>{name}</a>'
                for name, hashes, yanked in self.listing()
            )
            return 200, "text/html", "\n".join(lines).encode()
        files = [
            {"filename": name, "url": f"/files/{name}", "hashes": hashes, "yanked": yanked}
            for name, hashes, yanked in self.listing()
        ]
        page = {"meta": {"api-version": "1.0"}, "name": "thing", "files": files}
        return 200, "application/vnd.pypi.simple.v1+json", json.dumps(page).encode()


@pytest.fixture
def shelf(monkeypatch):
    shelf = Shelf()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            status, kind, content = shelf.answer(self.path)
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        shelf.url = f"http://127.0.0.1:{server.server_port}/simple"
        for name in ("PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS", "PIP_NO_INDEX"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("PIP_INDEX_URL", shelf.url)
        yield shelf
        server.shutdown()


@pytest.fixture
def plan(tmp_path):
    """Plan a release's sdist."""

    def plan(requirement="thing==1.0", matrix=MATRIX):
        (tmp_path / "matrix.yaml").write_text(matrix % requirement)
        request = Request(matrix=tmp_path / "matrix.yaml", cache=tmp_path / "cache", engine="local")
        return prepare(request, lambda event: None)

    yield plan
    remove_tree(tmp_path / "cache")


def test_the_newest_that_one_can_name(shelf, tmp_path):
    for version in ("1.0", "1.2", "1.2+cu130", "1.3", "2.0rc1"):
        shelf.has(f"thing-{version}.tar.gz", b"")
    shelf.yanked["thing-1.3.tar.gz"] = "broken"
    assert parse_source("thing", tmp_path).sdist == "thing==1.2"


@pytest.mark.parametrize("yanked", [False, True], ids=["offered", "yanked"])
def test_a_newer_release_without_an_sdist_is_named(shelf, tmp_path, yanked):
    shelf.has("thing-1.0.tar.gz", b"")
    shelf.has("thing-1.2-cp311-cp311-win_amd64.whl", b"")
    shelf.has("thing-2.0rc1-py3-none-any.whl", b"")
    if yanked:
        shelf.yanked["thing-1.2-cp311-cp311-win_amd64.whl"] = ""
    told = []
    assert parse_source("thing", tmp_path, told.append).sdist == "thing==1.0"
    said = "thing 1.2 has no sdist, so this is 1.0; for 1.2, use its git repository: git+https://"
    assert [event.text.startswith(said) for event in told] == [True] * (not yanked)


@pytest.mark.parametrize("requirement", ["thing", "thing==1.2"])
def test_a_project_without_any_sdist_is_to_be_had_from_git(shelf, plan, tmp_path, requirement):
    shelf.has("thing-1.2-py3-none-any.whl", b"")
    with pytest.raises(SourceError) as caught:
        plan(requirement) if "=" in requirement else parse_source(requirement, tmp_path)
    assert "no sdist of thing, but wheels up to 1.2" in caught.value.message
    assert "git+https://" in caught.value.remedy


@pytest.mark.parametrize("html", [False, True], ids=["json", "html"])
def test_an_sdist_is_planned_and_not_run(shelf, plan, html):
    shelf.html = html
    shelf.has("thing-1.0.tar.gz", sdist())
    shelf.has("thing-1.0-py3-none-any.whl", b"never looked at")
    found = plan("Thing == 1.0")
    assert found.source.id.origin == "sdist:thing==1.0"
    assert found.source.id.commit == hashlib.sha256(sdist()).hexdigest()
    assert found.source.paths == ("PKG-INFO", "setup.py")
    assert (found.distribution, found.version) == ("thing", "1.0")
    assert found.kernel == f"thing==1.0 @{found.source.id.commit[:7]}"
    assert shelf.asked == ["/simple/thing/", "/files/thing-1.0.tar.gz"]


@pytest.mark.parametrize(
    ("name", "version", "own"),
    [
        ("evil", "1.0", {}),
        ("thing", "1.1", {}),
        ("thing", "1.0", {"pyproject.toml": "[project]\nname = 'torch'\nversion = '1.0'\n"}),
    ],
)
def test_an_sdist_that_is_another_project_or_release_is_refused(shelf, plan, name, version, own):
    shelf.has("thing-1.0.tar.gz", sdist(name, version, **own))
    with pytest.raises(SourceError, match=r"the sdist of thing 1\.0 contains "):
        plan()


def test_a_stranger_is_not_trusted_as_a_folder_is(shelf, plan, monkeypatch):
    asked = []
    real = preparing.choose
    monkeypatch.setattr(preparing, "choose", lambda *args, **more: asked.append(more["trusted"]) or real(*args, **more))
    shelf.has("thing-1.0.tar.gz", sdist())
    plan()
    assert asked == [False]


def test_what_was_found_once_stays_the_same(shelf, plan, tmp_path):
    shelf.has("thing-1.0.tar.gz", sdist())
    before = plan().source.id
    shelf.asked.clear()
    shelf.files["thing-1.0.tar.gz"] = sdist(text="another\n")
    assert plan().source.id == before
    assert shelf.asked == []
    remove_tree(tmp_path / "cache/sources")
    with pytest.raises(SourceError, match=r"no configured index offers thing-1\.0\.tar\.gz"):
        plan()
    shelf.files["thing-1.0.tar.gz"] = sdist()
    assert plan().source.id == before


def test_a_file_that_the_page_does_not_tell_of_is_refused(shelf, plan, tmp_path):
    shelf.has("thing-1.0.tar.gz", sdist())
    shelf.told["thing-1.0.tar.gz"] = "0" * 64
    with pytest.raises(SourceError, match="its sha256 differs"):
        plan()
    assert not list((tmp_path / "cache").glob("locks/*"))
    assert not list((tmp_path / "cache").glob("sources/*"))
    shelf.told["thing-1.0.tar.gz"] = ""  # an index that tells of no hash
    assert plan().source.id.commit == hashlib.sha256(sdist()).hexdigest()


@pytest.mark.parametrize(
    ("requirement", "words", "remedy"),
    [
        (
            "thing==9",
            "no configured index has an sdist of thing 9",
            "the indexes have 1.8, 1.7, 1.6, 1.5, 1.4 and older ones",
        ),
        ("thing==2.0", "thing 2.0 was yanked: it deletes", "the indexes have 1.8"),
        ("other==1", "no configured index has an sdist of other", "PIP_EXTRA_INDEX_URL="),
    ],
    ids=["missing", "yanked", "unknown"],
)
def test_a_release_that_is_not_there_names_those_that_are(shelf, plan, requirement, words, remedy):
    for minor in range(9):
        shelf.has(f"thing-1.{minor}.tar.gz", sdist())
    shelf.has("thing-2.0.tar.gz", sdist())
    shelf.yanked["thing-2.0.tar.gz"] = "it deletes"
    shelf.has("thing-3.0-py3-none-any.whl", b"")
    shelf.has("thing-2.5.tar.bz2", b"")
    shelf.has("thingy-9.tar.gz", b"")
    with pytest.raises(SourceError) as caught:
        plan(requirement)
    assert words in caught.value.message
    assert remedy in caught.value.remedy


def test_an_index_that_does_not_answer_is_not_passed_over(shelf, plan, monkeypatch):
    shelf.has("thing-1.0.tar.gz", sdist())
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", shelf.url)
    with pytest.raises(SourceError, match=r"thing could not be looked up \(127\.0\.0\.1: "):
        plan()
    assert shelf.asked == []


def test_the_first_index_that_has_it_is_taken(shelf, plan, monkeypatch, tmp_path):
    shelf.has("thing-1.0.zip", b"never looked at")
    shelf.has("thing-1.0.tar.gz", sdist())
    (tmp_path / "empty").mkdir()
    monkeypatch.setenv("PIP_INDEX_URL", (tmp_path / "empty").as_uri())
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", shelf.url)
    assert plan().source.id.commit == hashlib.sha256(sdist()).hexdigest()


def test_a_folder_of_the_users_comes_first(shelf, plan, monkeypatch, tmp_path):
    shelf.has("thing-1.0.tar.gz", sdist())
    own = sdist(text="own\n")
    (tmp_path / "own").mkdir()
    (tmp_path / "own/thing-1.0.tar.gz").write_bytes(own)
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "own"))
    assert plan().source.id.commit == hashlib.sha256(own).hexdigest()
    assert shelf.asked == []


JSON = "application/vnd.pypi.simple.v1+json"


@pytest.mark.parametrize(
    ("kind", "page"),
    [
        (JSON, b"["),
        (JSON, b'{"meta": {"api-version": "1.0"}, "name": "thing", "files": [5, null, {}, {"filename": []}]}'),
        (JSON, b'{"meta": {"api-version": "1.0"}, "name": "thing", "files": ' + b"[" * 100_000),
        ("text/html", b'<a href="/files/x">thing-1.0.tar.gz/../../x</a>'),
    ],
)
def test_a_page_that_is_none_gives_a_clear_answer(shelf, plan, kind, page):
    shelf.page = (200, kind, page)
    with pytest.raises(SourceError, match=r"could not be looked up|no configured index has|could not be fetched"):
        plan()


@pytest.mark.parametrize(
    "requirement",
    ["thing", "thing>=1", "thing==1.*", "'thing[x]==1'", "thing==1+cu130"],
)
def test_only_one_release_can_be_named(plan, requirement):
    with pytest.raises(MatrixMistakesError) as caught:
        plan(requirement)
    assert "is not a release such as torch-scatter==2.1.2" in caught.value.mistakes[0].message


@pytest.mark.release("builds a kernel twice")
def test_a_kernel_in_an_archive_is_the_build_that_it_is_in_its_folder(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WHEELSMITH_CACHE", str(tmp_path / "cache"))
    shutil.make_archive("k", "gztar", pure_kernel(tmp_path / "k"))
    for source, status in (("k.tar.gz", "built"), ("k", "cached")):
        matrix(tmp_path, source)
        answer = run_command(monkeypatch, capsys, "build-matrix", "--engine", "local", "--progress", "plain")
        assert answer.code == 0, answer.err
        (cell,) = json.loads((tmp_path / "dist/results.json").read_text())["cells"].values()
        assert cell["status"] == status
    remove_tree(tmp_path / "cache")
