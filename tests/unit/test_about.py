"""What pages tell of METADATA is cut short, cleaned, and leads where it seems to."""

import json
import time
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from states import of_torch, project

from wheelsmith.base.errors import PackageIndexError
from wheelsmith.index.entries.catalogue import catalogue_of, dump_catalogue, load_catalogue
from wheelsmith.index.entries.metadata import About, other_requirements, read_about, required_torch
from wheelsmith.index.entries.state import add_entries, yank
from wheelsmith.index.entries.stored_states import dump_state, load_state
from wheelsmith.index.site.human import human_pages, human_root
from wheelsmith.index.site.listing import listing_of


def told(**fields: str | list[str]) -> About:
    """Return what is told of METADATA with these headers."""
    lines = ["Metadata-Version: 2.4", "Name: k", "Version: 1"]
    for name, values in fields.items():
        header = name.replace("_", "-")
        lines += [f"{header}: {value}" for value in (values if isinstance(values, list) else [values])]
    return read_about("\n".join([*lines, "", ""]).encode())


def test_what_cannot_be_read_is_not_required():
    broken = b"Requires-Dist: torch; (\nRequires-Dist: a\n"
    assert required_torch(broken) is None
    assert other_requirements(broken) == ("a",)


def asked_of(*lines: str) -> str | None:
    return required_torch("".join(f"Requires-Dist: {line}\n" for line in lines).encode())


def test_what_is_asked_of_torch_is_asked_on_linux():
    assert asked_of("torch>=2.9", "Torch<2.12") == "<2.12,>=2.9"
    assert asked_of("torch>=2.9; sys_platform == 'win32'", "torch; python_version < '3.9'") is None
    assert asked_of("torch", "torch[opt]") == ""
    # What cannot be followed counts.
    assert asked_of("torch>=2.9; python_version ~= 'x'") == ">=2.9"


def state_of(about: About, **fields):
    return project(replace(of_torch("2.11", "13.0"), about=about), **fields)


def page_of(about: About) -> str:
    return human_pages(state_of(about))["projects/k/index.html"].decode()


def test_summary_licence_and_links_are_read():
    assert told(
        Summary="Fast sums",
        License_Expression="Apache-2.0",
        Project_URL=["Source, https://github.com/org/k", "Docs, http://k.example:8080/a?b=c#d"],
    ) == About(
        summary="Fast sums",
        license="Apache-2.0",
        links=(("Source", "https://github.com/org/k"), ("Docs", "http://k.example:8080/a?b=c#d")),
    )
    assert told() == About()


@pytest.mark.parametrize(
    ("fields", "licence"),
    [
        ({"License": "MIT", "License_Expression": "BSD-3-Clause"}, "BSD-3-Clause"),
        ({"Classifier": "License :: OSI Approved :: MIT License"}, "MIT License"),
        ({"License": "UNKNOWN", "Classifier": "License :: OSI Approved :: MIT License"}, "MIT License"),
        ({"License": "Permission is hereby granted\n        to everybody"}, None),
    ],
)
def test_a_licence_is_a_name_and_not_its_whole_text(fields, licence):
    assert told(**fields).license == licence


@pytest.mark.parametrize(
    "address",
    [
        "javascript:alert(1)", "JavaScript://k.example/%0aalert(1)", "data:text/html,<b>", "vbscript:x", "file:///etc/passwd",
        "//k.example/", "/relative", "https://", "https:k.example", "https:///x", "https://pypi.org@k.example/",
        "https://k.example\\@evil.example/", "https://k.example/\u202egpj", "https://p\u0443pi.org/",
        "https://k.example/ x",
        'https://k.example/"onclick=x', "https://[::1", "https://k.example/" + "a" * 600, "ftp://k.example/",
    ],
)  # fmt: skip
def test_links_that_lead_elsewhere_are_left_out(address):
    about = told(Project_URL=[f"Evil, {address}", "Good, https://good.example/"], Home_page=address)
    assert about.links == (("Good", "https://good.example/"),)
    with pytest.raises(ValueError, match="not an allowed link"):
        About(links=(("Evil", address),))


def test_what_is_long_is_cut_and_what_turns_or_hides_text_goes():
    began = time.perf_counter()
    summary = told(Summary="a" * 400_000).summary
    assert time.perf_counter() - began < 2
    assert summary == "a" * 299 + "…"
    assert (
        told(Summary="safe \u202etxt.exe\u2066 \u200b\u00adword\ttab \u0007bell").summary
        == "safe txt.exe word tab bell"
    )
    assert told(Summary="\u202e\u200b").summary is None
    assert told(Project_URL=["\u202eecruoS, https://k.example/"]).links == (("ecruoS", "https://k.example/"),)


@given(st.binary(max_size=400))
def test_no_bytes_make_it_fail(data):
    about = read_about(b"Summary: " + data + b"\nProject-URL: " + data + b"\nLicense: " + data)
    assert About.from_json(about.to_json()) == about


def test_the_page_has_them_in_its_header_as_text():
    page = page_of(read_about(b"Summary: </p><script>x\nLicense: <i>\nProject-URL: <b>Home, https://k.example/?a&b\n"))
    assert '<p class="summary" dir="auto">&lt;/p&gt;&lt;script&gt;x</p>' in page
    assert "<bdi>&lt;i&gt;</bdi>" in page
    assert '<a href="https://k.example/?a&amp;b" rel="nofollow noreferrer"><bdi>&lt;b&gt;Home</bdi></a>' in page
    assert '<time datetime="2026-01-02">2026-01-02</time>' in page


def test_the_newest_wheel_in_good_standing_is_believed():
    old, new = (
        replace(of_torch("2.11", "13.0", version=version), about=About(summary=f"as of {version}"))
        for version in ("1.9", "1.10")
    )
    state = project(old, new)
    for at, summary in ((state, "as of 1.10"), (yank(state, "1.10", "no"), "as of 1.9")):
        assert f">{summary}</p>" in human_pages(at)["projects/k/index.html"].decode()
        assert f">{summary}</small>" in human_root({"k": listing_of(at)})["index.html"].decode()
        assert catalogue_of(at).about == About(summary=summary)


def test_who_publishes_again_tells_what_was_not_known():
    known, new = of_torch("2.11", "13.0"), replace(of_torch("2.11", "13.0"), about=About(summary="now"))
    assert add_entries(project(known), [new]).entries[0].about == About(summary="now")
    assert add_entries(project(new), [known]).entries[0].about == About(summary="now")


def test_a_forged_file_cannot_put_a_link_on_a_page_that_metadata_could_not():
    about = {"links": [["Home", "javascript:alert(1)"]]}
    state = json.loads(dump_state(state_of(About(summary="s"))))
    state["entries"][0]["about"] = about
    with pytest.raises(PackageIndexError, match="broken"):
        load_state(json.dumps(state).encode(), "here", "k")
    catalogue = {**json.loads(dump_catalogue(catalogue_of(state_of(About())))), "about": about}
    with pytest.raises(PackageIndexError, match="not a valid catalogue"):
        load_catalogue(json.dumps(catalogue).encode(), "here")
