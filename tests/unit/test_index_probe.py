"""Judgements of recorded answers, without a network."""

import hashlib
import re
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
from packaging.version import Version

import wheelsmith.index.doctor as room
from wheelsmith.index.doctor import Severity
from wheelsmith.index.doctor.caching import directives, judge_page_caching, judge_wheel_caching
from wheelsmith.index.doctor.contents import judge_contents
from wheelsmith.index.doctor.exchange import JSON, Exchange, origin
from wheelsmith.index.doctor.finding import Diagnosis, finding, merged
from wheelsmith.index.doctor.hosts import host_of, remedy
from wheelsmith.index.doctor.names import variant_of, wheel_of
from wheelsmith.index.doctor.page import MOST_LINKS, Link, UnreadablePageError, read_page
from wheelsmith.index.doctor.reach import judge_absent, judge_reach, judge_transport
from wheelsmith.index.doctor.visit import PageVisit, WheelVisit
from wheelsmith.index.doctor.wheels import UnreadableWheelError, judge_variants, judge_wheel, metadata_of

HERE = Path(room.__file__).parent
URL = "https://wheels.example.org/whl/cpu/kernel/"
WHEEL = "https://wheels.example.org/files/kernel-1%2Bcpu-py3-none-any.whl"
SHA = "ab" * 32
HTML = f'<meta name="pypi:repository-version" content="1.4"><a href="{WHEEL}#sha256={SHA}"'
REST = (
    ' data-core-metadata="true" data-size="5" data-upload-time="2026-01-02T03:04:05Z">kernel-1+cpu-py3-none-any.whl</a>'
)


def page(body=HTML + REST, url=URL, **headers):
    given = {"content_type": "text/html", "cache_control": "no-cache", "etag": '"1"'} | headers
    return Exchange(
        url=url,
        status=200,
        headers={name.replace("_", "-"): value for name, value in given.items() if value is not None},
        body=body.encode(),
    )


def visit(exchange, **others):
    return PageVisit(**{"project": "kernel", "pip": exchange, "uv": exchange, "html": exchange, **others})


def rules(findings):
    return [found.rule for found in findings]


def wheel(status=200, link=None, **others):
    link = link or Link(filename="kernel-1+cpu-py3-none-any.whl", href=WHEEL, url=WHEEL, hashes={}, metadata=True)
    answer = Exchange(url=WHEEL, status=status, headers={"cache-control": "max-age=365000000, immutable"})
    return WheelVisit(**{"link": link, "page": URL, "head": answer, "whole": answer, **others})


def test_every_rule_has_a_remedy_and_every_remedy_a_rule():
    source = "".join(path.read_text() for path in HERE.glob("*.py"))
    used = set(re.findall(r'finding\(\s*"([a-z-]+)"', source))
    remedies = tomllib.loads((HERE / "remedies.toml").read_text())
    assert used == set(remedies)
    assert all(texts["any"] for texts in remedies.values())
    known = set(re.findall(r'^    \("([a-z0-9-]+)", ', (HERE / "hosts.py").read_text(), re.MULTILINE)) | {
        "s3-website",
        "any",
    }
    assert {host for texts in remedies.values() for host in texts} <= known


def test_remedies_point_at_files_that_are_there():
    text = (HERE / "remedies.toml").read_text()
    docs = set(re.findall(r"docs/[\w./-]+\w", text))
    assert len(docs) > 3
    assert all((HERE.parent.parent.parent / path).is_file() for path in docs)


@pytest.mark.parametrize(
    ("host", "url", "headers"),
    [
        ("nginx", URL, {"server": "nginx/1.22.1"}),
        ("s3", URL, {"server": "AmazonS3"}),
        ("s3-website", "http://b.s3-website-eu-west-1.amazonaws.com/", {"server": "AmazonS3"}),
        ("cloudfront", URL, {"server": "AmazonS3", "x-amz-cf-id": "x", "x-amz-request-id": "y"}),
        ("cloudflare", URL, {"server": "cloudflare", "x-amz-request-id": "y"}),
        ("gcs", "https://storage.googleapis.com/b/", {"server": "UploadServer"}),
        ("azure", "https://b.z6.web.core.windows.net/", {}),
        ("github", "https://org.github.io/whl/", {"server": "GitHub.com"}),
        ("huggingface", "https://huggingface.co/org/name/resolve/main/", {}),
        ("wheelsmith", URL, {"server": "wheelsmith Python/3.11.7"}),
        ("unknown", "https://githubXio.example/", {"server": "Apache"}),
        ("unknown", "http://[", {}),
    ],
)
def test_the_host_is_guessed_from_what_it_sends(host, url, headers):
    assert host_of(Exchange(url=url, status=200, headers=headers)) == host


def test_the_remedy_is_the_hosts_own_where_there_is_one():
    assert "nginx.conf" in remedy("vary", "nginx")
    assert remedy("vary", "azure") == remedy("vary", "unknown")


def test_credentials_are_never_shown():
    assert origin("HTTPS://H.org:443/x") == origin("https://h.org/")


def test_a_command_survives_a_shell():
    asked = Exchange(url="https://h.org/$(x)';y", method="HEAD", sent={"accept": "a, b; q=0.1"})
    assert asked.command == """curl -sSL -I -H 'accept: a, b; q=0.1' 'https://h.org/$(x)'"'"';y'"""


@pytest.mark.parametrize(
    ("url", "found"),
    [
        (URL, []),
        ("http://127.0.0.1:8000/", []),
        ("http://[::1]:8000/", []),
        ("http://localhost/", []),
        ("http://wheels.example.org/", ["no-tls"]),
        ("http://192.0.2.1/", ["no-tls"]),
    ],
)
def test_pip_trusts_tls_and_this_machine_alone(url, found):
    assert rules(judge_transport(url, page(url=url))) == found


@pytest.mark.parametrize(("status", "found"), [(404, 0), (401, 1), (403, 1), (410, 1), (500, 1), (200, 1), (304, 1)])
def test_404_alone_lets_uv_look_further(status, found):
    assert len(list(judge_absent(Exchange(url=URL, status=status)))) == found


@pytest.mark.parametrize(
    ("given", "pip", "uv"),
    [
        ("text/html", True, True),
        ("text/html; charset=utf-8", True, True),
        ("text/html ;charset=utf-8", True, False),
        ("Text/HTML", True, False),
        ("application/vnd.pypi.simple.v1+html", True, True),
        ("application/vnd.pypi.simple.latest+json", False, False),
        ("application/json", False, False),
        ("text/plain", False, False),
        ("", False, False),
    ],
)
def test_content_types_are_taken_as_each_client_takes_them(given, pip, uv):
    """Measured with pip 26.3 and uv 0.13.8 against a loopback server."""
    found = [f for f in judge_reach(visit(page(content_type=given))) if f.rule == "content-type"]
    hurt = set(found[0].hurts) if found else set()
    assert ("pip" not in hurt, "uv" not in hurt) == (pip, uv)


def test_a_list_of_projects_that_does_not_come_stops_no_installer():
    gone = Exchange(url=URL, status=500)
    for project, severity in ((None, Severity.WARNING), ("kernel", Severity.ERROR)):
        (found,) = judge_reach(visit(gone, project=project))
        assert (found.rule, found.severity) == ("page-missing", severity)


def test_links_are_relative_to_where_the_page_came_from():
    relative = page('<a href="../../files/kernel-1-py3-none-any.whl">x</a>')
    dropped = replace(relative, hops=(URL.removesuffix("/"),))
    assert ("slash-dropped", Severity.ERROR) in {(f.rule, f.severity) for f in judge_reach(visit(dropped))}
    absolute = replace(page(), hops=(URL.removesuffix("/"),))
    assert ("slash-dropped", Severity.WARNING) in {(f.rule, f.severity) for f in judge_reach(visit(absolute))}
    assert "slash-optional" not in rules(judge_reach(visit(page(), bare=page(url=URL.removesuffix("/")))))


def test_redirects_are_followed_and_judged():
    http = replace(page(), hops=("http://wheels.example.org/whl/cpu/kernel/",))
    assert "downgrade" in rules(judge_reach(visit(http)))
    away = replace(page(), hops=("https://cdn.example.org/whl/cpu/kernel/",))
    assert "other-host" in rules(judge_reach(visit(away)))
    assert "downgrade" in rules(
        judge_wheel(wheel(whole=replace(wheel().whole, hops=(WHEEL.replace("https", "http"),))))
    )


@pytest.mark.parametrize(
    ("headers", "found"),
    [
        ({}, []),
        ({"cache_control": "max-age=0"}, []),
        ({"cache_control": "public, max-age=0, must-revalidate"}, []),
        ({"cache_control": "max-age=600, no-cache"}, []),
        ({"cache_control": 'Max-Age="600"'}, ["stale-pages"]),
        ({"cache_control": "no-store, max-age=600"}, ["no-store"]),
        ({"cache_control": "max-age=" + "9" * 5000}, ["stale-pages"]),
        ({"cache_control": "max-age=-1"}, []),
        ({"cache_control": None}, []),
        ({"cache_control": None, "expires": "x"}, ["stale-pages"]),
        ({"cache_control": None, "etag": None, "last_modified": "x"}, ["stale-pages", "no-validator"]),
        ({"etag": None}, ["no-validator"]),
    ],
)
def test_pages_must_be_asked_for_again(headers, found):
    assert rules(judge_page_caching(visit(page(**headers)))) == found


def test_a_304_must_mean_something():
    same = Exchange(url=URL, status=304)
    assert rules(judge_page_caching(visit(page(), again=same, changed=page()))) == []
    assert rules(judge_page_caching(visit(page(), again=same, changed=same))) == ["always-unchanged"]
    assert rules(judge_page_caching(visit(page(), again=page(), changed=page()))) == ["never-unchanged"]


def test_large_pages_are_better_compressed():
    large = HTML + REST + " " * 200_000
    assert rules(judge_page_caching(visit(page(large)))) == ["uncompressed"]
    assert rules(judge_page_caching(visit(page(large, content_encoding="gzip")))) == []


@pytest.mark.parametrize(
    ("control", "severity"),
    [
        ("max-age=365000000, immutable", None),
        ("max-age=31536000", None),
        ("max-age=60", Severity.ADVICE),
        ("", Severity.ADVICE),
        ("no-cache", Severity.WARNING),
        ("no-store", Severity.WARNING),
    ],
)
def test_wheels_may_be_kept(control, severity):
    whole = replace(wheel().whole, headers={"cache-control": control})
    found = list(judge_wheel_caching(wheel(whole=whole)))
    assert [f.severity for f in found] == ([severity] if severity else [])


def test_cache_control_is_read_as_it_is_written():
    assert directives(page(cache_control=' Max-Age = "5" ,, NO-CACHE')) == {"max-age": "5", "no-cache": ""}


def test_a_page_that_is_as_it_should_be_is_not_complained_of():
    assert rules(judge_contents(visit(page()))) == []


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (HTML.replace("https:", "http:") + REST, ["mixed"]),
        (HTML.replace("#sha256=", "#md5=") + REST, ["weak-hash"]),
        (HTML.replace("#sha256=", "#egg=") + REST, ["hash-unknown"]),
        (HTML + REST.replace(' data-core-metadata="true"', ""), ["no-side-car"]),
        (HTML + ' data-requires-python=">=3.9,"' + REST, []),
        (HTML + ' data-requires-python="three"' + REST, ["requires-python"]),
        (HTML.replace("1.4", "1.9") + REST, ["api-version"]),
        (HTML.replace("1.4", "one") + REST, ["api-version"]),
        (HTML + REST + "<a href='data:text/html,x'>y</a>", ["strange-link"]),
        (HTML + REST + "<a href='http://h:99999/x.whl'>y</a>", ["broken-link"]),
        (HTML + REST + "<a href='../../'>up</a><a>none</a>", []),
    ],
)
def test_what_html_says_is_judged(body, found):
    assert rules(judge_contents(visit(page(body)))) == found


PLAIN = "kernel-1+cpu-py3-none-any.whl"
VARIANT = "kernel-1+cpu-py3-none-any-cu130.whl"


def test_names_tell_wheels_from_variants():
    assert wheel_of(PLAIN) == variant_of(VARIANT) == ("kernel", Version("1+cpu"))
    assert wheel_of(VARIANT) is variant_of(PLAIN) is variant_of("kernel-1.tar.gz") is variant_of("kernel.whl") is None
    assert wheel_of("kernel-1-2cuda-py3-none-any.whl") == variant_of("kernel-1-2cuda-py3-none-any-null.whl")


def test_variant_wheels_need_a_file_that_describes_them():
    anchor = HTML.replace(PLAIN.replace("+", "%2B"), VARIANT.replace("+", "%2B")) + REST.replace(PLAIN, VARIANT)
    assert rules(judge_contents(visit(page(anchor)))) == ["variants"]
    name = "kernel-1+cpu-variants.json"
    described = f'<a href="{name}#sha256={SHA}" data-upload-time="2026-01-02T03:04:05Z">{name}</a>'
    assert rules(judge_contents(visit(page(anchor + described)))) == []
    assert rules(judge_contents(visit(page(anchor + described.replace("kernel-1", "kernel-2"))))) == ["variants"]


def test_the_file_that_describes_variants_has_the_hash_of_its_page():
    link = replace(
        wheel().link, filename="kernel-1-variants.json", hashes={"sha256": hashlib.sha256(b"{}").hexdigest()}
    )
    right = Exchange(url=WHEEL, status=200, body=b"{}")
    assert rules(judge_variants(link, right)) == []
    assert rules(judge_variants(link, replace(right, body=b"[]"))) == ["variants"]
    assert rules(judge_variants(link, replace(right, status=404))) == ["variants"]


def test_a_fault_that_many_files_have_is_told_once():
    many = "".join(f'<a href="k-{n}-py3-none-any.whl">k</a>' for n in range(50))
    told = rules(judge_contents(visit(page(many))))
    assert len(told) == len(set(told)) < 8


def test_a_page_of_half_a_million_links_is_read_as_far_as_any_project_goes():
    html = read_page(page("<a href=k-1-py3-none-any.whl>" * (MOST_LINKS + 1)))
    file = '{"url": "a.whl", "filename": "a.whl", "hashes": {}}'
    data = read_page(page(f'{{"files": [{",".join([file] * (MOST_LINKS + 1))}]}}', content_type=JSON))
    assert (len(html.links), html.cut, len(data.links), data.cut) == (MOST_LINKS, True, MOST_LINKS, True)
    assert not read_page(page()).cut


def test_base_and_escapes_are_read_as_pip_reads_them():
    html = '<base href="https://cdn.org/a/"><base href="https://no.org/"><A HREF="k-1%2Bcpu-py3-none-any.whl">k</A>'
    (link,) = read_page(page(html)).links
    assert (link.url, link.filename) == ("https://cdn.org/a/k-1%2Bcpu-py3-none-any.whl", "k-1+cpu-py3-none-any.whl")


@pytest.mark.parametrize("body", ["", "[1]", "{", "[" * 100_000, "9" * 5000])
def test_json_that_is_none_is_unreadable(body):
    with pytest.raises(UnreadablePageError):
        read_page(page(body, content_type=JSON))


@pytest.mark.parametrize(
    ("status", "metadata", "severity"),
    [(405, True, None), (405, None, Severity.WARNING), (500, None, Severity.ERROR), (200, None, None)],
)
def test_uv_needs_head_only_where_there_are_no_side_cars(status, metadata, severity):
    link = replace(wheel().link, metadata=metadata)
    found = [
        f.severity for f in judge_wheel(wheel(link=link, head=Exchange(url=WHEEL, status=status))) if f.rule == "head"
    ]
    assert found == ([severity] if severity else [])


def test_plus_is_judged_by_what_pip_and_uv_ask_for():
    there, gone = wheel().whole, Exchange(url=WHEEL, status=404)
    assert [(f.rule, f.hurts) for f in judge_wheel(wheel(whole=gone, raw=there))] == [("plus-quoted", ("pip",))]
    found = {f.rule: f for f in judge_wheel(wheel(raw=gone))}
    assert (found["plus-raw"].severity, found["plus-raw"].hurts) == (Severity.ERROR, ("uv",))
    assert rules(judge_wheel(wheel(whole=gone, raw=gone))) == ["plus-raw", "wheel-missing"]


def test_a_wheel_that_was_not_fetched_whole_is_not_guessed_at():
    cut = replace(wheel().whole, truncated=True, body=b"PK")
    with pytest.raises(UnreadableWheelError):
        metadata_of(wheel(whole=cut))
    assert rules(judge_wheel(wheel(whole=cut))) == []


def test_findings_that_say_the_same_are_one_as_bad_as_its_worst_place():
    shown = page()
    told = [
        finding("vary", Severity.WARNING, "m", replace(shown, url="https://h.org/a/"), ("x",)),
        finding("no-store", Severity.WARNING, "m", shown, ("x",)),
        finding("vary", Severity.ERROR, "m", replace(shown, url="https://h.org/b/"), ("y",)),
        finding("vary", Severity.ERROR, "m", replace(shown, url="https://h.org/b/"), ("y",)),
    ]
    first, second = merged(told)
    assert (first.rule, first.severity, first.hurts) == ("vary", Severity.ERROR, ("y",))
    assert first.places == ("https://h.org/b/", "https://h.org/a/")
    assert second.rule == "no-store"


def test_a_diagnosis_can_be_written_and_read():
    made = Diagnosis(
        url=URL,
        host="nginx",
        findings=(finding("vary", Severity.ERROR, "m", page(), ("x",)),),
        roots=(URL,),
        pages=1,
        wheels=2,
        requests=3,
    )
    assert Diagnosis.from_json(made.to_json()) == made
    assert not made.ok
    assert replace(made, findings=()).ok


@pytest.mark.parametrize(
    "anchors",
    [
        '<a href="my-kernel/">my-kernel</a> <a href="Other/">Other</a>',
        '<a href="/simple/my-kernel">my-kernel</a> <a href="/simple/other">Other</a>',
        '<a href="https://elsewhere.example/p?of=1">my-kernel</a> <a href="other/"> <b>Other</b>\n</a>',
        # What nginx and Python's own server make of a folder.
        '<a href="../">../</a> <a href="my-kernel/">my-kernel/</a> <a href="Other/">Other/</a>',
        '<a href="/">Home</a> <a href="my-kernel/"></a> <a href="Other/">Other</a>',
    ],
)
def test_a_list_of_projects_is_read_in_every_form_that_installers_never_see(anchors):
    page = read_page(Exchange(url="http://h/simple/", headers={"content-type": "text/html"}, body=anchors.encode()))
    assert [name.lower() for name in page.names] == ["my-kernel", "other"]
    assert page.strange == ()
