"""Archives that one reader reads differently from another, and honest ones that only look odd."""

import bz2
import io
import struct
import zipfile
import zlib

import pytest
from spoil import spoiled_wheel
from zips import DEFLATED, DESCRIPTOR, STORED, UTF8, Entry, changed, digest, packed, wheel_entries, write_zip

from wheelsmith.base.errors import WheelError
from wheelsmith.wheel.archive import Archive, open_wheel
from wheelsmith.wheel.check import check_wheel

NAME = "kernel-1-py3-none-any.whl"
ENTRIES = wheel_entries()
FIRST = ENTRIES[0]
SIZE, PACKED = len(FIRST.data), len(packed(FIRST))
RAW = FIRST.name.encode()


def zip64(*numbers):
    return struct.pack(f"<HH{len(numbers)}Q", 1, 8 * len(numbers), *numbers)


def unicode_path(name, real=RAW):
    return struct.pack("<HHBL", 0x7075, len(name) + 5, 1, zlib.crc32(real)) + name


def shadow(name="kernel/__init__.py"):
    return Entry(name=name, data=b"import os\n")


LIES = {
    "another name in the local header": (changed(ENTRIES, local={"name": b"kernel/__evil__.py"}), {}, "local header"),
    "another size in the local header": (changed(ENTRIES, local={"size": 5}), {}, "says its local header"),
    "another packed size in the local header": (changed(ENTRIES, local={"packed": 5}), {}, "says its local header"),
    "another checksum in the local header": (changed(ENTRIES, local={"crc": 5}), {}, "says its local header"),
    "another method in the local header": (changed(ENTRIES, local={"method": STORED}), {}, "packed another way"),
    "a descriptor in the local header only": (changed(ENTRIES, local={"flags": DESCRIPTOR}), {}, "packed another way"),
    "encryption in the local header": (changed(ENTRIES, local={"flags": 1}), {}, "packed another way"),
    "a wrong checksum": (changed(ENTRIES, local={"crc": 5}, central={"crc": 5}), {}, "has checksum"),
    "a size that is too small": (changed(ENTRIES, local={"size": 5}, central={"size": 5}), {}, "it goes on after"),
    "a size that is too large": (changed(ENTRIES, local={"size": 50}, central={"size": 50}), {}, "has 10 bytes"),
    "bytes behind the packed data": (changed(ENTRIES, packed=packed(FIRST) + b"x"), {}, "bytes behind its end"),
    "packed data that is cut": (changed(ENTRIES, packed=packed(FIRST)[:-1]), {}, "cut short"),
    "stored, with another size": (
        changed(ENTRIES, method=STORED, local={"size": 5}, central={"size": 5}),
        {},
        "is stored as it is",
    ),
    "an entry that is not listed": ([*ENTRIES, shadow("evil.py")], {"listed": False}, "are no member's"),
    "an entry that is not there": ([*ENTRIES, Entry(name="a.py", written=False)], {}, "reaches"),
    "two entries of one name": ([shadow(), *ENTRIES], {}, "twice"),
    "two entries that differ in case": ([shadow("KERNEL/__init__.py"), *ENTRIES], {}, "twice"),
    "two entries that differ in Unicode's form": ([shadow("\u00e9.py"), shadow("e\u0301.py"), *ENTRIES], {}, "twice"),
    "two directory entries for one member": (
        [*ENTRIES, Entry(name="kernel/b.py", data=FIRST.data, written=False)],
        {},
        "reaches 60 bytes into",
    ),
    "a gap": (changed(ENTRIES, 1, before=b"xxxx"), {}, "are no member's"),
    "a gap before the directory": (ENTRIES, {"between": b"xxxx"}, "are no member's"),
    "something before it": (ENTRIES, {"prefix": b"#!/bin/sh\n"}, "before the archive"),
    "something behind it": (ENTRIES, {"suffix": b"x"}, "follow its end record"),
    "another archive's end in its comment": (
        ENTRIES,
        {"comment": struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 0, 0, 0, 0, 0)},
        "two archives in one file",
    ),
    "a comment that is no text": (ENTRIES, {"comment": b"\xf6\0"}, "no plain text"),
    "a comment in the directory": (changed(ENTRIES, comment=b"hello"), {}, "comment in the directory"),
    "a count that is too small": (ENTRIES, {"end": {"count": 3, "here": 3}}, "more than its 3 entries"),
    "a count that is too large": (ENTRIES, {"end": {"count": 9, "here": 9}}, "breaks off"),
    "counts that differ": (ENTRIES, {"end": {"count": 3}}, "several parts"),
    "another disk": (ENTRIES, {"end": {"disk": 1}}, "several parts"),
    "a directory elsewhere": (ENTRIES, {"end": {"start": 5}}, "the directory ends"),
    "zip64 with another count": (ENTRIES, {"zip64": {"count": 3, "here": 3}}, "different things"),
    "zip64 with another start": (ENTRIES, {"zip64": {"start": 3}}, "different things"),
    "zip64 that is elsewhere": (ENTRIES, {"zip64": {"at": 3}}, "not where its locator says"),
    "zip64 with more in it": (ENTRIES, {"zip64": {"length": 60}}, "broken"),
    "zip64 that is not there": (ENTRIES, {"end": {"start": 0xFFFFFFFF}}, "there is none"),
    "a zip64 field without a number": (
        changed(ENTRIES, extra=zip64(), local={"size": 0xFFFFFFFF}, central={"size": 0xFFFFFFFF}),
        {},
        "lacks it",
    ),
    "a zip64 field that says more": (changed(ENTRIES, extra=zip64(SIZE + 1)), {}, "different things"),
    "two zip64 fields": (changed(ENTRIES, extra=zip64(SIZE) * 2), {}, "there twice"),
    "a field longer than its header": (changed(ENTRIES, extra=b"\1\0\xff\0"), {}, "longer than its header"),
    "half a field": (changed(ENTRIES, extra=b"abc"), {}, "part of an extra field"),
    "a second name": (changed(ENTRIES, extra=unicode_path(b"kernel/evil.py")), {}, "second name"),
    "a second name, in the local header": (
        changed(ENTRIES, local_extra=unicode_path(b"kernel/evil.py")),
        {},
        "second name",
    ),
    "a second name with a wrong checksum": (
        changed(ENTRIES, extra=unicode_path(b"kernel/evil.py", b"x")),
        {},
        "second name",
    ),
    "bzip2": (changed(ENTRIES, method=12, packed=bz2.compress(FIRST.data)), {}, "by method 12"),
    "lzma": (changed(ENTRIES, method=14), {}, "by method 14"),
    "zstandard": (changed(ENTRIES, method=93), {}, "by method 93"),
    "a version that nobody reads": (changed(ENTRIES, needed=64), {}, "version 64"),
    "encrypted": (changed(ENTRIES, flags=1), {}, "encrypted"),
    "strongly encrypted": (changed(ENTRIES, flags=0x41), {}, "encrypted"),
    "masked headers": (changed(ENTRIES, flags=0x2000), {}, "encrypted or patched"),
    "a descriptor that lies": (
        changed(ENTRIES, flags=DESCRIPTOR, after=struct.pack("<4s3L", b"PK\7\x08", 1, PACKED, SIZE)),
        {},
        "are not those of the directory",
    ),
    "a descriptor that is longer": (
        changed(ENTRIES, flags=DESCRIPTOR, after=b"x" * 40),
        {},
        "are not those of the directory",
    ),
    "a name in no known encoding": ([*ENTRIES, Entry(name=b"\x82.py")], {}, "neither ASCII nor marked"),
    "a name that is no UTF-8": ([*ENTRIES, Entry(name=b"\xff.py", flags=UTF8)], {}, "neither ASCII nor marked"),
    **{
        f"the name {name!r}": ([*ENTRIES, Entry(name=name)], {}, words)
        for words, names in {
            "unsafe name": ("/a", "../a", "a/../b", "a\\b", "C:a", "a\0b", "a\nb", "a\x1b", "a\u202eb", "..", "a/.."),
            "roundabout name": ("./a", "a//b", "a/./b", "a.", "a /b", "a./b", "", "a/b/.", "..."),
            "too long": ("a" * 256, "é" * 128, "a/" * 2500 + "b"),
        }.items()
        for name in names
    },
    "a link": ([*ENTRIES, Entry(name="link", data=b"/etc/passwd", mode=0o120777)], {}, "is a link"),
    "a device": ([*ENTRIES, Entry(name="null", mode=0o020666)], {}, "not a plain file"),
    "a pipe": ([*ENTRIES, Entry(name="pipe", mode=0o010666)], {}, "not a plain file"),
    "a folder with a file's mode": ([*ENTRIES, Entry(name="a/", mode=0o100644)], {}, "a folder by its name"),
    "a file with a folder's mode": ([*ENTRIES, Entry(name="a", mode=0o040755)], {}, "a folder by its name"),
    "a folder with content": ([*ENTRIES, Entry(name="a/", data=b"x", mode=0o040755)], {}, "has content"),
    "a file that is a folder": ([*ENTRIES, Entry(name="kernel")], {}, "is a file, and the folder of"),
    "two dist-infos": ([*ENTRIES, Entry(name="torch-99.dist-info/METADATA")], {}, "2 .dist-info folders"),
    "no dist-info": ([FIRST], {}, "0 .dist-info folders"),
    "no WHEEL": ([entry for entry in ENTRIES if not str(entry.name).endswith("WHEEL")], {}, "has no kernel-1"),
}


@pytest.mark.parametrize("name", LIES)
def test_an_archive_that_two_readers_may_read_differently_is_refused(name, tmp_path):
    entries, options, words = LIES[name]
    if not options.get("listed", True):
        entries, options = [*entries[:-1], changed(entries[-1:], listed=False)[0]], {}
    path = write_zip(tmp_path / NAME, entries, **options)
    with pytest.raises(WheelError) as caught:
        open_wheel(path)
    assert words in caught.value.message
    assert caught.value.where.file == NAME


ODDITIES = {
    "as it should be": (ENTRIES, {}),
    "stored": ([changed([entry], method=STORED)[0] for entry in ENTRIES], {}),
    "sizes behind the data": (changed(ENTRIES, flags=DESCRIPTOR), {}),
    "sizes behind stored data": (changed(ENTRIES, flags=DESCRIPTOR, method=STORED), {}),
    "sizes behind the data, without a mark": (
        changed(ENTRIES, flags=DESCRIPTOR, after=struct.pack("<3L", zlib.crc32(FIRST.data), PACKED, SIZE)),
        {},
    ),
    "sizes behind the data and before it": (
        changed(ENTRIES, flags=DESCRIPTOR, local={"crc": zlib.crc32(FIRST.data), "packed": PACKED, "size": SIZE}),
        {},
    ),
    "how hard the compressor tried": (changed(ENTRIES, flags=6), {}),
    "a mark for UTF-8 on an ASCII name": (changed(ENTRIES, flags=UTF8), {}),
    "the same name once more": (changed(ENTRIES, extra=unicode_path(RAW)), {}),
    "a date in the local header": (changed(ENTRIES, local_extra=struct.pack("<HHBL", 0x5455, 5, 1, 1)), {}),
    "a padded header": (changed(ENTRIES, extra=b"\0\0\0"), {}),
    "sizes in zip64": (
        changed(
            ENTRIES,
            extra=zip64(SIZE, PACKED),
            local={"size": 0xFFFFFFFF, "packed": 0xFFFFFFFF},
            central={"size": 0xFFFFFFFF, "packed": 0xFFFFFFFF},
        ),
        {},
    ),
    "sizes in zip64 too": (changed(ENTRIES, local_extra=zip64(SIZE, PACKED)), {}),
    "a zip64 end": (ENTRIES, {"zip64": {}}),
    "a zip64 end only": (
        ENTRIES,
        {"zip64": {}, "end": {"here": 0xFFFF, "count": 0xFFFF, "size": 0xFFFFFFFF, "start": 0xFFFFFFFF}},
    ),
    "a comment": (ENTRIES, {"comment": b"made by hand"}),
    "folders": ([Entry(name="kernel/", method=STORED, mode=0o040755), *ENTRIES], {}),
    "no modes": ([changed([entry], mode=0)[0] for entry in ENTRIES], {}),
    "the other order": (ENTRIES[::-1], {}),
    "an old version": (changed(ENTRIES, needed=10), {}),
    "a name beyond ASCII": (wheel_entries({"kernel/é.py": b"", "kernel/日本.py": b""}), {}),
    "an archive inside": (
        wheel_entries({"kernel/data.zip": b"PK\5\6" + bytes(18)})[::-1],
        {},
    ),
    "an empty file": (wheel_entries({"kernel/py.typed": b""}), {}),
    "more than one piece": (wheel_entries({"kernel/data.bin": bytes(range(256)) * 9000}), {}),
}


@pytest.mark.parametrize("name", ODDITIES)
def test_an_archive_that_all_readers_read_the_same_is_accepted(name, tmp_path):
    entries, options = ODDITIES[name]
    path = write_zip(tmp_path / NAME, entries, **options)
    contents = open_wheel(path)
    with zipfile.ZipFile(path) as archive:
        theirs = {entry: archive.read(entry) for entry in archive.namelist() if not entry.endswith("/")}
    assert contents.files == theirs
    report = check_wheel(path)
    assert report.ok, [finding for finding in report.findings if not finding.ok]


def test_what_zipfile_streams_is_accepted(tmp_path):
    """To a pipe it cannot go back: sizes come behind the data, stored or not."""

    class Pipe(io.RawIOBase):
        written = b""

        def writable(self):
            return True

        def write(self, data):
            self.written += bytes(data)
            return len(data)

    for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        pipe = Pipe()
        with zipfile.ZipFile(pipe, "w", method) as archive:
            for entry in ENTRIES:
                with archive.open(entry.name, "w", force_zip64=entry is FIRST) as member:
                    member.write(entry.data)
        path = tmp_path / NAME
        path.write_bytes(pipe.written)
        assert check_wheel(path).ok


@pytest.mark.parametrize("size", [2**20 - 1, 2**20, 2**20 + 1, 3 * 2**20 + 7, 8 * 2**20])
def test_what_shrinks_most_is_read_to_its_end(size, tmp_path):
    entry = Entry(name="zeros", data=bytes(size), method=DEFLATED)
    with Archive(write_zip(tmp_path / NAME, [entry])) as archive:
        assert sum(map(len, archive.chunks("zeros"))) == size


def test_a_bomb_is_refused_before_it_is_unpacked(tmp_path):
    entry = Entry(name="bomb", data=b"x", central={"size": 2**31}, local={"size": 2**31})
    with pytest.raises(WheelError, match="times its size"):
        Archive(write_zip(tmp_path / NAME, [entry]))
    far = zip64(2**40)
    entry = Entry(name="bomb", data=b"x", extra=far, central={"size": 0xFFFFFFFF}, local={"size": 0xFFFFFFFF})
    with pytest.raises(WheelError, match="more than 8 GiB"):
        Archive(write_zip(tmp_path / NAME, [entry]))


def recorded(kind, *, size=True):
    """RECORD of a wheel with every file hashed one way."""
    entries = wheel_entries()[:-1]
    rows = [f"{e.name},{digest(e.data, kind)},{len(e.data) if size else ''}\n" for e in entries]
    return "".join([*rows, "kernel-1.dist-info/RECORD,,\n"])


def wrong(path):
    return [(finding.rule, finding.message) for finding in check_wheel(path).findings if not finding.ok]


@pytest.mark.parametrize(
    "record",
    [
        *(recorded(kind) for kind in ("sha256", "sha384", "sha512", "sha3_256", "blake2b")),
        recorded("sha256", size=False),
        recorded("sha256").replace("\n", "\r\n"),
        recorded("sha256").replace("kernel/__init__.py", '"kernel/__init__.py"'),
    ],
)
def test_a_record_in_legal_form_is_accepted(record, tmp_path):
    assert wrong(write_zip(tmp_path / NAME, wheel_entries(record=record.encode()))) == []


@pytest.mark.parametrize(
    ("record", "words"),
    [
        *((recorded(kind), "sha256 is the weakest") for kind in ("md5", "sha1", "sha224")),
        (recorded("sha256").replace("kernel/__init__.py,sha256=", "kernel/__init__.py,"), "sha256 is the weakest"),
        (recorded("sha256").replace("kernel/__init__.py,", "kernel/other.py,"), "is not in RECORD"),
        (recorded("sha256").replace("kernel/__init__.py,", "./kernel/__init__.py,"), "is not in RECORD"),
        (recorded("sha256").replace(",10\n", ",11\n"), "is not what RECORD says"),
        (recorded("sha256").replace("RECORD,,", "RECORD,sha256=abc,3"), "lists its own hash"),
        (recorded("sha256").replace("RECORD,,\n", "RECORD\n"), "has 1 field,"),
        (recorded("sha256") + "kernel/__init__.py,sha256=abc,3\n", "says two things of kernel/__init__.py"),
        (recorded("sha256") + "kernel-1.dist-info/RECORD.jws,,\n", "RECORD but not in the wheel"),
        (recorded("sha256") + "\n" * 5000, "RECORD has more than"),
        ("kernel/__init__.py,,10\n" + recorded("sha256").partition("\n")[2], "has no hash in RECORD"),
        ('"', "is not in RECORD"),
        ("é" * 200_000, "RECORD cannot be read"),
    ],
)
def test_a_record_that_says_something_else_is_refused(record, words, tmp_path):
    found = wrong(write_zip(tmp_path / NAME, wheel_entries(record=record.encode())))
    assert [rule for rule, _ in found] == ["record"]
    assert words in found[0][1]


def test_signatures_stand_beside_record(tmp_path):
    signatures = [Entry(name=f"kernel-1.dist-info/RECORD.{kind}", data=b"{}") for kind in ("jws", "p7s")]
    assert wrong(write_zip(tmp_path / NAME, [*ENTRIES, *signatures])) == []
    listed = recorded("sha256") + f"kernel-1.dist-info/RECORD.jws,{digest(b'{}')},2\n"
    found = wrong(write_zip(tmp_path / NAME, [*wheel_entries(record=listed.encode()), *signatures]))
    assert "which it signs" in found[0][1]


@pytest.mark.parametrize("start", range(0, 400, 100))
def test_a_spoiled_wheel_is_told_or_read_as_zipfile_reads_it(start, tmp_path):
    for seed in range(start, start + 100):
        path = spoiled_wheel(tmp_path, 1_000_000 + seed)
        try:
            check_wheel(path)
            contents = open_wheel(path)
        except WheelError:
            continue
        with zipfile.ZipFile(path) as archive:
            theirs = {name: archive.read(name) for name in archive.namelist() if not name.endswith("/")}
        assert contents.files == theirs, seed
