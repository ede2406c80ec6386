"""Placeholders in matrix.yaml, such as ``{torch}``: facts about a cell in the spellings that projects use."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from wheelsmith.base.suggest import closest
from wheelsmith.model import Cell
from wheelsmith.platforms import platforms

_BRACES = re.compile(r"\{\{|\}\}|\{[^{}]*\}|[{}]")
_Value = Callable[[Cell, tuple[str, ...]], str]
# Placeholder → function of a cell and its compute capabilities.
PLACEHOLDERS: Mapping[str, _Value] = {
    "torch": lambda cell, _: cell.release,
    "compute": lambda cell, _: cell.compute,
    "cuda": lambda cell, _: cell.toolkit or "",
    "arch": lambda cell, _: cell.arch,
    "python": lambda cell, _: cell.python or "",
    "capabilities": lambda _, found: ";".join(found),
    "capability-numbers": lambda cell, found: ";".join(_number(cell, text) for text in found),
    "capability-names": lambda cell, found: ";".join(f"sm_{_number(cell, text)}" for text in found),
}


def check_placeholders(text: str) -> None:
    """Check that a text contains only known placeholders.

    :raises ValueError: the text has an unknown placeholder or a single brace. ``{{`` stands for a brace.
    """
    _replace(text, dict.fromkeys(PLACEHOLDERS, ""))


def fill_placeholders(text: str, cell: Cell, capabilities: tuple[str, ...]) -> str:
    """Return a text with its placeholders replaced.

    :param capabilities: the compute capabilities of the build, such as ``8.0`` or ``9.0+PTX``.
    """
    return _replace(text, {name: value(cell, capabilities) for name, value in PLACEHOLDERS.items()})


def _replace(text: str, values: Mapping[str, str]) -> str:
    known = ", ".join(f"{{{name}}}" for name in PLACEHOLDERS)

    def replacement(match: re.Match[str]) -> str:
        part = match[0]
        if part in {"{{", "}}"}:
            return part[0]
        if part in {"{", "}"}:
            raise ValueError(f"{text!r} has a single brace: write it twice, or use one of {known}")
        if part[1:-1] not in values:
            close = closest(part[1:-1], values)
            hint = f"did you mean {{{close}}}?" if close else "write a literal brace twice"
            raise ValueError(f"{part} is not one of {known}; {hint}")
        return values[part[1:-1]]

    return _BRACES.sub(replacement, text)


def _number(cell: Cell, capability: str) -> str:
    return platforms()[cell.platform].base_capability(capability).replace(".", "")
