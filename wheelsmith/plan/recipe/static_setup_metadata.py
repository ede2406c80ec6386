"""What setup.py and setup.cfg say in plain words, read without running anything.

What stands there as a literal, or as a name that is given one literal, is taken; what is computed stays unknown. The
build asks the project itself before it compiles, and what it says then is compared.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from configparser import Error as ConfigError
from configparser import RawConfigParser
from dataclasses import dataclass

from wheelsmith.base.json_dataclass import Record
from wheelsmith.plan.recipe.imports import parse_code

_Words = dict[str, object]
# Within a line; the parser tries each of them as the last one before a = that is not there.
_SPACES = re.compile(r"(?<=\S)[^\S\n]{2,}")


@dataclass(frozen=True, slots=True, kw_only=True)
class SetupWords(Record):
    """A project's own words; None and empty where they are not plain.

    :param setup_requires: what it wants to be there before it runs, as pip then installs it.
    :param install_requires: what its wheel will require.
    """

    name: str | None = None
    version: str | None = None
    setup_requires: tuple[str, ...] = ()
    install_requires: tuple[str, ...] = ()


def read_setup_py(code: bytes) -> SetupWords:
    """Return what the one call of ``setup`` says."""
    tree = parse_code(code)
    if tree is None:
        return SetupWords()
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and _name(node.func) == "setup"]
    if len(calls) != 1:
        return SetupWords()
    named = dict(_constants(tree))
    return _words({word.arg: _value(word.value, named) for word in calls[0].keywords if word.arg})


def read_setup_cfg(text: bytes) -> SetupWords:
    """Return what the sections ``metadata`` and ``options`` say."""
    parser = RawConfigParser(strict=False)
    try:
        parser.read_string(_SPACES.sub(" ", text.decode(errors="replace")))
    except (ConfigError, ValueError, RecursionError):
        return SetupWords()
    found: _Words = {key: _plain(parser.get("metadata", key, fallback="")) for key in ("name", "version")}
    for key in ("setup_requires", "install_requires"):
        lines = parser.get("options", key, fallback="").splitlines()
        found[key] = [line.strip() for line in lines if line.strip()]
    return _words(found)


def _plain(text: str) -> str | None:
    """Return a value, unless it says where the value is to be found: ``attr: package.__version__``."""
    return text if text and not text.startswith(("attr:", "file:")) else None


def _words(found: _Words) -> SetupWords:
    name, version = found.get("name"), found.get("version")
    return SetupWords(
        name=name if isinstance(name, str) else None,
        version=version if isinstance(version, str) else None,
        setup_requires=_texts(found.get("setup_requires")),
        install_requires=_texts(found.get("install_requires")),
    )


def _texts(value: object) -> tuple[str, ...]:
    if isinstance(value, str):  # which setuptools takes for a list, a line each
        return tuple(line.strip() for line in value.splitlines() if line.strip())
    return tuple(item for item in value if isinstance(item, str)) if isinstance(value, list) else ()


def _name(called: ast.expr) -> str | None:
    return called.id if isinstance(called, ast.Name) else getattr(called, "attr", None)


def _constants(tree: ast.Module) -> Iterator[tuple[str, object]]:
    """Yield what is named once in all of a file, at its top."""
    times = Counter(
        node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)
    )
    for node in tree.body:
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            target = node.targets[0]
            if isinstance(target, ast.Name) and times[target.id] == 1:
                yield target.id, _value(node.value, {})


def _value(node: ast.expr, named: _Words) -> object:
    """Return a text or a list of what is known; None for all else."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.Name(id=name):
            return named.get(name)
        case ast.List(elts=items) | ast.Tuple(elts=items):
            return [_value(item, named) for item in items]
        case _:
            return None
