"""Check CPython's symbols: those of its stable ABI, or of the release that the tag names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

import abi3info  # type: ignore[import-untyped]  # it ships no types
from packaging.tags import Tag

from wheelsmith.wheel.elf import Extension
from wheelsmith.wheel.inspection import Inspection
from wheelsmith.wheel.report import Finding, finding
from wheelsmith.wheel.rules.rule import Rule
from wheelsmith.wheel.symbols import python_exports

_PYTHON = re.compile(r"cp(\d)(\d+)")
_NAMES = ("Py", "_Py")


def _abi3(wheel: Inspection) -> Iterator[Finding]:
    since = _oldest(tag for tag in wheel.name.tags if tag.abi in {"abi3", "abi3t"})
    if since is None:
        return
    for name, extension in wheel.extensions.items():
        strong, weak = _python_symbols(wheel, name, extension)
        wrong = [f"{symbol} is not in the stable ABI of {since}" for symbol in outside_abi3(strong, since)]
        # A weak symbol of a later stable ABI is how a module asks for what a newer Python has.
        wrong += [f"{symbol} is in no stable ABI, though it may be absent" for symbol in outside_abi3(weak, "cp3999")]
        yield finding("abi3", [f"{name}: {message}" for message in wrong], f"{name}: stable ABI of {since}")


def _release(wheel: Inspection) -> Iterator[Finding]:
    tags = sorted({(tag.interpreter, tag.abi) for tag in wheel.name.tags if tag.abi not in {"abi3", "abi3t"}})
    # A free-threaded Python exports more than is known here, and PyPy has names of its own for everything.
    pypy = any(interpreter.startswith("pp") for interpreter, _ in tags)
    known = not pypy and not any(tag.abi.endswith("t") for tag in wheel.name.tags)
    for name, extension in wheel.extensions.items():
        strong, weak = _python_symbols(wheel, name, extension)
        if not strong and not weak:
            continue
        nobodys = _outside_every_release([*strong, *weak])
        wrong = [f"no CPython exports {symbol}" for symbol in nobodys if known]
        wrong += [f"no PyPy exports {symbol}" for symbol in strong if pypy and symbol not in nobodys]
        for interpreter, abi in tags:
            # A tag such as py3-none is for every Python, and only the stable ABI is in all of them.
            stable = abi == "none" and not interpreter.startswith("cp")
            absent = outside_abi3(strong, "cp3999") if stable else _outside_release(strong, interpreter)
            if abi.endswith("t"):
                absent = [symbol for symbol in absent if symbol not in nobodys]
            what = "the stable ABI" if stable else f"CPython {interpreter[2:3]}.{interpreter[3:]}"
            wrong += [f"{symbol} is not in {what}" for symbol in absent]
        yield finding(
            "python-symbols", [f"{name}: {message}" for message in wrong], f"{name}: {len(strong)} of CPython"
        )


def _python_symbols(wheel: Inspection, name: str, extension: Extension) -> tuple[list[str], list[str]]:
    """Return CPython's symbols that a file needs, and those that may be absent."""
    if extension.kind == "program":
        return [], []
    named = [reference for reference in extension.references if reference.name.startswith(_NAMES)]
    if not named:
        return [], []
    scope = wheel.resolver.scope(name)
    free = [r for r in named if not wheel.resolver.offers(scope, extension.arch, r)]
    return [r.name for r in free if not r.weak], [r.name for r in free if r.weak]


def _oldest(tags: Iterator[Tag]) -> str | None:
    found = {tag.interpreter for tag in tags if tag.interpreter[2:].isdigit()}
    return min(found, key=lambda interpreter: int(interpreter[3:] or 0), default=None)


def outside_abi3(symbols: list[str], since: str) -> list[str]:
    """Return the symbols that the stable ABI of ``since`` (``cp39``) does not have."""
    found = _PYTHON.fullmatch(since)
    version = (int(found[1]), int(found[2])) if found else (0, 0)
    added = _stable_abi()
    return sorted(symbol for symbol in symbols if symbol not in added or added[symbol] > version)


def _outside_release(symbols: list[str], interpreter: str) -> list[str]:
    """Return the symbols that one CPython (``cp312``) does not export; none if it is not known."""
    found = _PYTHON.fullmatch(interpreter)
    exports = python_exports().get(f"{found[1]}.{found[2]}") if found else None
    return sorted(symbol for symbol in symbols if symbol not in exports) if exports is not None else []


def _outside_every_release(symbols: list[str]) -> list[str]:
    """Return the symbols that no known CPython exports, nor the stable ABI."""
    known = frozenset[str]().union(*python_exports().values(), _stable_abi())
    return sorted(symbol for symbol in symbols if symbol not in known)


@cache
def _stable_abi() -> dict[str, tuple[int, int]]:
    """Return each symbol of the stable ABI with the Python that added it."""
    entries = [*abi3info.FUNCTIONS.items(), *abi3info.DATAS.items()]
    return {symbol.name: (entry.added.major, entry.added.minor) for symbol, entry in entries}


ABI3 = Rule(
    name="abi3",
    proves="every CPython symbol is in the stable ABI of the tag's Python, and a weak one in that of a later Python",
    leaves_open="whether the symbols are used as the stable ABI has them",
    in_the_wild="protobuf 6.33.6: `PyUnicode_AsUTF8AndSize` in a cp39-abi3 wheel, in the stable ABI from 3.10 on",
    examine=_abi3,
)
RELEASE = Rule(
    name="python-symbols",
    proves="every symbol that is named as CPython's is exported by the CPython that the tag names; where the tag names "
    "none, it is in the stable ABI; a weak one is exported by some CPython at least",
    leaves_open="what free-threaded Pythons export beyond others, what else PyPy exports, and releases that are not "
    "known",
    examine=_release,
)
