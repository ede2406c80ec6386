"""Builds that leave a hostile wheel, as data: each spoils the honest wheel that it made."""

from __future__ import annotations

from dataclasses import dataclass

# Stands in for ``python3 -m build``: makes the honest wheel with wheelsmith's own backend, then spoils it.
BUILD = '''
import base64, csv, hashlib, io, json, os, pathlib, shutil, stat, struct, sys, zipfile
from wheelsmith.engine.backend import hooks

paths = hooks.Paths(json.loads(os.environ.get("WHEELSMITH_PATHS", "{}")))
work = pathlib.Path(paths.here("/work"))
dist = work / "dist"
wheel = dist / hooks.build_wheel(str(dist))
with zipfile.ZipFile(wheel) as archive:
    files = {name: archive.read(name) for name in archive.namelist()}
info = next(name.split("/")[0] for name in files if ".dist-info/" in name)
OUTSIDE = OUTSIDE_PATH


def pack(path=wheel, extra=(), record=True, kind=zipfile.ZIP_STORED):
    """Write the wheel anew with a right RECORD, and ``extra`` members that zipfile itself would refuse or change."""
    if record:
        rows = io.StringIO()
        for name, data in {**files, **{str(n): d for n, d in extra}}.items():
            if not name.endswith("/RECORD"):
                digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
                csv.writer(rows, lineterminator="\\n").writerow([name, "sha256=" + digest, len(data)])
        rows.write(f"{info}/RECORD,,\\n")
        files[f"{info}/RECORD"] = rows.getvalue().encode("utf-8", "surrogateescape")
    with zipfile.ZipFile(path, "w", kind) as archive:
        for name, data in [*files.items(), *extra]:
            archive.writestr(name if isinstance(name, zipfile.ZipInfo) else zipfile.ZipInfo(name), data)


def member(name, mode):
    """A member with file type and mode bits."""
    info = zipfile.ZipInfo("member")
    info.filename, info.external_attr, info.create_system = name, mode << 16, 3
    return info
'''


@dataclass(frozen=True)
class Spoiled:
    """A build that leaves something else than the wheel it should.

    :param says: what the failure's message must hold.
    """

    name: str
    code: str
    says: str
    stage: str = "repair"


_LINK = "wheel.unlink()\nos.symlink(OUTSIDE + '/host.whl', wheel)"
SPOILED = (
    Spoiled("the wheel is a link", _LINK, "missing or not a regular file", "build"),
    Spoiled("the wheel is a pipe", "wheel.unlink(); os.mkfifo(wheel)", "missing or not a regular file", "build"),
    Spoiled("no wheel", "wheel.unlink()", "left 0 wheels", "build"),
    Spoiled("two wheels", "shutil.copy(wheel, dist / 'other-1-py3-none-any.whl')", "left 2 wheels", "build"),
    Spoiled("dist is a link", "shutil.rmtree(dist); os.symlink(OUTSIDE, dist)", "replaced its dist folder", "build"),
    Spoiled(
        "links where wheelsmith writes, and a lie",
        "for n in ('repair', 'packed', 'unpacked', 'tagged', 'site', 'test'): os.symlink(OUTSIDE, work / n)\n"
        "files['x.py'] = b''; pack(record=False)",
        "a wrong RECORD",
    ),
    Spoiled("another name", "wheel.rename(dist / 'torch-2.13.0-py3-none-any.whl')", "the build made torch-2.13.0"),
    Spoiled("another tag", "wheel.rename(dist / wheel.name.replace('py3', 'cp313'))", "-cp313-none-any.whl, not"),
    Spoiled("no wheel's name", "wheel.rename(dist / 'evil.whl')", "evil.whl"),
    Spoiled("escapes in its name", "wheel.rename(dist / 'a\\x1b]52;c;eA==\\x07\\u202e-1-py3-none-any.whl')", "x1b]52"),
    Spoiled("no zip", "wheel.write_bytes(b'PK' * 1000)", "not a readable zip"),
    Spoiled(
        "another METADATA",
        "files[f'{info}/METADATA'] = files[f'{info}/METADATA'].replace(b'Name: ', b'Name: not-'); pack()",
        "changed METADATA",
    ),
    Spoiled("RECORD with another hash", "files['pure/__init__.py'] += b'#'; pack(record=False)", "a wrong RECORD"),
    Spoiled("no RECORD", "del files[f'{info}/RECORD']; pack(record=False)", "no pure-1.dist-info/RECORD"),
    Spoiled("a file that nobody planned", "files['evil.pth'] = b'import os'; pack()", "which is not planned"),
    Spoiled("a file left out", "del files['pure/__init__.py']; pack()", "does not contain 'pure/__init__.py'"),
    Spoiled(
        "a tag that leads out",
        "tag = b'Tag: py3-none-/../../../../../../..' + OUTSIDE.encode() + b'/escape'\n"
        "files[f'{info}/WHEEL'] = files[f'{info}/WHEEL'].replace(b'Tag: py3-none-any', tag); pack()",
        "WHEEL file",
    ),
    Spoiled("a member above", "pack(extra=[('../../../escape', b'x')])", "unsafe name"),
    Spoiled("a member with an absolute name", "pack(extra=[(OUTSIDE + '/escape', b'x')])", "unsafe name"),
    Spoiled(
        "a link and a file below",
        "pack(extra=[(member('l', stat.S_IFLNK | 0o777), OUTSIDE.encode()), ('l/escape', b'x')])",
        "link",
    ),
    Spoiled("names that differ by case", "pack(extra=[('Pure/__init__.py', b'evil')])", "which is not planned"),
    Spoiled("a very long name", "pack(extra=[('x' * 5000, b'evil')])", ""),
    Spoiled(
        "a zip bomb",
        "z = bytes(2**24)\nwith zipfile.ZipFile(wheel, 'w', zipfile.ZIP_DEFLATED) as a:\n"
        "  for n in range(20): a.writestr(f'{n}', z)",
        "0 .dist-info folders",
    ),
    Spoiled("too many members", "pack(extra=[(f'f{n}', b'') for n in range(20_100)])", "which is not planned"),
)
