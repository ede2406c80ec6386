"""Bytecode that runs is that of a source file, or of the one Python that the tag names."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from fnmatch import fnmatchcase

from wheelsmith.base.units import counted
from wheelsmith.wheel.bytecode_numbers import bytecode_numbers
from wheelsmith.wheel.inspection import Inspection
from wheelsmith.wheel.install_layout import Scheme, installed_files
from wheelsmith.wheel.report import Finding, finding
from wheelsmith.wheel.rules.rule import Rule

_CACHE = "__pycache__"
# PEP 552: two bytes that name the format, "\r\n", four of flags; bit 0 says that no time of the source follows.
_FLAGS, _BY_HASH = slice(4, 8), 1
_END = b"\r\n"


def _examine(wheel: Inspection) -> Iterator[Finding]:
    files = zip(installed_files(wheel.files), wheel.files, strict=True)
    libraries = [(file.path, name) for file, name in files if file.scheme is Scheme.LIBRARY]
    modules = {_module(path) for path, _ in libraries if path.endswith((".py", ".so", ".pyd"))}
    wrong, seen = [], 0
    for path, name in libraries:
        if not path.lower().endswith(".pyc"):
            continue
        seen += 1
        cached = posixpath.basename(posixpath.dirname(path)) == _CACHE
        alone = not cached and path.removesuffix(".pyc") not in modules
        why = _by_hash(wheel, name) if cached else _for_another_python(wheel, name) if alone else None
        if why and not any(fnmatchcase(path, pattern) for pattern in wheel.declared):
            wrong.append(f"{name} {why}")
    if seen:
        yield finding("bytecode", wrong, f"{counted(seen, 'file')} of bytecode")


def _module(path: str) -> str:
    folder, _, name = path.rpartition("/")
    return posixpath.join(folder, name.partition(".")[0])


def _head(wheel: Inspection, name: str) -> bytes:
    return next(iter(wheel.archive.chunks(name)), b"")[:16]


def _by_hash(wheel: Inspection, name: str) -> str | None:
    """Return why Python may run what a cache holds instead of the source beside it; None where it does not.

    A cache that goes by the source's time is stale: an installer has just written the source.
    """
    head = _head(wheel, name)
    # What is no bytecode Python passes over, too.
    if head[2:4] != _END or not int.from_bytes(head[_FLAGS], "little") & _BY_HASH:
        return None
    return (
        "runs instead of its source, and nobody can see whether it is the same (PEP 552); one who means it declares it"
    )


def _for_another_python(wheel: Inspection, name: str) -> str | None:
    """Return why a Python of the tags cannot run a module that is bytecode alone; None where all can."""
    head = _head(wheel, name)
    number = int.from_bytes(head[:2], "little")
    made = next((version for version, numbers in bytecode_numbers().items() if number in numbers), None)
    if made is None or head[2:4] != _END:
        return "is a module without a source, and no bytecode of a known CPython"
    others = [
        env for env in wheel.environments if (env["implementation_name"], env["python_version"]) != ("cpython", made)
    ]
    if not others:
        return None
    least = f"{others[0]['platform_python_implementation']} {others[0]['python_version']}"
    return f"is a module without a source, in bytecode of CPython {made} alone, and the tags let {least} in"


RULE = Rule(
    name="bytecode",
    proves="no bytecode runs instead of a source that is in the wheel, too; a module that is bytecode alone is that of "
    "the one Python that the tags and Requires-Python let in",
    leaves_open="what bytecode alone does; a cache that goes by the source's time is passed over by Python where an "
    "installer wrote the files, and may run where `unzip` gave them the archive's times",
    examine=_examine,
)
