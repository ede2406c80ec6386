"""RECORD and names in the archive: what installers refuse, and what they accept.

``tests/unit/test_archives.py`` has the lies of the archive itself.
"""

from __future__ import annotations

from collections.abc import Callable

from forge import Wheel, legal, lie

INIT = "forged/__init__.py"


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
_record(
    "md5", "a hash that the format forbids", _fields(lambda path, _, size: (path, "md5=rL0Y20zC-Fzt72VPzMSk2A", size))
)
_record("unknown hash", "a hash that nobody has", _fields(lambda path, _, size: (path, "evil512=AAAA", size)))
_record("short hash", "the beginning of a hash", _fields(lambda path, digest, size: (path, digest[:17], size)))
_record("twice", "a file is listed twice, once wrongly", lambda rows: [*rows, f"{INIT},{_A},0"])
_record("roundabout path", "a path in another spelling", _first(lambda row: "./" + row))
_record("absolute", "a path outside of the wheel", lambda rows: [*rows, f"/etc/passwd,{_A},0"])
_record("two fields", "a row without size", _first(lambda row: row.rpartition(",")[0]))
_record("four fields", "a row with more", _first(lambda row: row + ",evil"))
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
