"""The archive itself, and RECORD: what two unzippers read differently, and what installers refuse."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable

from forge import Wheel, legal, lie
from forge_zip import (
    BZIP2,
    DESCRIPTOR,
    DOS,
    ENCRYPTED,
    FIFO,
    FOLDER,
    LINK,
    LZMA,
    MASKED,
    PATCHED,
    STORED,
    STRONG,
    UTF8,
    Archive,
    Member,
)

INIT = "forged/__init__.py"


def _zip(name: str, says: str, change: Callable[[Archive], object], judges: str = "archive") -> None:
    def forge(wheel: Wheel) -> None:
        wheel.pack = change

    lie(judges, says, family="archive", name=name)(forge)


def _legal(name: str, says: str, change: Callable[[Archive], object]) -> None:
    def forge(wheel: Wheel) -> None:
        wheel.pack = change

    legal(says, family="archive", name=name)(forge)


def _init(archive: Archive) -> Member:
    return archive.member(INIT)


def _local(**fields: int | bytes) -> Callable[[Archive], object]:
    return lambda archive: _init(archive).local.update(fields)


def _central(**fields: int | bytes) -> Callable[[Archive], object]:
    return lambda archive: _init(archive).central.update(fields)


# --- local against central ----------------------------------------------------------------------------------

_zip("local name", "the local header has another name", _local(name=b"torch/__init__1.py"))
_zip("local name, same length", "the local header has another name as long", _local(name=b"torched/_nit__.py"))
_zip("local path", "the local header leads out", _local(name=b"../../../evil1.py"))
_zip("local crc", "the local header has another checksum", _local(crc=1))
_zip("local size", "the local header has another size", _local(size=9999))
_zip("local packed size", "the local header has another packed size", _local(packed=5))
_zip("local method", "stored, says the local header", _local(method=STORED))
_zip("local flags", "encrypted, says the local header", _local(flags=ENCRYPTED))
_zip("central crc", "the directory has another checksum", _central(crc=1))
_zip("central size", "the directory has another size", _central(size=3))
_zip("central packed size", "the directory has another packed size", _central(packed=3))
_zip("central method", "the directory has another method", _central(method=STORED))
_zip("central offset", "the directory leads to another file", _central(offset=0x200))
_zip("central offset beyond", "the directory leads beyond the end", _central(offset=1 << 30))
_zip("central disk", "the file is on another disk", _central(disk=7))
_zip(
    "central name",
    "the directory has another name than the local header",
    lambda a: a.member("forged-1.0.dist-info/WHEEL").local.update(name=b"forged-1.0.dist-info/WHEAL"),
)


def _other_content(archive: Archive) -> None:
    """Put a file before its namesake: the directory leads to the second."""
    good = _init(archive)
    evil = Member(name=good.name, data=b"import evil\n", listed=False)
    archive.members.insert(0, evil)


_zip("shadow", "a file that the directory does not list has the name of one that it lists", _other_content)
_zip(
    "unlisted",
    "a file that the directory does not list",
    lambda a: a.members.append(Member(name=b"evil.py", data=b"evil", listed=False)),
)
_zip("listed twice", "the directory lists a file twice", lambda a: setattr(a, "central_order", lambda m: [*m, m[0]]))
_zip("same name twice", "two files of one name", lambda a: a.add(INIT, b"import evil\n"))
_zip("names by case", "two names that differ by case", lambda a: a.add("forged/__INIT__.py", b"x"), "archive record")
_zip("names by folder", "a file of the name of a folder", lambda a: a.add("forged", b"x"))


def _overlap(archive: Archive) -> None:
    inside = Member(name=b"evil.py", data=b"evil", method=STORED)
    raw = Archive(members=[inside]).build()
    host = Member(name=b"forged/host.bin", data=raw, method=STORED)
    archive.members.insert(0, host)
    archive.add("evil.py", b"evil", method=STORED, written=False).central.update(offset=30 + len(host.name))


_zip("overlap", "a file that lies in another one", _overlap)
_zip(
    "same bytes twice",
    "two names for the same bytes",
    lambda a: a.add(b"forged/__init2_.py", _init(a).data, written=False).central.update(offset=0),
)


_ACCENT = "forged/é.py"


@lie("archive", "the local header says UTF-8, the directory not: two names")
def local_utf8(wheel: Wheel) -> None:
    wheel.files[_ACCENT] = b"x"
    wheel.pack = lambda archive: archive.member(_ACCENT).local.update(flags=UTF8)


# --- names --------------------------------------------------------------------------------------------------


def _name(title: str, says: str, name: bytes, **how: object) -> None:
    def forge(wheel: Wheel) -> None:
        wheel.pack = lambda archive: archive.add(name, b"x", **how)
        row = f"{name.decode('utf-8', 'surrogateescape')},sha256=LXEWQrcmsEQBYnyp--6wy9chTD7GQPMTbAiWHF5IaSI,1"
        wheel.rows = lambda rows: [*rows, row]

    lie("archive", says, family="archive", name=title)(forge)


_name("absolute", "an absolute path", b"/etc/evil")
_name("dots", "a path that leads out", b"../evil.py")
_name("dots inside", "a path that leads out and back", b"forged/../../evil.py")
_name("dots back", "a roundabout path", b"forged/../forged/x.py")
_name("here", "a roundabout path", b"./forged/x.py")
_name("double slash", "a roundabout path", b"forged//x.py")
_name("backslash", "Windows' separator", b"forged\\x.py")
_name("share", "a network share", b"//host/evil.py")
_name("nul", "a name that C ends early", b"forged/x.py\0.txt")
_name("newline", "a name of two lines", b"forged/x\n.py")
_name("escape", "a name that moves the cursor", b"forged/\x1b[2Jx.py")
_name("empty", "a file without a name", b"")
_name("not utf8", "a name that is no UTF-8, with the flag that says so", b"forged/\xff\xfe.py", flags=UTF8)
_name("right to left", "a name that reads backwards", "forged/\u202eyp.x".encode(), flags=UTF8)
_name("zero width", "a name with a letter that nobody sees", "forged/__init__\u200b.py".encode(), flags=UTF8)
_name("long", "a name of 5,000 letters", b"forged/" + b"x" * 5000)
_name("surrogate", "half a letter", b"forged/\xed\xa0\x80.py", flags=UTF8)
_zip("folder with data", "a folder that has content", lambda a: a.add("forged/sub/", b"evil", mode=FOLDER))


# --- kinds --------------------------------------------------------------------------------------------------

_zip("link", "a symbolic link", lambda a: a.add("forged/link.py", b"/etc/passwd", mode=LINK))
_zip(
    "link to a folder",
    "a symbolic link to a folder",
    lambda a: (a.add("forged/lib", b"/tmp", mode=LINK), a.add("forged/lib/x.py", b"x")),
)
_zip("fifo", "a pipe", lambda a: a.add("forged/pipe", b"", mode=FIFO))
_zip("device file", "a device", lambda a: a.add("forged/dev", b"", mode=0o020666))
_zip("bzip2", "bzip2, which the wheel format does not name", lambda a: _bzip(_init(a)))
_zip("lzma", "LZMA", lambda a: _lzma(_init(a)))
_zip("deflate64", "deflate64", _central(method=9))
_zip("zstd", "Zstandard, which Pythons before 3.14 do not read", lambda a: _zstd(_init(a)))
_zip(
    "unknown method",
    "a method that nobody has",
    lambda a: (_init(a).central.update(method=77), _init(a).local.update(method=77)),
)
_zip("encrypted", "encrypted", lambda a: setattr(_init(a), "flags", ENCRYPTED))
_zip("strongly encrypted", "strongly encrypted", lambda a: setattr(_init(a), "flags", ENCRYPTED | STRONG))
_zip("aes", "encrypted by AES", lambda a: _aes(_init(a)))
_zip("masked", "the local header is masked", lambda a: setattr(_init(a), "flags", MASKED))
_zip("patched", "a patch, not a file", lambda a: setattr(_init(a), "flags", PATCHED))


def _aes(member: Member) -> None:
    member.flags, member.extra = ENCRYPTED, struct.pack("<HHHHBH", 0x9901, 7, 2, 0x4541, 3, 8)
    member.local["method"] = member.central["method"] = 99


def _bzip(member: Member) -> None:
    import bz2

    member.method, member.stored = BZIP2, bz2.compress(member.data)


def _lzma(member: Member) -> None:
    import lzma

    filters = [{"id": lzma.FILTER_LZMA1}]
    coded = lzma.compress(member.data, lzma.FORMAT_RAW, filters=filters)
    properties = struct.pack("<BBHBI", 9, 4, 5, 0x5D, 1 << 23)
    member.method, member.stored = LZMA, properties + coded


def _zstd(member: Member) -> None:
    from forge_gpu import zstandard

    member.method, member.stored = 93, zstandard(member.data)


def _deflated(data: bytes) -> bytes:
    squeeze = zlib.compressobj(9, zlib.DEFLATED, -15)
    return squeeze.compress(data) + squeeze.flush()


_zip("broken stream", "compression that breaks", lambda a: setattr(_init(a), "stored", b"\xff" * 40))
_zip("cut stream", "compression that ends early", lambda a: setattr(_init(a), "stored", _deflated(_init(a).data)[:-4]))
_zip(
    "more than it says",
    "it unpacks to more than both headers say",
    lambda a: (setattr(_init(a), "stored", _deflated(_init(a).data + b"evil" * 99)),),
)
_zip(
    "behind the stream",
    "bytes behind the end of the compressed stream",
    lambda a: setattr(_init(a), "stored", _deflated(_init(a).data) + b"evil evil"),
)
_zip(
    "stored, another size",
    "stored, and the two sizes differ",
    lambda a: (setattr(_init(a), "method", STORED), _init(a).central.update(packed=4), _init(a).local.update(packed=4)),
)
_zip("bomb", "30 MB in 30 kB, that say 20 bytes", lambda a: setattr(_init(a), "stored", _deflated(bytes(30 << 20))))


# --- extra fields -------------------------------------------------------------------------------------------


def _unicode_path(name: bytes, seen: bytes) -> bytes:
    return struct.pack("<HHBI", 0x7075, 5 + len(seen), 1, zlib.crc32(name)) + seen


_zip(
    "unicode path",
    "an extra field gives another name",
    lambda a: setattr(_init(a), "extra", _unicode_path(_init(a).name, b"torch/__init__.py")),
)
_zip(
    "unicode path in the directory",
    "an extra field of the directory gives another name",
    lambda a: _init(a).central.update(extra=_unicode_path(_init(a).name, b"torch/__init__.py")),
)
_zip(
    "unicode path of the local header",
    "an extra field of the local header gives another name",
    lambda a: _init(a).local.update(extra=_unicode_path(_init(a).name, b"torch/__init__.py")),
)
_zip(
    "extra cut short",
    "an extra field that is longer than the header says",
    _central(extra=struct.pack("<HH", 0x5455, 99) + b"abc"),
)
_zip("extra of three bytes", "an extra field without a head", _central(extra=b"abc"))
_zip(
    "zip64 sizes",
    "zip64 sizes that contradict the plain ones",
    lambda a: _init(a).local.update(extra=struct.pack("<HHQQ", 1, 16, 7, 7)),
)
_zip(
    "zip64 offset",
    "a zip64 offset that leads elsewhere",
    lambda a: _init(a).central.update(offset=0xFFFFFFFF, extra=struct.pack("<HHQ", 1, 8, 1 << 40)),
)
_zip(
    "zip64 twice",
    "two zip64 fields",
    lambda a: _init(a).central.update(
        size=0xFFFFFFFF, extra=struct.pack("<HHQ", 1, 8, len(_init(a).data)) + struct.pack("<HHQ", 1, 8, 5)
    ),
)
_zip(
    "zip64 cut short",
    "a zip64 field without the size",
    lambda a: _init(a).central.update(size=0xFFFFFFFF, extra=struct.pack("<HHI", 1, 4, 1)),
)

# --- descriptors --------------------------------------------------------------------------------------------


def _descriptor(crc: int, packed: int, size: int) -> Callable[[Archive], object]:
    def change(archive: Archive) -> None:
        member = _init(archive)
        member.flags = DESCRIPTOR
        member.data += b"#"

        def last(out: bytearray) -> bytes:
            at = out.index(struct.pack("<I", 0x08074B50))
            struct.pack_into("<III", out, at + 4, crc, packed, size)
            return bytes(out)

        archive.change = last

    return change


_zip("descriptor", "the descriptor behind the file says another thing", _descriptor(1, 2, 3))
_zip(
    "no descriptor",
    "no descriptor where the flag promises one",
    lambda a: (
        setattr(_init(a), "flags", DESCRIPTOR),
        setattr(a, "change", lambda out: bytes(out).replace(b"PK\x07\x08", b"PKxx", 1)),
    ),
)

# --- two archives, and what lies around ---------------------------------------------------------------------


def _another() -> bytes:
    archive = Archive()
    archive.add("torch/__init__.py", b"evil")
    return archive.build()


_zip("archive before", "another archive before it", lambda a: setattr(a, "prefix", _another()))
_zip(
    "archive before, unshifted",
    "another archive before it, that offsets do not count",
    lambda a: (setattr(a, "prefix", _another()), setattr(a, "shifted", False)),
)
_zip("archive behind", "another archive behind it", lambda a: setattr(a, "suffix", _another()))
_zip("archive in the comment", "another archive in the comment", lambda a: setattr(a, "comment", _another()))
_zip(
    "archive before the directory",
    "another archive between files and directory",
    lambda a: setattr(a, "before_central", _another()),
)
_zip(
    "archive before the end",
    "another archive between directory and its end",
    lambda a: setattr(a, "before_end", _another()),
)
_zip("program before", "a program before it", lambda a: setattr(a, "prefix", b"#!/bin/sh\necho evil\n"))
_zip("text behind", "text behind its end", lambda a: setattr(a, "suffix", b"evil"))
_zip("between files", "bytes between two files", lambda a: setattr(a.members[1], "before", b"evil evil"))
_zip(
    "end in the comment",
    "a second end record in the comment",
    lambda a: setattr(a, "comment", struct.pack("<IHHHHIIH", 0x06054B50, 0, 0, 0, 0, 0, 0, 0)),
)
_zip(
    "comment too short", "a comment that goes on", lambda a: (setattr(a, "comment", b"hello"), a.end.update(comment=2))
)
_zip("comment too long", "a comment that is not there", lambda a: a.end.update(comment=20))
_zip("other count", "the end counts fewer files", lambda a: a.end.update(count=2, here=2))
_zip("other count on this disk", "the end counts other files on this disk", lambda a: a.end.update(here=1))
_zip("other offset", "the end leads into the directory", lambda a: a.end.update(offset=64))
_zip("other size", "the end says another size of the directory", lambda a: a.end.update(size=10))
_zip("other disk", "the last of two disks", lambda a: a.end.update(disk=1))
_zip("zip64 end", "the zip64 end counts other files", lambda a: (setattr(a, "zip64", True), a.end64.update(count=1)))
_zip(
    "zip64 end elsewhere",
    "the zip64 end is not where its locator says",
    lambda a: (setattr(a, "zip64", True), a.end64.update(at=0)),
)
_zip(
    "zip64 end against the end",
    "the end contradicts the zip64 end",
    lambda a: (setattr(a, "zip64", True), a.end.update(count=2, here=2, offset=0, size=46)),
)
_zip("cut", "half an archive", lambda a: setattr(a, "change", lambda out: bytes(out[: len(out) // 2])))
_zip("no end", "an archive without its end", lambda a: setattr(a, "change", lambda out: bytes(out[:-22])))
_zip("nothing", "an empty file", lambda a: setattr(a, "change", lambda _: b""))
_zip("no files", "an archive without files", lambda a: a.members.clear())
_zip("tar", "an archive of another kind", lambda a: setattr(a, "change", lambda _: b"\x1f\x8b\x08" + bytes(99)))


# --- RECORD -------------------------------------------------------------------------------------------------


def _record(name: str, says: str, change: Callable[[list[str]], list[str]], judges: str = "record") -> None:
    def forge(wheel: Wheel) -> None:
        wheel.rows = change

    lie(judges, says, family="archive", name=f"record, {name}")(forge)


def _first(change: Callable[[str], str]) -> Callable[[list[str]], list[str]]:
    return lambda rows: [change(row) if row.startswith(INIT) else row for row in rows]


def _fields(change: Callable[[str, str, str], tuple[str, str, str]]) -> Callable[[list[str]], list[str]]:
    return _first(lambda row: ",".join(change(*row.split(","))))


_A = "sha256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU"
_record("missing", "a file is not listed", lambda rows: [row for row in rows if not row.startswith(INIT)])
_record("more", "a file is listed that is not there", lambda rows: [*rows, f"forged/none.py,{_A},0"])
_record("hash", "another content", _fields(lambda path, _, size: (path, _A, size)))
_record("size", "another size", _fields(lambda path, digest, _: (path, digest, "1")))
_record("no hash", "no hash", _fields(lambda path, _, size: (path, "", size)))
_record("no hash and size", "neither hash nor size", _fields(lambda path, *_: (path, "", "")))
_record(
    "md5", "a hash that the format forbids", _fields(lambda path, _, size: (path, "md5=rL0Y20zC-Fzt72VPzMSk2A", size))
)
_record(
    "sha1",
    "a hash that the format forbids",
    _fields(lambda path, _, size: (path, "sha1=2jmj7l5rSw0yVb_vlWAYkK_YBwk", size)),
)
_record(
    "sha224",
    "a hash that the format forbids",
    _fields(lambda path, _, size: (path, "sha224=0UoCjCo6K8lHYQK7KII0xBWisB-CjqYqxbPkLw", size)),
)
_record("unknown hash", "a hash that nobody has", _fields(lambda path, _, size: (path, "evil512=AAAA", size)))
_record("shake", "a hash of any length", _fields(lambda path, _, size: (path, "shake_128=", size)))
_record("short hash", "the beginning of a hash", _fields(lambda path, digest, size: (path, digest[:17], size)))
_record(
    "capitals",
    "the hash in other letters",
    _fields(lambda path, digest, size: (path, "sha256=" + digest[7:].swapcase(), size)),
)
_record("twice", "a file is listed twice, once wrongly", lambda rows: [*rows, f"{INIT},{_A},0"])
_record("twice, wrong first", "a file is listed twice, the first time wrongly", lambda rows: [f"{INIT},{_A},0", *rows])
_record("roundabout path", "a path in another spelling", _first(lambda row: "./" + row))
_record("backslashes", "Windows' separators", _first(lambda row: row.replace("/", "\\")))
_record("absolute", "a path outside of the wheel", lambda rows: [*rows, f"/etc/passwd,{_A},0"])
_record("parents", "a path that leads out", lambda rows: [*rows, f"../../evil,{_A},0"])
_record("two fields", "a row without size", _first(lambda row: row.rpartition(",")[0]))
_record("four fields", "a row with more", _first(lambda row: row + ",evil"))
_record("size as a word", "a size that is no number", _fields(lambda path, digest, _: (path, digest, "five")))
_record("negative size", "a size below nothing", _fields(lambda path, digest, size: (path, digest, f"-{size}")))
_record(
    "arabic size",
    "digits of another script",
    _fields(lambda path, digest, size: (path, digest, size.translate({48 + n: 0x660 + n for n in range(10)}))),
)
_record("open quote", "a quote that does not end", lambda rows: [*rows, '"forged'])
_record("nothing", "an empty RECORD", lambda _: [])
_record("without itself", "RECORD does not list itself", lambda rows: rows[:-1])
_record(
    "itself with a hash",
    "RECORD has a hash of itself, which cannot be right",
    lambda rows: [*rows[:-1], rows[-1].replace(",,", f",{_A},0")],
)


@lie("record archive", "RECORD is no text")
def record_of_noise(wheel: Wheel) -> None:
    wheel.raw["{info}/RECORD"] = bytes(range(256))


# --- legal --------------------------------------------------------------------------------------------------


def _all(**fields: object) -> Callable[[Archive], None]:
    def change(archive: Archive) -> None:
        for member in archive.members:
            for key, value in fields.items():
                setattr(member, key, value)

    return change


_legal("stored", "nothing is compressed", _all(method=STORED))
_legal("descriptors", "sizes behind the files, as streams have them", _all(flags=DESCRIPTOR))
_legal("zip64 members", "zip64 sizes of small files, as streams have them", _all(zip64=True))
_legal("zip64 end", "a zip64 end of a small archive", lambda a: setattr(a, "zip64", True))
_legal("names in utf8", "the flag for UTF-8 with plain letters", _all(flags=UTF8))
_legal("made on DOS", "no permissions", _all(system=DOS))
_legal("executable", "all files may be run", _all(mode=0o100755))
_legal("timestamps", "extra fields with times", _all(extra=struct.pack("<HHBI", 0x5455, 5, 1, 1700000000)))
_legal("unix ids", "extra fields with owners", _all(extra=struct.pack("<HHBBIBI", 0x7875, 11, 1, 4, 0, 4, 0)))
_legal(
    "folders",
    "entries for folders",
    lambda a: [
        a.members.insert(0, Member(name=name, method=STORED, mode=FOLDER))
        for name in (b"forged/", b"forged-1.0.dist-info/")
    ],
)
_legal(
    "another order",
    "the directory in another order than the files",
    lambda a: setattr(a, "central_order", lambda m: m[::-1]),
)
_legal(
    "record first",
    "RECORD may stand anywhere",
    lambda a: a.members.sort(key=lambda m: m.name != b"forged-1.0.dist-info/RECORD"),
)
_legal("comment", "an archive may have a comment", lambda a: setattr(a, "comment", b"made by hand"))
_legal("higher version", "a higher version needed to extract", _all(version=45))


def _record_legal(name: str, says: str, change: Callable[[list[str]], list[str]]) -> None:
    def forge(wheel: Wheel) -> None:
        wheel.rows = change

    legal(says, family="archive", name=f"record, {name}")(forge)


_record_legal("another order", "rows in any order", lambda rows: rows[::-1])
_record_legal("windows", "Windows' line ends", lambda rows: [row + "\r" for row in rows])
_record_legal(
    "quotes",
    "CSV may quote every field",
    lambda rows: [",".join(f'"{field}"' for field in row.split(",")) for row in rows],
)


def _hash(algorithm: str) -> None:
    def forge(wheel: Wheel) -> None:
        wheel.hash = algorithm

    legal(f"RECORD by {algorithm}", family="archive", name=f"record, {algorithm}")(forge)


for _algorithm in ("sha384", "sha512", "sha3_256", "blake2b"):
    _hash(_algorithm)


@legal("signatures of RECORD need not be in it: RECORD.jws")
def signed(wheel: Wheel) -> None:
    wheel.raw["{info}/RECORD.jws"] = b"{}"
    wheel.raw["{info}/RECORD.p7s"] = b""
    wheel.rows = lambda rows: [row for row in rows if ".jws" not in row and ".p7s" not in row]


@legal("a name with letters of another script")
def unicode_name(wheel: Wheel) -> None:
    wheel.files["forged/größe.txt"] = b"x"
    wheel.pack = lambda archive: setattr(archive.member("forged/größe.txt"), "flags", UTF8)


@legal("a name with a comma, which RECORD quotes")
def comma_in_a_name(wheel: Wheel) -> None:
    wheel.files["forged/a,b.txt"] = b"x"


@legal("an empty file")
def empty_file(wheel: Wheel) -> None:
    wheel.files["forged/py.typed"] = b""


@legal("a large file of zeros, which compresses well")
def zeros(wheel: Wheel) -> None:
    wheel.files["forged/zeros.bin"] = bytes(3 << 20)
