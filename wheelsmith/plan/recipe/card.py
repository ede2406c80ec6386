"""The card of a kernel: upstream's CARD.md is a Jinja template, which ``kernel-builder fill-card`` fills in.

The template is the kernel's own and nobody's to trust, and Jinja's sandbox bounds neither time nor memory. So Jinja
only parses it; what is evaluated is what such cards say: a name, an item of a list, ``if``, ``for``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from wheelsmith.base.errors import SourceError
from wheelsmith.plan.recipe.spec import KernelSpec

if TYPE_CHECKING:
    from jinja2 import nodes

CARD = "CARD.md"
_LONGEST = 200_000  # characters of a template, of what it gives, and of code that is looked through
_STEPS = 20_000
_LONGEST_LIST = 20_000  # characters
_ALL = re.compile(r"^__all__\s*(?::[^=\n]*)?=\s*[\[(]", re.MULTILINE)
_END = re.compile(r"[\])]")
_TEXT = re.compile(r"[\"'](\w+)[\"']")
_CLASS = re.compile(r"^class\s+(\w+)", re.MULTILINE)

Value = str | int | bool | tuple[str, ...] | None


class CardTemplateError(Exception):  # it never leaves this module
    """The template says more than cards do, or too much."""


def render_card(template: str, spec: KernelSpec, paths: Collection[str], read: Callable[[str], str]) -> str | None:
    """Return the card with upstream's names filled in; None where the template is none that can be followed.

    :param paths: every file of the kernel.
    :param read: gives the text of one of them.
    """
    from jinja2 import Environment, TemplateSyntaxError

    if len(template) > _LONGEST:
        return None
    try:
        # It only parses: nothing is rendered that could need escaping.
        body = Environment(trim_blocks=True, keep_trailing_newline=True, autoescape=True).parse(template).body
        return _Card(_names(spec, paths, read)).text(body)
    except (
        TemplateSyntaxError,
        RecursionError,
        ValueError,
        CardTemplateError,
    ):  # ValueError: a number of too many digits
        return None


def _names(spec: KernelSpec, paths: Collection[str], read: Callable[[str], str]) -> dict[str, Value]:
    """Return what upstream's cards name: kernel-builder/src/card.rs."""
    package = spec.root

    def text(*candidates: str) -> str:
        """Return the first that is there and is text; nothing here is worth an error."""
        with suppress(SourceError):
            return next((read(path)[:_LONGEST] for path in candidates if path in paths), "")
        return ""

    exported = _exported(text(f"{package}/__init__.py"))
    layers = text(f"{package}/layers/__init__.py", f"{package}/layers.py") if "layers" in exported else ""
    return {
        "repo_id": spec.repo_id or spec.name,
        "version": spec.version,
        "functions": tuple(name for name in exported if name != "layers") or None,
        "layers": tuple(_CLASS.findall(layers)) or None,
        "has_benchmark": "benchmarks/benchmark.py" in paths,
        "upstream": spec.upstream,
        "source": spec.source,
        "license": spec.license.lower() if spec.license else None,
    }


def _exported(text: str) -> tuple[str, ...]:
    end = -1
    for begin in _ALL.finditer(text):
        if end < begin.end():
            closing = _END.search(text, begin.end())
            if closing is None:
                break
            end = closing.start()
        if end - begin.end() <= _LONGEST_LIST:
            return tuple(_TEXT.findall(text, begin.end(), end))
    return ()


class _Card:
    """Evaluates a parsed template, within bounds."""

    def __init__(self, names: Mapping[str, Value]) -> None:
        self._names = dict(names)
        self._steps = 0

    def text(self, body: Sequence[nodes.Node]) -> str:
        parts, length = [], 0
        for part in self._all(body):
            parts.append(part)
            length += len(part)
            if length > _LONGEST:
                raise CardTemplateError
        return "".join(parts)

    def _all(self, body: Sequence[nodes.Node]) -> Iterator[str]:
        for node in body:
            self._steps += 1
            if self._steps > _STEPS:
                raise CardTemplateError
            yield from self._one(node)

    def _one(self, node: nodes.Node) -> Iterator[str]:
        from jinja2 import nodes

        match node:
            case nodes.Output():
                yield from self._all(node.nodes)
            case nodes.TemplateData():
                yield node.data
            case nodes.If():
                yield from self._all(self._branch(node))
            case nodes.For(target=nodes.Name(name=name), test=None, recursive=False):
                yield from self._loop(node, name)
            case nodes.Expr():
                value = self._value(node)
                yield "" if value is None else str(value)
            case _:
                raise CardTemplateError

    def _branch(self, node: nodes.If) -> list[nodes.Node]:
        for each in (node, *node.elif_):
            if self._value(each.test):
                return each.body
        return node.else_

    def _loop(self, node: nodes.For, name: str) -> Iterator[str]:
        values = self._value(node.iter)
        if not isinstance(values, tuple):
            raise CardTemplateError
        outside = self._names
        for value in values:
            self._names = {**outside, name: value}
            yield from self._all(node.body)
        self._names = outside
        if not values:
            yield from self._all(node.else_)

    def _value(self, node: nodes.Node) -> Value:
        from jinja2 import nodes

        match node:
            case nodes.Name(name=name):
                return self._names.get(name)
            case nodes.Not():
                return not self._value(node.node)
            case nodes.Getitem(arg=nodes.Const(value=int(place))):
                values = self._value(node.node)
                if isinstance(values, tuple) and 0 <= place < len(values):
                    return values[place]
        raise CardTemplateError
