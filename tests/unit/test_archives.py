"""Archives that one reader reads differently from another, and honest ones that only look odd."""

import bz2
import io
import struct
import zipfile
import zlib

import pytest
from spoil import spoiled_wheel
from zips import DEFLATED, DESCRIPTOR, STORED, UTF8, Entry, changed, packed, wheel_entries, write_zip

from wheelsmith.base.errors import WheelError
from wheelsmith.base.zip_archive import Archive
from wheelsmith.wheel.archive import open_wheel
from wheelsmith.wheel.check import check_wheel

NAME = "kernel-1-py3-none-any.whl"
ENTRIES = wheel_entries()
FIRST = ENTRIES[0]
SIZE, PACKED = len(FIRST.data), len(packed(FIRST))


def zip64(*numbers):
    return struct.pack(f"<HH{len(numbers)}Q", 1, 8 * len(numbers), *numbers)


def shadow(name="kernel/__init__.py"):
    return Entry(name=name, data=b"import os\n")


_GAP = "does not end where"
LIES = {
    "another name in the local header": (changed(ENTRIES, local={"name": b"kernel/__evil__.py"}), {}, "local header"),
    "another size in the local header": (changed(ENTRIES, local={"size": 5}), {}, "in its local header"),
    "another checksum in the local header": (changed(ENTRIES, local={"crc": 5}), {}, "in its local header"),
    "another method in the local header": (changed(ENTRIES, local={"method": STORED}), {}, "compression method"),
    "a wrong checksum": (changed(ENTRIES, local={"crc": 5}, central={"crc": 5}), {}, "cannot be unpacked: Bad CRC"),
    "a size that is too small": (changed(ENTRIES, local={"size": 5}, central={"size": 5}), {}, "Bad CRC"),
    "a size that is too large": (changed(ENTRIES, local={"size": 50}, central={"size": 50}), {}, "is 40 bytes shorter"),
    "packed data that is broken": (changed(ENTRIES, packed=b"\xff" * 40), {}, "cannot be unpacked"),
    "an entry that is not listed": ([*ENTRIES, shadow("evil.py")], {"listed": False}, _GAP),
    "two entries of one name": ([shadow(), *ENTRIES], {}, "twice"),
    "two directory entries for one member": (
        [*ENTRIES, Entry(name="kernel/b.py", data=FIRST.data, written=False)],
        {},
        _GAP,
    ),
    "a gap": (changed(ENTRIES, 1, before=b"xxxx"), {}, _GAP),
    "something before it": (ENTRIES, {"prefix": b"#!/bin/sh\n"}, "before the first member"),
    "something behind it": (ENTRIES, {"suffix": b"x"}, "data after its end record"),
    "another archive's end in its comment": (
        ENTRIES,
        {"comment": struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 0, 0, 0, 0, 0)},
        "before the first member",
    ),
    "a comment in the directory": (changed(ENTRIES, comment=b"hello"), {}, "comment in the directory"),
    "a directory elsewhere": (ENTRIES, {"end": {"start": 5}}, "before the first member"),
    "zip64 with another start": (
        ENTRIES,
        {"zip64": {"start": 3}},
        "before the first member|Corrupt zip64",
    ),  # zipfile checks it since 2025
    "bzip2": (changed(ENTRIES, method=12, packed=bz2.compress(FIRST.data)), {}, "by method 12"),
    "encrypted": (changed(ENTRIES, flags=1), {}, "encrypted"),
    "a name in no known encoding": ([*ENTRIES, Entry(name=b"\x82.py")], {}, "neither ASCII nor marked"),
    "a name that is no UTF-8": ([*ENTRIES, Entry(name=b"\xff.py", flags=UTF8)], {}, "is marked as UTF-8 but is not"),
    **{
        f"the name {name!r}": ([*ENTRIES, Entry(name=name)], {}, "unsafe name")
        for name in (
            *("/a", "../a", "a/../b", "a\\b", "C:a", "a\0b", "a\nb", "a\x1b", "a\u202eb", "..", "a/.."),
            *("./a", "a//b", "a/./b", "", "a/b/."),
        )
    },
    "a link": ([*ENTRIES, Entry(name="link", data=b"/etc/passwd", mode=0o120777)], {}, "is a link"),
    **{
        what: ([*ENTRIES, entry], {}, "neither a plain file nor a folder")
        for what, entry in {
            "a device": Entry(name="null", mode=0o020666),
            "a pipe": Entry(name="pipe", mode=0o010666),
            "a folder with a file's mode": Entry(name="a/", mode=0o100644),
            "a file with a folder's mode": Entry(name="a", mode=0o040755),
            "a folder with content": Entry(name="a/", data=b"x", mode=0o040755),
        }.items()
    },
    "a file that is a folder": ([*ENTRIES, Entry(name="kernel")], {}, "is both a file and a folder"),
}


@pytest.mark.parametrize("name", LIES)
def test_an_archive_that_two_readers_may_read_differently_is_refused(name, tmp_path):
    entries, options, words = LIES[name]
    if not options.get("listed", True):
        entries, options = [*entries[:-1], changed(entries[-1:], listed=False)[0]], {}
    path = write_zip(tmp_path / NAME, entries, **options)
    with pytest.raises(WheelError) as caught:
        open_wheel(path)
    assert any(each in caught.value.message for each in words.split("|"))
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
    "a mark for UTF-8 on an ASCII name": (changed(ENTRIES, flags=UTF8), {}),
    "a date in the local header": (changed(ENTRIES, local_extra=struct.pack("<HHBL", 0x5455, 5, 1, 1)), {}),
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
    "a name beyond ASCII": (wheel_entries({"kernel/é.py": b"", "kernel/日本.py": b""}), {}),
    "an archive inside": (
        wheel_entries({"kernel/data.zip": b"PK\5\6" + bytes(18)})[::-1],
        {},
    ),
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

    class Pipe(io.BytesIO):
        def tell(self):
            raise OSError

    for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        pipe = Pipe()
        with zipfile.ZipFile(pipe, "w", method) as archive:
            for entry in ENTRIES:
                with archive.open(entry.name, "w", force_zip64=entry is FIRST) as member:
                    member.write(entry.data)
        path = tmp_path / NAME
        path.write_bytes(pipe.getvalue())
        assert check_wheel(path).ok


@pytest.mark.parametrize("size", [2**20, 8 * 2**20 + 7])
def test_what_shrinks_most_is_read_to_its_end(size, tmp_path):
    entry = Entry(name="zeros", data=bytes(size), method=DEFLATED)
    with Archive(write_zip(tmp_path / NAME, [entry])) as archive:
        assert sum(map(len, archive.chunks("zeros"))) == size


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
