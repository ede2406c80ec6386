"""Read a build folder of a Hub repo: its Python package and its metadata.json."""

from __future__ import annotations

import base64
import binascii
import keyword
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from wheelsmith.base.errors import Place, SourceError
from wheelsmith.base.json_dataclass import Record, in_one_line, read_json
from wheelsmith.base.sanitize import visible
from wheelsmith.plan.recipe.recipe import KernelSource, is_bytecode
from wheelsmith.plan.repack.variants import HubVariant

METADATA = "metadata.json"
# The Hub loader's rule is stricter, but older kernels have underscores.
_NAME = re.compile(r"[A-Za-z][-_A-Za-z0-9]{0,99}")
_HEX = re.compile(r"[0-9a-f]{64}")
_SHA256 = 32  # bytes
_NO_LICENCE = "unknown"  # written if there is no licence
_LONGEST = 500  # characters of a text
_INIT = "__init__.py"
# Files next to the package: metadata for the Hub's loader, and its signature.
_METADATA_FILES = {METADATA, f"{METADATA}.sigstore"}
# kernel-builder's file names of extensions. Older names have no backend.
_EXTENSION = re.compile(r"_(?P<name>[a-z]\w*?)(?:_(?:cpu|cuda))?_[0-9a-z]+(?:_dirty)?(?:\.abi3)?\.so")
_MODULE = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,99}")
# Newer folders have a module with the kernel's name that imports the package above it. It contains this text.
_IMPORTS_PARENT = b".parent.parent"


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildFacts(Record):
    """The content of a build folder's metadata.json. All fields are None or empty if there is none.

    :param backend: kernel-builder's name of the compute platform.
    :param digests: path in the folder → sha256 in hex.
    """

    name: str | None = None
    version: int | None = None
    license: str | None = None
    upstream: str | None = None
    source: str | None = None
    python_depends: tuple[str, ...] = ()
    kernel_depends: tuple[str, ...] = ()
    backend: str | None = None
    digests: dict[str, str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltPackage(Record):
    """The Python package of a build folder.

    :param module: its import name.
    :param files: path in the package → path in the folder.
    """

    module: str
    files: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildFolder(Record):
    """A parsed build folder.

    :param source: its files with their paths in the repo, and the repo's licences.
    :param hashes: path in the folder → sha256 in hex.
    """

    variant: HubVariant
    facts: BuildFacts
    package: BuiltPackage
    source: KernelSource
    hashes: dict[str, str] = field(hash=False)

    @property
    def content(self) -> dict[str, str]:
        """The files of its package: path in the package → sha256 in hex."""
        return {path: self.hashes[inside] for path, inside in self.package.files.items()}


def read_build_facts(data: bytes) -> BuildFacts:
    """Parse a metadata.json.

    :raises SourceError: it is not JSON, or a value has the wrong type.
    """
    try:
        plain = _table(read_json(data), "it")
        backend = _table(plain.get("backend") or {}, "backend")
        licence = _text(plain, "license")
        return BuildFacts(
            name=_name(plain),
            version=_version(plain),
            license=None if licence and licence.lower() == _NO_LICENCE else licence,
            upstream=_text(plain, "upstream"),
            source=_text(plain, "source"),
            python_depends=_texts(plain, "python-depends"),
            kernel_depends=_texts(plain, "kernel-depends", inner="repo-id"),
            backend=_text(backend, "type"),
            digests=_digests(_table(plain["digest"], "digest")) if plain.get("digest") is not None else None,
        )
    except ValueError as error:
        raise SourceError(in_one_line(error), where=Place(file=METADATA)) from None


def _table(value: Any, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{what} is not a table")  # noqa: TRY004  # a mistake in data, not in code
    return value


def _text(table: Mapping[str, Any], key: str) -> str | None:
    value = table.get(key)
    if value is not None and not (isinstance(value, str) and len(value) <= _LONGEST and value.isprintable()):
        raise ValueError(f"{key} is not a text of at most {_LONGEST} characters")
    return value


def _texts(table: Mapping[str, Any], key: str, inner: str = "") -> tuple[str, ...]:
    items = table.get(key) or []
    if not isinstance(items, list):
        raise ValueError(f"{key} is not a list")  # noqa: TRY004  # as above
    values = ({key: item.get(inner) if inner and isinstance(item, dict) else item} for item in items)
    return tuple(text for value in values if (text := _text(value, key)))


def _name(table: Mapping[str, Any]) -> str | None:
    name = _text(table, "name")
    if name is not None and not _NAME.fullmatch(name):
        raise ValueError("name must consist of letters, digits, - and _")
    return name


def _version(table: Mapping[str, Any]) -> int | None:
    value = table.get("version")
    if value is not None and (not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**31):
        raise ValueError("version is not a whole number")
    return value


def _digests(table: dict[str, Any]) -> dict[str, str]:
    if table.get("algorithm") != "sha256":
        raise ValueError("its digests are not sha256")
    return {path: _digest(digest) for path, digest in _table(table.get("files"), "files of digest").items()}


def _digest(value: Any) -> str:
    """Return a digest in hex from hex or base64."""
    if isinstance(value, str) and _HEX.fullmatch(value):
        return value
    try:
        raw = base64.b64decode(value, validate=True) if isinstance(value, str) else b""
    except (binascii.Error, ValueError):
        raw = b""
    if len(raw) != _SHA256:
        raise ValueError("a digest is not the sha256 of a file")
    return raw.hex()


def check_digests(facts: BuildFacts, hashes: Mapping[str, str], wanted: Iterable[str]) -> None:
    """Verify the files of a folder with the digests in its metadata.json, if there are any.

    :param hashes: path in the folder → sha256 in hex.
    :param wanted: paths of the wheel's files.
    :raises SourceError: a file has another digest, is missing, or has no digest.
    """
    if facts.digests is None:
        return
    for path, digest in sorted(facts.digests.items()):
        if path != METADATA and path not in hashes:
            raise SourceError(f"{visible(path)} is missing, but {METADATA} has its digest")
        if path != METADATA and hashes[path] != digest:
            raise SourceError(f"{visible(path)} does not match its digest in {METADATA}")
    if unnamed := sorted(set(wanted) - facts.digests.keys()):
        raise SourceError(f"{METADATA} has no digest of {visible(unnamed[0])}")


def built_package(
    paths: Iterable[str], *, name: str | None, fallback: str, read: Callable[[str], bytes]
) -> BuiltPackage:
    """Return the package of a build folder: the folder itself, or in older ones the only folder within.

    :param paths: every file, relative to the folder.
    :param name: the kernel's name in metadata.json.
    :param fallback: the name if no file in the folder contains it.
    :param read: returns the content of a small file.
    :raises SourceError: there is no package, or there are files next to it.
    """
    shipped = [path for path in paths if path not in _METADATA_FILES and not is_bytecode(path)]
    if _INIT in shipped:
        return _flat_package(shipped, name, fallback, read)
    tops = {path.partition("/")[0] for path in shipped}
    packages = sorted(top for top in tops if f"{top}/{_INIT}" in shipped)
    if len(packages) != 1:
        found = f"several packages: {visible(', '.join(packages[:3]))}" if packages else "no package to import"
        raise SourceError(f"it has {found}: {_INIT} must be at its top or in exactly one folder")
    (module,) = packages
    if others := sorted(tops - {module}):
        raise SourceError(f"it contains {visible(others[0])} next to its package {visible(module)}")
    if name is not None and _as_module(name) != module:
        raise SourceError(f"{METADATA} calls the kernel {name}, but its package is {visible(module)}")
    return BuiltPackage(module=_check_module(module), files={path.partition("/")[2]: path for path in shipped})


def _flat_package(shipped: list[str], name: str | None, fallback: str, read: Callable[[str], bytes]) -> BuiltPackage:
    inner = [path for path in shipped if path.endswith(f"/{_INIT}") and path.count("/") == 1]
    folders = Counter(path.partition("/")[0] for path in shipped)
    imports_parent = {path for path in inner if folders[path.partition("/")[0]] == 1 and _IMPORTS_PARENT in read(path)}
    named = [path.partition("/")[0] for path in sorted(imports_parent)]
    extensions = (found["name"] for path in shipped if (found := _EXTENSION.fullmatch(path)))
    module = _as_module(name or next(iter((*named, *extensions)), fallback))
    left_out = {path for path in imports_parent if path == f"{module}/{_INIT}"}
    return BuiltPackage(module=_check_module(module), files={path: path for path in shipped if path not in left_out})


def _as_module(name: str) -> str:
    return name.replace("-", "_")


def _check_module(module: str) -> str:
    if not _MODULE.fullmatch(module) or keyword.iskeyword(module):
        raise SourceError(f"{visible(module[:80])!r} is not an import name")
    return module
