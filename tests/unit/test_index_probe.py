"""Checks of recorded responses, without a network."""

import re
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

import wheelsmith.index.doctor as room
from wheelsmith.index.doctor.finding import Diagnosis, Severity, finding, host_of, merge_findings
from wheelsmith.index.doctor.http_exchange import Exchange
from wheelsmith.index.doctor.pages import check_page, check_transport, read_projects, read_wheels

HERE = Path(room.__file__).parent
URL = "https://wheels.example.org/whl/cpu/kernel/"
WHEEL = "https://wheels.example.org/files/kernel-1%2Bcpu-py3-none-any.whl"
HTML = f'<a href="{WHEEL}#sha256={"ab" * 32}" data-core-metadata="true">kernel-1+cpu-py3-none-any.whl</a>'


def page(body=HTML, url=URL, **headers):
    given = {"content_type": "text/html", "cache_control": "no-cache", "etag": '"1"'} | headers
    return Exchange(
        url=url,
        final=url,
        status=200,
        headers={name.replace("_", "-"): value for name, value in given.items() if value is not None},
        body=body.encode(),
    )


def rules(findings):
    return [found.rule for found in findings]


def page_rules(exchange):
    found = check_page(exchange, exchange, None, "a page", Severity.ERROR)
    return [rule for rule in rules(found) if rule != "no-json"]


def test_every_rule_has_its_words_and_is_used():
    source = "".join(path.read_text() for path in HERE.glob("*.py"))
    known = tomllib.loads((HERE / "rules.toml").read_text())
    assert all(re.search(rf'"{rule}"', source) for rule in known)
    assert set(re.findall(r'finding\("([a-z-]+)"', source)) <= set(known)
    hosts = set(re.findall(r'^    \("([a-z0-9-]+)", ', (HERE / "finding.py").read_text(), re.MULTILINE))
    for rule in known.values():
        assert rule.keys() - {"severity", "hurts", "message", "any"} <= hosts | {"s3-website"}
        assert Severity(rule["severity"])
        assert rule["any"]
    docs = set(re.findall(r"docs/[\w./-]+\w", (HERE / "rules.toml").read_text()))
    assert len(docs) > 3
    assert all((HERE.parent.parent.parent / path).is_file() for path in docs)


@pytest.mark.parametrize(
    ("host", "url", "headers"),
    [
        ("nginx", URL, {"server": "nginx/1.22.1"}),
        ("s3", URL, {"server": "AmazonS3"}),
        ("cloudfront", URL, {"server": "AmazonS3", "x-amz-cf-id": "x", "x-amz-request-id": "y"}),
        ("cloudflare", URL, {"server": "cloudflare", "x-amz-request-id": "y"}),
        ("github", "https://org.github.io/whl/", {"server": "GitHub.com"}),
        ("unknown", "https://githubXio.example/", {"server": "Apache"}),
    ],
)
def test_the_host_is_guessed_from_what_it_sends(host, url, headers):
    exchange = Exchange(url=url, final=url, status=200, headers=headers)
    assert host_of(exchange) == host
    assert ("nginx.conf" in finding("vary", exchange).remedy) == (host == "nginx")


def test_a_command_survives_a_shell():
    asked = Exchange(url="https://h.org/$(x)';y", sent={"accept": "a, b; q=0.1"})
    assert asked.command == """curl -sSL -D - -o /dev/null -H 'accept: a, b; q=0.1' 'https://h.org/$(x)'"'"';y'"""


@pytest.mark.parametrize(
    ("url", "found"),
    [(URL, []), ("http://[::1]:8000/", []), ("http://localhost/", []), ("http://192.0.2.1/", ["no-tls"])],
)
def test_pip_trusts_tls_and_this_machine_alone(url, found):
    assert rules(check_transport(url, page(url=url))) == found


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("text/html; charset=utf-8", []),
        ("application/vnd.pypi.simple.v1+html", []),
        ("Text/HTML", ["content-type"]),
        ("application/json", ["content-type"]),
    ],
)
def test_content_types_are_taken_as_installers_take_them(given, found):
    """Measured with pip 26.3 and uv 0.13.8 against a loopback server; uv refuses Text/HTML."""
    assert page_rules(page(content_type=given)) == found


@pytest.mark.parametrize(
    ("headers", "found"),
    [
        ({}, []),
        ({"cache_control": 'Max-Age="600"'}, ["stale-pages"]),
        ({"cache_control": None}, []),
        ({"cache_control": None, "etag": None, "last_modified": "x"}, ["no-validator", "stale-pages"]),
    ],
)
def test_pages_must_be_asked_for_again(headers, found):
    assert page_rules(page(**headers)) == found


def test_base_and_escapes_are_read_as_pip_reads_them():
    html = '<base href="https://cdn.org/a/"><base href="https://no.org/"><A HREF="k-1%2Bcpu-py3-none-any.whl">k</A>'
    (link,) = read_wheels(page(html), "k")
    assert (link.url, link.filename) == ("https://cdn.org/a/k-1%2Bcpu-py3-none-any.whl", "k-1+cpu-py3-none-any.whl")


@pytest.mark.parametrize(
    "anchors",
    [
        '<a href="my-kernel/">my-kernel</a> <a href="Other/">Other</a>',
        # What nginx and Python's own server make of a folder.
        '<a href="../">../</a> <a href="my-kernel/">my-kernel/</a> <a href="Other/">Other/</a>',
    ],
)
def test_a_list_of_projects_is_read_in_every_form(anchors):
    assert read_projects(page(anchors)) == ("my-kernel", "other")


def test_findings_that_say_the_same_are_one_as_bad_as_its_worst_place():
    found = [
        finding("vary", page(url="https://h.org/a/")),
        finding("no-validator", page()),
        finding("vary", page(url="https://h.org/b/"), severity=Severity.ERROR),
        finding("vary", page(url="https://h.org/b/"), severity=Severity.ERROR),
    ]
    first, second = merge_findings(found)
    assert (first.rule, first.severity, second.rule) == ("vary", Severity.ERROR, "no-validator")
    assert first.places == ("https://h.org/b/", "https://h.org/a/")
    made = Diagnosis(url=URL, host="nginx", findings=(first,), roots=(URL,), pages=1, wheels=2, requests=3)
    assert Diagnosis.from_json(made.to_json()) == made
    assert (made.ok, replace(made, findings=(second,)).ok) == (False, True)
