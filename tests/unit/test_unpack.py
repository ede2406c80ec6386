"""Archives of sources: honest ones become trees, and hostile ones are refused with the member that is to blame."""

import gzip
import io
import stat
import tarfile
import zipfile
from pathlib import Path

import pytest
from in_process_worker import InProcessWorker
from zips import Entry, write_zip

from wheelsmith.base.beneath import remove_tree
from wheelsmith.base.errors import SourceError
from wheelsmith.source import archive as unpacking
from wheelsmith.source.archive import read_archive
from wheelsmith.source.cached import changed_sources, find_cached

SETUP = b"from setuptools import setup\nsetup()\n"
INFO = b"Name: thing\nVersion: 1.0\n"


def member(name, content=b"", kind=tarfile.REGTYPE, target="", mode=0o644, pax=None):
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.mode, info.size = kind, target, mode, len(content)
    info.pax_headers = pax or {}
    return info, content


def link(name, target):
    return member(name, kind=tarfile.SYMTYPE, target=target)


def hard(name, target):
    return member(name, kind=tarfile.LNKTYPE, target=target)


def tar(path, members, form=tarfile.PAX_FORMAT):
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w", format=form, errors="surrogateescape") as archive:
        for info, content in members:
            archive.addfile(info, io.BytesIO(content))
    path.write_bytes(gzip.compress(data.getvalue()))
    return path


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setattr(unpacking, "Worker", InProcessWorker)
    yield tmp_path / "cache"
    remove_tree(tmp_path / "cache")


@pytest.fixture
def unpacked(tmp_path, cache):
    """Read an archive of these members, and give path → content."""

    def read(*members):
        tree = read_archive(tar(tmp_path / "thing-1.0.tar.gz", members), cache)
        return {path: tree.read_bytes(path) for path in tree.paths}

    return read


HONEST = [member("thing-1.0/setup.py", SETUP), member("thing-1.0/PKG-INFO", INFO)]
TREE = {"PKG-INFO": INFO, "setup.py": SETUP}


@pytest.mark.parametrize(
    ("members", "files"),
    [
        (HONEST, TREE),
        ([member(f"./{info.name}", data) for info, data in HONEST], TREE),
        ([member("./", kind=tarfile.DIRTYPE), member("thing-1.0/", kind=tarfile.DIRTYPE), *HONEST], TREE),
        ([member("setup.py", SETUP), member("src/a.c", b"int a;")], {"setup.py": SETUP, "src/a.c": b"int a;"}),
        (
            [*HONEST, member("pax_global_header", b"")],
            {**{f"thing-1.0/{k}": v for k, v in TREE.items()}, "pax_global_header": b""},
        ),
        (
            [*HONEST, member("thing-1.0/" + "n" * 255 + "/" + "m" * 255, b"1")],
            TREE | {"n" * 255 + "/" + "m" * 255: b"1"},
        ),
    ],
    ids=["an sdist", "dots", "folders", "no top folder", "more at the top", "a long name"],
)
def test_what_an_archive_holds_is_the_source(unpacked, members, files):
    assert unpacked(*members) == files


def test_a_zip_is_the_same_source_as_a_tar(tmp_path, cache):
    with zipfile.ZipFile(tmp_path / "thing.zip", "w") as archive:
        archive.writestr("thing-1.0/", b"")
        for info, content in HONEST:
            archive.writestr(info.name, content)
    one, other = (read_archive(path, cache) for path in (tmp_path / "thing.zip", tar(tmp_path / "a.tar.gz", HONEST)))
    assert one.id.tree == other.id.tree
    assert one.id.commit != other.id.commit
    assert (one.id.origin, one.id.commit_label) == ("archive:thing.zip", "SHA-256")


def test_of_a_mode_only_what_is_executable_stays(tmp_path, cache):
    found = read_archive(tar(tmp_path / "a.tar.gz", [*HONEST, member("thing-1.0/run", b"#!", mode=0o6755)]), cache)
    assert [file.path for file in found.files if file.executable] == ["run"]
    modes = {stat.S_IMODE(file.real.stat().st_mode) for file in found.files}
    assert modes == {0o555, 0o444}


@pytest.mark.parametrize(
    "links",
    [
        [link("thing-1.0/b", "setup.py")],
        [link("thing-1.0/sub/b", "../setup.py")],
        [link("thing-1.0/b", "c"), link("thing-1.0/c", "sub/d"), link("thing-1.0/sub/d", "../setup.py")],
        [hard("thing-1.0/b", "thing-1.0/setup.py")],
        [hard("thing-1.0/sub/b", "thing-1.0/setup.py")],
    ],
    ids=["beside", "above", "a chain", "a second name", "from below"],
)
@pytest.mark.parametrize("first", [True, False])
def test_a_link_to_a_file_becomes_that_file(unpacked, links, first):
    found = unpacked(*links, *HONEST) if first else unpacked(*HONEST, *links)
    assert {content for path, content in found.items() if path.rpartition("/")[2] in {"b", "d"}} == {SETUP}


BAD = {
    "a link out": (link("thing-1.0/b", "../../etc/passwd"), "b is a dangling link"),
    "an absolute link": (link("thing-1.0/b", "/etc/passwd"), "b is a link that leads out"),
    "a link to nothing": (link("thing-1.0/b", "c"), "b is a dangling link"),
    "a link to its own folder": (link("thing-1.0/b", "../thing-1.0"), "more than 100 folders"),
    "a second name of what is outside": (hard("thing-1.0/b", "../../etc/passwd"), "b is a dangling link"),
    "a link in the place of a file": (link("thing-1.0/setup.py", "PKG-INFO"), "cannot be unpacked"),
    "a name that leads out": (member("thing-1.0/../../b"), "unsafe name"),
    "an absolute name": (member("/etc/b"), "unsafe name"),
    "a backslash": (member("thing-1.0\\b"), "unsafe name"),
    "no text": (member("thing-1.0/\udcff"), "unsafe name"),
    "a name that is too long": (member("thing-1.0/" + "d" * 256), "File name too long"),
    "a file in many folders": (member("thing-1.0/" + "d/" * 100 + "x"), "more than 100 folders"),
    "a device": (member("thing-1.0/b", kind=tarfile.CHRTYPE), "neither a file, a folder nor a link"),
    "a file that is a folder": (member("thing-1.0/setup.py/x"), "cannot be unpacked"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_hostile_member_is_refused_by_its_name(unpacked, name, cache, tmp_path):
    bad, words = BAD[name]
    with pytest.raises(SourceError) as caught:
        unpacked(*HONEST, bad)
    assert words in caught.value.message
    assert str(caught.value.where) == "thing-1.0.tar.gz"
    assert not list((cache / "sources").iterdir())
    assert {path.name for path in tmp_path.iterdir()} == {"cache", "thing-1.0.tar.gz"}


def test_no_file_is_written_through_a_link(unpacked, tmp_path):
    (tmp_path / "outside").mkdir()
    out = link("thing-1.0/a", str(tmp_path / "outside"))
    for inside in (member("thing-1.0/a/b", b"x"), link("thing-1.0/a/b", "c")):
        for members in ([out, inside], [inside, out]):
            with pytest.raises(SourceError):
                unpacked(*HONEST, *members)
    assert not list((tmp_path / "outside").iterdir())


def test_an_archive_of_too_many_or_too_large_files_is_refused(unpacked, monkeypatch):
    monkeypatch.setattr(unpacking, "MAX_FILES", 10)
    with pytest.raises(SourceError, match="more than 10 files"):
        unpacked(*(member(f"thing-1.0/{n}") for n in range(11)))
    monkeypatch.setattr(unpacking, "MAX_BYTES", 1 << 20)
    with pytest.raises(SourceError, match="or 1 MiB"):
        unpacked(*HONEST, *(member(f"thing-1.0/{n}", bytes(600 << 10)) for n in range(2)))


@pytest.mark.parametrize(
    "spoil",
    [gzip.decompress, lambda data: data[:-20]],
    ids=["not packed", "cut"],
)
def test_what_is_no_gzip_is_refused(tmp_path, cache, spoil):
    path = tar(tmp_path / "thing.tar.gz", HONEST)
    path.write_bytes(spoil(path.read_bytes()))
    with pytest.raises(SourceError, match="cannot be unpacked"):
        read_archive(path, cache)


ZIPS = {
    "large": ([Entry(name="b", data=bytes(3 << 20))], "or 1 MiB"),
    "a name that leads out": ([Entry(name="../b")], "unsafe name"),
    "a link": ([Entry(name="b", data=b"/etc/passwd", mode=0o120777)], "'b' is a link"),
    "nothing": ([], "no files"),
}


@pytest.mark.parametrize("name", ZIPS)
def test_a_hostile_zip_is_refused(name, tmp_path, cache, monkeypatch):
    monkeypatch.setattr(unpacking, "MAX_BYTES", 1 << 20)
    monkeypatch.setattr(unpacking, "MAX_FILES", 10)
    entries, words = ZIPS[name]
    with pytest.raises(SourceError, match=words):
        read_archive(write_zip(tmp_path / "thing.zip", entries), cache)


def test_an_archive_that_is_written_meanwhile_is_not_used(tmp_path, cache, monkeypatch):
    path, real = tar(tmp_path / "thing.tar.gz", HONEST), unpacking._unpack_tar
    monkeypatch.setattr(unpacking, "_unpack_tar", lambda *args: (real(*args), path.write_bytes(b"another")))
    with pytest.raises(SourceError, match="was changed while it was read"):
        read_archive(path, cache)


@pytest.mark.parametrize("name", ["thing.tar.bz2", "thing-1-py3-none-any.whl"])
def test_other_kinds_are_named_as_not_read(name, tmp_path, cache):
    (tmp_path / name).write_bytes(b"x")
    with pytest.raises(SourceError, match=r"nor a supported archive \(\.tar\.gz, \.tgz, \.zip\)"):
        read_archive(tmp_path / name, cache)


def test_what_was_unpacked_before_is_not_unpacked_again(tmp_path, cache, monkeypatch):
    path = tar(tmp_path / "thing.tar.gz", HONEST)
    before = read_archive(path, cache)
    monkeypatch.setattr(unpacking, "Worker", None)
    assert read_archive(path, cache) == before


@pytest.mark.parametrize(
    "spoil",
    [
        lambda file: (file.chmod(0o644), file.write_bytes(b"changed")),
        lambda file: (file.parent.chmod(0o755), file.unlink()),
        lambda file: (file.parent.chmod(0o755), file.unlink(), file.symlink_to("/etc/passwd")),
        lambda file: file.chmod(0o755),
    ],
    ids=["changed", "gone", "a link", "executable"],
)
def test_what_was_changed_in_the_cache_is_unpacked_again(tmp_path, cache, spoil):
    path = tar(tmp_path / "thing.tar.gz", HONEST)
    before = read_archive(path, cache)
    spoil(before.files[0].real)
    assert list(changed_sources(cache).values()) == ["its files have changed"]
    assert find_cached(str(before.id.commit), cache, before.id) is None
    assert read_archive(path, cache) == before
    assert list(changed_sources(cache).values()) == [None]
    remove_tree(next(path for path in (cache / "sources").iterdir() if path.name.startswith(".changed")))


def test_two_at_once_both_have_it(tmp_path, cache, monkeypatch):
    """The other one is done first, in between."""
    path = tar(tmp_path / "thing.tar.gz", HONEST)
    real, others = unpacking._unpack_tar, []

    def first(archive: Path, folder):
        if not others:
            others.append(None)
            others[0] = read_archive(path, cache)
        real(archive, folder)

    monkeypatch.setattr(unpacking, "_unpack_tar", first)
    assert read_archive(path, cache) == others[0]
    assert [path.name for path in (cache / "sources").iterdir()] == [others[0].id.commit]
