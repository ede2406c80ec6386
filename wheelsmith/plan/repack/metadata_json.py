"""What metadata.json of a build folder says, read as somebody else's word."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Mapping
from typing import Any

from wheelsmith.base.errors import Place, SourceError
from wheelsmith.base.json_dataclass import in_one_line, read_json
from wheelsmith.base.sanitize import visible
from wheelsmith.plan.repack.types import BuildFacts

METADATA = "metadata.json"
# The loader's own rule is narrower; older kernels have underscores.
_NAME = re.compile(r"[A-Za-z][-_A-Za-z0-9]{0,99}")
_HEX = re.compile(r"[0-9a-f]{64}")
_SHA256 = 32  # bytes
_NO_LICENCE = "unknown"  # what stands there where nobody named one
_LONGEST, _MOST = 500, 100
_MOST_VERSION = 10**9


def read_build_facts(data: bytes) -> BuildFacts:
    """Read a metadata.json; what it leaves out stays open, what is of another kind is a mistake.

    :raises SourceError: it is not JSON, or says something that cannot be.
    """
    try:
        plain = read_json(data)
    except (ValueError, RecursionError) as error:
        raise _wrong(f"it is not JSON: {in_one_line(error)}") from None
    said = _table(plain, "it")
    backend = _table(said.get("backend") or {}, "backend")
    return BuildFacts(
        name=_optional(said, "name", _name),
        version=_optional(said, "version", _version),
        license=_optional(said, "license", _licence),
        upstream=_optional(said, "upstream", _text),
        source=_optional(said, "source", _text),
        python_depends=tuple(_text(item, "python-depends") for item in _list(said, "python-depends")),
        kernel_depends=tuple(_repo(item) for item in _list(said, "kernel-depends")),
        backend=_optional(backend, "type", _text),
        digests=_optional(said, "digest", _digests),
    )


def digest_mistake(facts: BuildFacts, hashes: Mapping[str, str], wanted: frozenset[str]) -> str | None:
    """Return where the files of a folder are not those that its metadata.json names; None where they are.

    :param hashes: path in the folder → sha256 in hex.
    :param wanted: paths that a wheel would hold.
    """
    if facts.digests is None:
        return None
    for path, digest in sorted(facts.digests.items()):
        if path != METADATA and hashes.get(path) != digest:
            if path not in hashes:
                return f"{visible(path)} is not there, and {METADATA} names it by its digest"
            return f"{visible(path)} is not the file that {METADATA} names by its digest"
    if unnamed := sorted(wanted - facts.digests.keys()):
        return f"{METADATA} has a digest of every file but {visible(unnamed[0])}"
    return None


def _optional(table: Mapping[str, Any], key: str, read: Callable[[Any, str], Any]) -> Any:
    value = table.get(key)
    return None if value is None else read(value, key)


def _table(value: Any, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _wrong(f"{what} is not a table")
    return value


def _list(table: Mapping[str, Any], key: str) -> list[Any]:
    value = table.get(key) or []
    if not isinstance(value, list) or len(value) > _MOST:
        raise _wrong(f"{key} is not a list of at most {_MOST}")
    return value


def _text(value: Any, what: str) -> str:
    if not isinstance(value, str) or len(value) > _LONGEST or not value.isprintable():
        raise _wrong(f"{what} is not a text of at most {_LONGEST} characters")
    return value


def _licence(value: Any, what: str) -> str | None:
    text = _text(value, what)
    return None if text.lower() == _NO_LICENCE else text


def _name(value: Any, what: str) -> str:
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise _wrong(f"{what} is not a name of letters, digits, - and _")
    return value


def _version(value: Any, what: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < _MOST_VERSION:
        raise _wrong(f"{what} is not a whole number")
    return value


def _repo(value: Any) -> str:
    return _text(value.get("repo-id") if isinstance(value, dict) else value, "kernel-depends")


def _digests(value: Any, what: str) -> dict[str, str]:
    table = _table(value, what)
    if table.get("algorithm") != "sha256":
        raise _wrong("its digests are not by sha256")
    return {path: _digest(digest) for path, digest in _table(table.get("files"), "files of digest").items()}


def _digest(value: Any) -> str:
    """Return a digest in hex, of one in hex or in base64."""
    if isinstance(value, str) and _HEX.fullmatch(value):
        return value
    try:
        raw = base64.b64decode(value, validate=True) if isinstance(value, str) else b""
    except (binascii.Error, ValueError):
        raw = b""
    if len(raw) != _SHA256:
        raise _wrong("a digest is not the sha256 of a file")
    return raw.hex()


def _wrong(message: str) -> SourceError:
    return SourceError(message, where=Place(file=METADATA))
