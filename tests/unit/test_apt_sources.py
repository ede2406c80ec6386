"""The mirrors of apt's own configuration, in both of its forms."""

import pytest

from wheelsmith.model import PinnedPackage
from wheelsmith.toolchain import downloads
from wheelsmith.toolchain.downloads import debian_mirrors

LIST = """\
# deb http://commented.example/debian bookworm main
deb http://near.example/debian/ bookworm main contrib
deb [arch=amd64 signed-by=/k.gpg] https://user:word@second.example/debian bookworm main
deb-src http://source.example/debian bookworm main
deb http://security.example/debian-security bookworm-security main
deb https://vendor.example/apt tools main
deb cdrom:[Debian]/ bookworm main
deb file:/srv/mirror bookworm main
"""
SOURCES = """\
Types: deb deb-src
URIs: http://third.example/debian http://fourth.example/debian http://fifth.example/debian
Suites: bookworm
Components: main

Types: deb-src
URIs: http://no.example/debian

Enabled: no
Types: deb
URIs: http://neither.example/debian
"""


@pytest.fixture
def root(tmp_path):
    (tmp_path / "etc/apt/sources.list.d").mkdir(parents=True)
    (tmp_path / "etc/os-release").write_text('NAME="Debian"\nID=debian\n')
    (tmp_path / "etc/apt/sources.list").write_text(LIST)
    return tmp_path


def test_lines_and_paragraphs_are_read(root):
    first = ("http://near.example/debian", "https://user:word@second.example/debian", "file:/srv/mirror")
    assert debian_mirrors(root) == first
    (root / "etc/apt/sources.list.d/more.sources").write_text(SOURCES)
    (root / "etc/apt/sources.list.d/more.list.save").write_text("deb http://old.example/debian x main\n")
    debian_mirrors.cache_clear()
    assert debian_mirrors(root) == (*first, "http://third.example/debian")


def test_another_system_has_none(root):
    (root / "etc/os-release").write_text("ID=ubuntu\nID_LIKE=debian\n")
    assert debian_mirrors(root) == ()
    (root / "etc/os-release").unlink()
    debian_mirrors.cache_clear()
    assert debian_mirrors(root) == ()


def test_a_package_is_looked_for_there_after_what_the_user_names(monkeypatch):
    pin = PinnedPackage(
        filename="g_1.deb",
        url="https://archive.example/debian/pool/main/g/g_1.deb",
        sha256="0",
        size=1,
        mirrors=("https://snapshot.example/pool/main/g/g_1.deb",),
    )
    monkeypatch.setenv("WHEELSMITH_ARCHIVES", "/mine")
    monkeypatch.setattr(downloads, "debian_mirrors", lambda: ("http://near.example/debian",))
    assert list(downloads._candidate_places(pin)) == [
        "/mine/g_1.deb",
        "http://near.example/debian/pool/main/g/g_1.deb",
        pin.url,
        *pin.mirrors,
    ]
    monkeypatch.setenv("WHEELSMITH_OFFLINE", "1")
    assert list(downloads._candidate_places(pin)) == ["/mine/g_1.deb"]
