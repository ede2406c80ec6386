"""Read literal metadata from setup.py, setup.cfg and other Python files, without running them.

Only literals, and names that are assigned one literal, are known. Before it compiles, the build gets the metadata from
the project's build system and compares them.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from configparser import Error as ConfigError
from configparser import RawConfigParser
from contextlib import suppress
from dataclasses import dataclass

from packaging.version import InvalidVersion, Version

from wheelsmith.base.json_dataclass import Record

_LONGEST_CODE = 1 << 18  # bytes of a parsed file; each may become a kilobyte of syntax tree
# Repeated spaces within a line. configparser's regular expression backtracks over each if the line has no "=".
_SPACES = re.compile(r"(?<=\S)[^\S\n]{2,}")
# Files with only a version, and Python files that usually assign __version__.
_VERSION_FILE = re.compile(r"([^/]+/)?version(\.txt)?|(src/)?[^/]+/(__init__|__about__|_?version)\.py", re.IGNORECASE)
_LONGEST_VERSION = 100  # bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class SetupMetadata(Record):
    """Literal metadata of a project. Other values are None or empty.

    :param setup_requires: requirements of setup.py.
    :param install_requires: requirements of the wheel.
    """

    name: str | None = None
    version: str | None = None
    setup_requires: tuple[str, ...] = ()
    install_requires: tuple[str, ...] = ()


def parse_code(source: bytes) -> ast.Module | None:
    """Return the syntax tree of a Python file; None if it is not Python or too long."""
    if len(source) > _LONGEST_CODE:
        return None
    try:
        with warnings.catch_warnings(action="ignore"):  # about invalid escapes
            return ast.parse(source.decode(errors="replace"))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def may_import(source: bytes, module: str) -> bool:
    """Return True if code imports a module by its absolute name, or is too long to parse."""
    if module.encode() not in source:
        return False
    return len(source) > _LONGEST_CODE or module in _imported(parse_code(source))


def _imported(tree: ast.Module | None) -> Iterator[str]:
    """Yield the top-level name of every absolute import: ``a`` for ``import a.b`` and ``from a import c``."""
    for node in ast.walk(tree) if tree else ():
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            yield node.module.split(".")[0]


def used_names(code: bytes) -> frozenset[str]:
    """Return the names and attributes that a Python file uses, without those that it only imports."""
    tree = parse_code(code)
    nodes = ast.walk(tree) if tree else ()
    return frozenset(
        node.id if isinstance(node, ast.Name) else node.attr
        for node in nodes
        if isinstance(node, ast.Name | ast.Attribute)
    )


def read_setup_py(code: bytes) -> SetupMetadata:
    """Return the literal arguments of the call of ``setup``, if there is exactly one."""
    tree = parse_code(code)
    if tree is None:
        return SetupMetadata()
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and _name(node.func) == "setup"]
    if len(calls) != 1:
        return SetupMetadata()
    named = dict(_constants(tree))
    return _metadata({word.arg: _value(word.value, named) for word in calls[0].keywords if word.arg})


def read_setup_cfg(text: bytes) -> SetupMetadata:
    """Return the literal values in the sections ``metadata`` and ``options``."""
    parser = RawConfigParser(strict=False)
    try:
        parser.read_string(_SPACES.sub(" ", text.decode(errors="replace")))
    except (ConfigError, ValueError):
        return SetupMetadata()
    # A value may be a reference: ``attr: package.__version__``.
    values = {key: parser.get("metadata", key, fallback="") for key in ("name", "version")}
    plain = {key: text for key, text in values.items() if text and not text.startswith(("attr:", "file:"))}
    lists = {key: parser.get("options", key, fallback="") for key in ("setup_requires", "install_requires")}
    return _metadata({**plain, **lists})


def likely_version(paths: Iterable[str], read: Callable[[str], bytes]) -> tuple[str, str] | None:
    """Return a version that is a literal in a file, and the path of this file. Which file setup.py reads is unknown.

    The file is ``package/__init__.py`` with ``__version__``, or ``version.txt``, or has a similar name.

    :param read: path → content.
    """
    for path in filter(_VERSION_FILE.fullmatch, paths):
        content = read(path)
        tree = parse_code(content) if path.endswith(".py") else None
        text = content[:_LONGEST_VERSION].decode(errors="replace")
        found = dict(_constants(tree)).get("__version__") if tree else text
        with suppress(InvalidVersion):
            return Version(str(found)).public, path
    return None


def _metadata(found: dict[str, object]) -> SetupMetadata:
    name, version = found.get("name"), found.get("version")
    return SetupMetadata(
        name=name if isinstance(name, str) else None,
        version=version if isinstance(version, str) else None,
        setup_requires=_texts(found.get("setup_requires")),
        install_requires=_texts(found.get("install_requires")),
    )


def _texts(value: object) -> tuple[str, ...]:
    if isinstance(value, str):  # setuptools splits it into lines
        return tuple(line.strip() for line in value.splitlines() if line.strip())
    return tuple(item for item in value if isinstance(item, str)) if isinstance(value, list) else ()


def _name(called: ast.expr) -> str | None:
    return called.id if isinstance(called, ast.Name) else getattr(called, "attr", None)


def _constants(tree: ast.Module) -> Iterator[tuple[str, object]]:
    """Yield the names that are assigned only once in the file, at its top level, with their values."""
    times = Counter(
        node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)
    )
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)]) if times[name] == 1:
                yield name, _value(node.value, {})


def _value(node: ast.expr, named: dict[str, object]) -> object:
    """Return the value of a string or of a list, with None for unknown items; None for other expressions."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.Name(id=name):
            return named.get(name)
        case ast.List(elts=items) | ast.Tuple(elts=items):
            return [_value(item, named) for item in items]
        case _:
            return None
