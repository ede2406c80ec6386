"""Addresses, revisions and folders of git repositories: what is taken, what is refused, what people are shown."""

import pytest

from wheelsmith.base.git_address import check_revision, check_subfolder, parse_git_address, parse_submodule_address

HTTPS = "https://github.com/org/project"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (HTTPS, HTTPS),
        ("https://ada:secret@host.org:8443/x", "https://host.org:8443/x"),
        ("https://token@host.org/x", "https://host.org/x"),
        ("http://[::1]:80/x", "http://[::1]:80/x"),
        ("ssh://git:secret@host.org:22/x", "ssh://git@host.org:22/x"),
        ("git@github.com:org/project.git", "git@github.com:org/project.git"),
        ("me:hunter2@host/x", "…@host/x"),
        ("git@host:o/r@2.git", "git@host:o/r@2.git"),
    ],
)
def test_remote_addresses(text, shown):
    found = parse_git_address(text)
    assert (found.text, found.shown, found.is_local) == (text, shown, False)


@pytest.mark.parametrize("text", ["../project", "/srv/git/a b", "project", "file:///srv/git/x", "./a:b"])
def test_folders_of_this_machine(text):
    found = parse_git_address(text)
    assert (found.text, found.shown, found.is_local) == (text, "local", True)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "is not the address"),
        ("--upload-pack=evil", "is not the address"),
        ("ext::sh -c evil", "run a program"),
        ("https::https://host/x", "run a program"),
        ("https://host/x\n", "is not the address"),
        ("https://host/a b", "no host or contains invalid characters"),
        ("https:///x", "no host or contains invalid characters"),
        ("ssh://-oProxyCommand=evil/x", "no host or contains invalid characters"),
        ("-oProxyCommand=evil:x", "is not the address"),
        ("git@-oProxyCommand=evil:x", "is not an address such as git@host"),
        ("host:-x", "is not an address such as git@host"),
        (f"{HTTPS}?token=1", "without ? and #"),
        (f"{HTTPS}#subdirectory=x", "without ? and #"),
        (f"git+{HTTPS}", "write https://"),
        ("HTTPS://github.com/x", "write https://"),
        ("ftp://host/x", "is not one of"),
        ("https://ada:80/secret@host/x", "an @ or a colon is not where"),
    ],
)
def test_addresses_that_are_refused(text, why):
    with pytest.raises(ValueError, match=why.replace("?", r"\?")):
        parse_git_address(text)


@pytest.mark.parametrize("text", ["-https://ada:secret@host/x", "\x1b//ada:secret@host", "host:-//ada:secret@host"])
def test_what_is_refused_tells_no_credentials(text):
    with pytest.raises(ValueError, match="host") as raised:
        parse_git_address(text)
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize(
    ("parent", "text", "found"),
    [
        (HTTPS, "../lib", "https://github.com/org/lib"),
        (f"{HTTPS}.git/", "../lib.git", "https://github.com/org/lib.git"),
        (HTTPS, "../../other/lib", "https://github.com/other/lib"),
        ("https://t:s@host/org/project", "../lib", "https://t:s@host/org/lib"),
        ("git@host:org/project.git", "../lib", "git@host:org/lib"),
        ("git@host:/srv/project", "../lib", "git@host:/srv/lib"),
        ("/srv/project", "https://host/lib", "https://host/lib"),
    ],
)
def test_submodules(parent, text, found):
    assert parse_submodule_address(parse_git_address(parent), text).text == found


@pytest.mark.parametrize("text", ["../../../lib", "../../../../evil.org/lib"])
def test_no_submodule_leads_to_another_server(text):
    with pytest.raises(ValueError, match="leads above the top"):
        parse_submodule_address(parse_git_address(HTTPS), text)


@pytest.mark.parametrize("text", ["main", "v1.2", "refs/pull/12/head", "0" * 40, "feature/x", "HEAD", "a+b", "é"])
def test_revisions(text):
    assert check_revision(text) == text


@pytest.mark.parametrize(
    "text",
    [
        *("", "-x", "--upload-pack=x", "+main", "a:b", "main:refs/heads/x", "^main", "main~1", "main^", "*"),
        *("a?", "a[b"),
        *("a..b", "a b", "a\nb", "a\\b", "main@{1}", "/a", "a/", "a//b", ".a", "a/.b", "a.lock", "a.", "x" * 201),
    ],
)
def test_revisions_that_are_refused(text):
    with pytest.raises(ValueError, match="is not a branch, a tag or a commit"):
        check_revision(text)


@pytest.mark.parametrize(("text", "found"), [("a", "a"), ("./a//b/", "a/b"), ("a/./b", "a/b")])
def test_folders(text, found):
    assert check_subfolder(text) == found


@pytest.mark.parametrize("text", ["", ".", "/", "/a", "../a", "a/../b", "a\\b", "a\nb", "x/" * 130])
def test_folders_that_are_refused(text):
    with pytest.raises(ValueError, match=r"folder"):
        check_subfolder(text)
