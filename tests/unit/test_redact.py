"""Passwords in addresses are hidden, however the address is mistyped; everything else stays readable."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from wheelsmith.base.redact import has_credentials, is_ambiguous, redact

SCHEMES = ("https://", "http://", "git+https://", "ssh://", "ftp://", "s3://", "https:///", "https:/", "https//", "//")
HOSTS = ("host", "host.example.org", "host:8443", "[::1]", "[::1", "host:port", "")
WORDS = st.text(st.characters(exclude_categories=("Z", "C")), min_size=1, max_size=12)
DOTLESS = st.text(st.characters(exclude_categories=("Z", "C"), exclude_characters=".[]"), min_size=1, max_size=12)


@given(
    scheme=st.sampled_from(SCHEMES),
    user=WORDS,
    secret=st.text(st.characters(exclude_categories=("Z", "C")), max_size=8).map(lambda text: f"SE{text}CRET"),
    at=st.sampled_from(["@", "%40", "\uff20"]),
    host=st.sampled_from(HOSTS),
    path=st.sampled_from(["", "/", "/simple/x", "/x?token=1#y"]),
)
def test_no_password_is_shown(scheme, user, secret, at, host, path):
    assume(at == "@" or "@" not in user + secret)  # with an @ of its own, an escaped one is part of the path
    address = f"{scheme}{user}:{secret}{at}{host}{path}"
    for text in (address, f"cannot read '{address}': 403"):
        shown = redact(text)
        assert secret not in shown
        assert ("SE" in shown, "CRET" in shown) == (False, False)


@given(
    scheme=st.sampled_from(["https://", "https:///", "git+https://", "ssh://"]),
    token=DOTLESS.map(lambda text: f"SE{text}CRET"),
    host=st.sampled_from(["host", "host.example.org"]),
)
def test_no_token_without_a_colon_is_shown(scheme, token, host):
    shown = redact(f"{scheme}{token}@{host}/x")
    assert ("SE" in shown, "CRET" in shown, shown[-2:]) == (False, False, "/x")


@st.composite
def addresses(draw):
    """Return an address with a password, mistyped in some ways."""
    scheme = draw(st.sampled_from(["https", "HTTPS", "git+https", "ssh", "ftp", "s3", "hf", "file", ""]))
    slashes = draw(
        st.sampled_from(["//", "///", "////", "\\\\", "\\/", "/\\", "//\\", *(["/", "\\", ""] if scheme else [])])
    )
    user, secret = draw(WORDS | st.just("")), f"SE{draw(WORDS | st.just(''))}CRET"
    at = draw(st.sampled_from(["@", "%40", "\uff20"]))
    assume(at == "@" or "@" not in user + secret)
    tail = draw(st.sampled_from(HOSTS)) + draw(st.sampled_from(["", "/", "/simple/x", "\\x", "/x?token=1#y"]))
    return f"{scheme}{':' if scheme else ''}{slashes}{user}:{secret}{at}{tail}"


@given(
    st.lists(addresses(), min_size=1, max_size=3),
    st.sampled_from([" ", ", ", ",", ";", "\n", "' '", "|", " and ", ") ("]),
    st.sampled_from(["{}", "cannot read '{}': 403", "url={}", "({}) see https://h/x"]),
)
def test_no_password_of_several_addresses_is_shown(several, joint, text):
    shown = redact(text.format(joint.join(several)))
    assert ("SE" in shown, "CRET" in shown) == (False, False)


@given(st.text())
def test_any_text_can_be_redacted(text):
    assert "hunter2" not in redact(f"{text} https://me:hunter2@h/x")


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("https://user:pa/hunter2@host/", "https://…@host/"),
        ("https:///user:hunter2%40host", "https:///…@host"),
        ("https://user:hunter 2@host/x", "https://host/x"),
        ("http://user:hunter2@[::1/x", "http://…"),
        ("https://[me:hunter2@h/x", "https://h/x"),
        ("https://me:hunter2/simple", "https://…"),
        ("https\uff1a//me:hunter2/simple", "https\uff1a//…"),
        ("https://me:hunter2\uff20h/x", "https://…@h/x"),
        ("https://u:p@hunter2@h/x", "https://h/x"),
        ("https://me:12#hunter2@h/x", "https://…@h/x"),
        ("HTTPS//user:hunter2@h/x", "HTTPS//h/x"),
        ("//me:hunter2@h/x", "//h/x"),
        ("ftp://h/x?token=hunter2", "ftp://h/x"),
        ("https:////me:hunter2%40h/x", "https:////…@h/x"),
        ("https:\\\\me:hunter2@h\\x", "https:\\\\h\\x"),
        ("https:\\\\me:hunter2", "https:\\\\…"),
        ("https:me:hunter2@h", "…@h"),
        ("https://a:b@h,https://me:hunter2%40h", "https://h,https://…@h"),
        ("https://h/x;https://me:hunter2", "https://h/x;https://…"),
        ("/x,//me:hunter2@h", "/x,//h"),
    ],
)
def test_a_mistyped_address_is_shown_without_its_password(address, shown):
    assert redact(address) == shown
    assert has_credentials(address)
    assert is_ambiguous(address) == ("…" in shown)


@pytest.mark.parametrize(
    "address",
    [
        *("wheels/v1@main/index", "/a:b/c@d", "./a:b@c", "../a:b@c", ".", "a b/c:d", "file:///w@1/x:y"),
        *(
            "git@github.com:org/name",
            "std::vector<int>::at",
            "relu==1.0",
            "C:\\x",
            "\\\\server\\x",
            "https://h and me@x",
        ),
        *("http://h:9/x", "http://[::1]:8/x", "https://bücher.example/x", "https://h.example:", "('https://h/x')"),
        *("https://h.example/p@1/x", "https://h.example/p%401", "https://[::1]/x@y", "git+https://h.example/o/w@v1.2"),
        *("s3://bucket/a@b", "hf://spaces/org/name@main"),
    ],
)
def test_other_places_are_shown_as_they_are(address):
    assert redact(address) == address
    assert not has_credentials(address)


def test_text_keeps_everything_but_the_credentials():
    text = "'https://me:t0ken@h/x': 403, git@h:o/p; http://a:p@ss@h:8/y?sig=1 https://h:80: refused by me@x"
    assert redact(text) == "'https://h/x': 403, git@h:o/p; http://h:8/y https://h:80: refused by me@x"


def test_the_user_of_ssh_is_no_secret():
    assert redact("git+ssh://git@h.example/w@v1") == "git+ssh://h.example/w@v1"
    assert not has_credentials("git+ssh://git@h.example/w@v1")
    assert has_credentials("git+ssh://git:hunter2@h.example/w@v1")


def test_many_addresses_without_a_space_end_in_no_traceback():
    assert "hunter2" not in redact("//a:1/x" * 5000 + "//me:hunter2@h" + "//b" * 5000)
