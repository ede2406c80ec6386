"""The doctor before a right server, before servers that each do one thing wrong, and before hostile ones."""

import gzip
from dataclasses import dataclass, replace

import pytest
from wheels import make_wheel, offer
from wrong_server import (
    JSON,
    Answer,
    Fault,
    Overrides,
    Right,
    deaf_to,
    for_absent,
    html_alone,
    in_files,
    in_json,
    instead,
    on_files,
    on_pages,
    serving,
    spoiled,
    with_header,
    with_link,
)

from wheelsmith.index.doctor import Severity, WalkScope, examine
from wheelsmith.index.publish import Index
from wheelsmith.index.storage import Folder
from wheelsmith.model import Cell

NOW = "2026-01-02T03:04:05Z"
ERROR, WARNING, ADVICE = Severity
BOTH = {"pip", "uv"}
PEOPLE = {"--find-links", "browsers"}
OLD = {"pip before 22.2", "mirrors"}


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
    Index(Folder(index)).add(offers, upload_time=NOW)
    return index


def test_the_development_server_gives_nothing_to_complain_of(root):
    with serving(root) as url:
        diagnosis = examine(url)
        assert (diagnosis.findings, diagnosis.unexamined, diagnosis.host) == ((), (), "wheelsmith")
        assert diagnosis.roots == (f"{url}/simple/", f"{url}/cpu/", f"{url}/cu130/")
        assert (diagnosis.pages, diagnosis.wheels) == (5, 4)
        alone = examine(f"{url}/cu130")
        assert (alone.findings, alone.roots, alone.wheels) == ((), (f"{url}/cu130/",), 1)


@dataclass(frozen=True)
class Case:
    """A fault, the one rule that names it, and rules that it breaks by the way."""

    fault: Fault
    rule: str
    severity: Severity
    hurts: set[str]
    besides: frozenset[str] = frozenset()


def case(fault, rule, severity, hurts, *besides):
    return Case(fault, rule, severity, set(hurts), frozenset(besides))


def is_kernel(asked: Overrides) -> bool:
    return asked.page and "/kernel/" in asked.path


def is_wheel(asked: Overrides) -> bool:
    return asked.path.endswith(".whl")


def also_without_slash(asked: Overrides, right: Right) -> Answer:
    return right(replace(asked, path=f"{asked.path.removesuffix('/')}/")) if asked.page else right(asked)


def away_from_the_slash(asked: Overrides, right: Right) -> Answer:
    if asked.page and asked.path.endswith("/"):
        return Answer(301, {"location": asked.path.removesuffix("/")})
    return also_without_slash(asked, right)


def slash_on_another_port(asked: Overrides, right: Right) -> Answer:
    answer = right(asked)
    # Port 9 is nobody's: what a server behind a proxy believes to be its own.
    return with_header(location=f"http://127.0.0.1:9{asked.path}/")(answer) if answer.status == 301 else answer


def json_for_all(asked: Overrides, right: Right) -> Answer:
    answer = right(replace(asked, headers={**asked.headers, "accept": JSON}) if asked.page else asked)
    return with_header(vary=None)(answer)


def one_tag(asked: Overrides, right: Right) -> Answer:
    if asked.headers.get("if-none-match") == '"same"':
        return Answer(304)
    return on_pages(with_header(etag='"same"'))(asked, right)


def raw_plus(asked: Overrides, right: Right) -> Answer:
    return on_pages(lambda answer: replace(answer, body=answer.body.replace(b"%2B", b"+")))(asked, right)


def deaf_to_escapes(asked: Overrides, right: Right) -> Answer:
    return Answer(404) if "%2B" in asked.path else raw_plus(asked, right)


def as_s3_reads_plus(asked: Overrides, right: Right) -> Answer:
    return raw_plus(replace(asked, path=asked.path.replace("+", "%20")), right)


def no_head(asked: Overrides, right: Right) -> Answer:
    return Answer(405) if asked.method == "HEAD" else unannounced(asked, right)


def one_more_file(data: dict) -> None:
    data["files"].append({**data["files"][0], "filename": "kernel-9-py3-none-any.whl"})
    data["versions"].append("9")


def compressed(answer: Answer) -> Answer:
    return with_header(content_encoding="gzip")(replace(answer, body=gzip.compress(answer.body)))


def zeros(answer: Answer) -> Answer:
    return replace(answer, body=bytes(len(answer.body))) if answer.status == 206 else answer


unannounced = in_files(core_metadata=None, dist_info_metadata=None)
spoiled_wheel = on_files(lambda answer: replace(answer, body=answer.body.replace(b"kernel", b"kernal")))
other_side_car = on_files(lambda answer: replace(answer, body=answer.body + b"\n"), ".metadata")
MODIFIED = "Sat, 21 Nov 2026 11:11:48 GMT"
SHA = "0" * 64

CASES = {
    "plain text": case(
        on_pages(with_header(content_type="text/plain")), "content-type", ERROR, BOTH, "page-for-people"
    ),
    "bytes": case(
        on_pages(with_header(content_type="application/octet-stream")), "content-type", ERROR, BOTH, "page-for-people"
    ),
    "any json": case(
        lambda a, r: on_pages(with_header(content_type="application/json"))(a, lambda b: json_for_all(b, r)),
        *("content-type", ERROR, BOTH, "page-for-people"),
    ),
    "no type": case(on_pages(with_header(content_type=None)), "content-type", ERROR, BOTH, "page-for-people"),
    "capital type": case(
        lambda a, r: on_pages(with_header(content_type="Text/HTML"))(a, lambda b: html_alone(str)(b, r)),
        *("content-type", ERROR, {"uv"}, "no-json"),
    ),
    "no json behind its type": case(
        lambda a, r: on_pages(lambda x: replace(x, body=b"<p>"))(a, r) if is_kernel(a) else r(a),
        *("unreadable-page", ERROR, BOTH),
    ),
    "no json": case(html_alone(str), "no-json", ADVICE, {"pip"}),
    "json for all": case(json_for_all, "only-json", WARNING, {"pip before 22.2", "browsers"}),
    "no vary": case(on_pages(with_header(vary=None)), "vary", WARNING, {"caches", "CDNs"}),
    "vary for nothing": case(
        lambda a, r: with_header(vary="Accept")(html_alone(str)(a, r)),
        *("needless-vary", ADVICE, {"caches", "CDNs"}, "no-json"),
    ),
    "brotli unasked": case(on_pages(with_header(content_encoding="br")), "page-encoding", ERROR, BOTH),
    "no folder index": case(instead(404, lambda a: a.page and a.path.endswith("/")), "folder-index", ERROR, BOTH),
    "no page": case(instead(404, is_kernel), "page-missing", ERROR, BOTH),
    "forbidden page": case(instead(403, is_kernel), "refused", ERROR, BOTH),
    "a loop": case(lambda a, r: Answer(302, {"location": a.path}) if is_kernel(a) else r(a), "no-answer", ERROR, BOTH),
    "away from the slash": case(away_from_the_slash, "slash-dropped", ERROR, BOTH, "wheel-missing"),
    "page without slash": case(also_without_slash, "slash-optional", WARNING, PEOPLE),
    "slash elsewhere": case(slash_on_another_port, "slash-redirect", WARNING, PEOPLE),
    "nothing without slash": case(
        instead(404, lambda a: a.page and not a.path.endswith("/")), "no-slash", ADVICE, PEOPLE
    ),
    "403 for absent": case(for_absent(403), "absent-project", ERROR, {"uv"}),
    "410 for absent": case(for_absent(410), "absent-project", ERROR, {"uv"}),
    "200 for absent": case(for_absent(200, **{"content-type": "text/html"}), "absent-project", ERROR, {"uv"}),
    "absent goes home": case(for_absent(302, location="/cpu/"), "absent-project", ERROR, {"uv"}),
    "no-store": case(on_pages(with_header(cache_control="no-store")), "no-store", WARNING, {"pip from 26.2", "uv"}),
    "ten minutes": case(
        on_pages(with_header(cache_control="max-age=600")), "stale-pages", WARNING, {"pip from 26.2", "uv"}
    ),
    "unsaid freshness": case(
        on_pages(with_header(cache_control=None, last_modified=MODIFIED)), "stale-pages", WARNING, {"uv"}
    ),
    "no tag": case(on_pages(with_header(etag=None)), "no-validator", WARNING, BOTH),
    "always 304": case(instead(304, lambda a: "if-none-match" in a.headers), "always-unchanged", ERROR, BOTH),
    "never 304": case(deaf_to("if-none-match", lambda a: True), "never-unchanged", WARNING, BOTH),
    "one tag for both": case(one_tag, "shared-etag", WARNING, BOTH),
    "wheels unkept": case(on_files(with_header(cache_control="no-store")), "wheel-caching", WARNING, BOTH),
    "wheels for a minute": case(
        on_files(with_header(cache_control="max-age=60")), "wheel-caching", ADVICE, {*BOTH, "CDNs"}
    ),
    "no hashes key": case(in_files(hashes=None), "json-shape", ERROR, {"uv"}, "no-hash", "disagreement"),
    "size as text": case(in_files(size="5"), "json-shape", ERROR, {"uv"}, "disagreement"),
    "no hashes": case(in_files(hashes={}), "no-hash", WARNING, BOTH, "disagreement"),
    "hash of another": case(in_files(hashes={"sha256": SHA}), "wheel-hash", ERROR, BOTH, "disagreement"),
    "md5 alone": case(
        html_alone(lambda t: t.replace("#sha256=", "#md5=")), *("weak-hash", WARNING, BOTH, "no-json", "wheel-hash")
    ),
    "nameless hash": case(html_alone(lambda t: t.replace("#sha256=", "#")), "no-hash", WARNING, BOTH, "no-json"),
    "unknown hash": case(
        html_alone(lambda t: t.replace("#sha256=", "#crc=")), "hash-unknown", ERROR, {"uv"}, "no-json"
    ),
    "short hash": case(in_files(hashes={"sha256": "00"}), "hash-form", ERROR, BOTH, "wheel-hash", "disagreement"),
    "no size": case(in_files(size=None), "no-size", WARNING, {"uv"}, "disagreement"),
    "wrong size": case(in_files(size=5), "wheel-size", WARNING, {"uv"}, "disagreement"),
    "no time": case(in_files(upload_time=None), "no-upload-time", WARNING, BOTH, "disagreement"),
    "time in words": case(in_files(upload_time="yesterday"), "upload-time", ERROR, BOTH, "disagreement"),
    "time of another form": case(
        in_files(upload_time="2026-01-02T03:04:05+00:00"), "upload-time", ADVICE, BOTH, "disagreement"
    ),
    "no versions": case(in_json(lambda d: d.pop("versions")), "versions", WARNING, {"mirrors"}),
    "other versions": case(in_json(lambda d: d.update(versions=["3"])), "versions", WARNING, {"mirrors"}),
    "api 2.0": case(in_json(lambda d: d["meta"].update({"api-version": "2.0"})), "api-version", WARNING, BOTH),
    "no api": case(in_json(lambda d: d.pop("meta")), "api-version", ADVICE, BOTH),
    "empty yank": case(in_files(yanked=""), "empty-yank", WARNING, BOTH, "disagreement"),
    "the old key": case(in_files(dist_info_metadata={"sha256": SHA}), "old-side-car-key", ERROR, {"pip 22.3 to 23.1"}),
    "the old key says no": case(in_files(dist_info_metadata=False), "old-side-car-key", ERROR, {"pip 22.3 to 23.1"}),
    "no specifier": case(in_files(requires_python="~3"), "requires-python", ERROR, {"uv"}, "disagreement"),
    "side-cars untold": case(unannounced, "no-side-car", WARNING, BOTH, "disagreement"),
    "a file more": case(in_json(one_more_file), "disagreement", WARNING, OLD),
    "other text": case(
        html_alone(lambda t: t.replace(".whl</a>", "</a>")), "link-text", ADVICE, {"mirrors"}, "no-json"
    ),
    "javascript": case(
        with_link('<a href="javascript:alert(1)">x</a>'), "strange-link", WARNING, {"browsers"}, "no-json"
    ),
    "a file url": case(
        with_link(f'<a href="file:///etc/kernel-9-py3-none-any.whl#sha256={SHA}">kernel-9-py3-none-any.whl</a>'),
        *("foreign-scheme", ERROR, BOTH, "no-json", "no-side-car", "no-upload-time"),
    ),
    "half a url": case(with_link('<a href="http://[">x</a>'), "broken-link", ERROR, {"pip"}, "no-json"),
    "no wheel's name": case(
        with_link(f'<a href="kernel.whl#sha256={SHA}">kernel.whl</a>'),
        *("wheel-name", WARNING, BOTH, "no-json", "no-side-car", "no-upload-time"),
    ),
    "no project's name": case(
        with_link('<a href="x/">not a name</a>'), "project-name", WARNING, {"mirrors"}, "no-json"
    ),
    "no wheel": case(instead(404, is_wheel), "wheel-missing", ERROR, BOTH),
    "no escapes": case(deaf_to_escapes, "plus-quoted", ERROR, {"pip"}),
    "+ is a space": case(as_s3_reads_plus, "plus-raw", ERROR, {"uv"}),
    "+ in links": case(raw_plus, "plus-raw", ADVICE, {"uv"}),
    "compressed wheel": case(on_files(compressed), "wheel-encoding", ERROR, {"pip"}),
    "other bytes": case(spoiled_wheel, "wheel-hash", ERROR, BOTH),
    "no side-car": case(instead(404, lambda a: a.path.endswith(".metadata")), "side-car-missing", ERROR, BOTH),
    "compressed side-car": case(on_files(compressed, ".metadata"), "side-car-encoding", ERROR, {"pip"}),
    "other side-car": case(other_side_car, "side-car-hash", ERROR, BOTH, "side-car-differs"),
    "no parts": case(deaf_to("range", is_wheel), "ranges", WARNING, BOTH),
    "wrong parts": case(on_files(zeros), "wrong-ranges", WARNING, BOTH),
    "no head": case(no_head, "head", WARNING, {"uv"}, "no-side-car", "disagreement"),
    "state for all": case(
        lambda a, r: Answer(200, {}, b"{}") if a.path.startswith("/_state/") else r(a),
        *("state", ADVICE, {"publishers"}),
    ),
    "pages for people as bytes": case(instead(200, lambda a: a.path == "/"), "page-for-people", WARNING, {"browsers"}),
}


@pytest.mark.parametrize("name", CASES)
def test_each_fault_is_named(name, root):
    wanted = CASES[name]
    with spoiled(root, wanted.fault, prefix="/pre/fix") as url:
        diagnosis = examine(url, WalkScope(roots=("cpu",), most_projects=1, most_wheels=1))
    named = [finding for finding in diagnosis.findings if finding.rule == wanted.rule]
    assert {finding.rule for finding in diagnosis.findings} == {wanted.rule} | wanted.besides
    assert (named[0].severity, set(named[0].hurts)) == (wanted.severity, wanted.hurts)
    assert named[0].remedy
    assert named[0].command.startswith("curl -sSL ")
    assert diagnosis.ok is all(finding.severity is not ERROR for finding in diagnosis.findings)
