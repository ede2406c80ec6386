"""What an expression may be: texts with holes where they are not known, functions, modules; and what texts become."""

from __future__ import annotations

import ast
import string
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice, product

from wheelsmith.wheel.operators.bindings import Function, NameScope
from wheelsmith.wheel.operators.code import Code

GAP = "\0"  # of a text: whatever is not known before the code runs
LONGEST = 1000  # characters of a text that are followed
MOST = 64  # values that one expression may have


@dataclass(frozen=True, slots=True)
class Known:
    """Something of Python or of a project outside of the wheel.

    :param path: such as ``torch.library.custom_op`` or ``builtins.getattr``.
    """

    path: str


@dataclass(frozen=True, slots=True)
class File:
    """A module of the wheel."""

    code: Code


@dataclass(frozen=True, slots=True)
class Routine:
    """A function of the wheel.

    :param frame: what the functions around it were called with.
    """

    node: Function
    code: Code
    frame: Frame | None


@dataclass(frozen=True, slots=True)
class Klass:
    """A class of the wheel, or an object of it."""

    node: ast.ClassDef
    code: Code
    is_object: bool = False


@dataclass(frozen=True, slots=True)
class Method:
    """A method of a text."""

    text: str
    name: str


# Compared by identity: how deep they nest is up to whoever wrote them.
@dataclass(frozen=True, slots=True, eq=False)
class Bound:
    """A function with its first arguments."""

    function: Value
    arguments: Arguments


@dataclass(frozen=True, slots=True, eq=False)
class Items:
    """A sequence of known length."""

    each: tuple[Values, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Many:
    """Some sequence."""

    of: Values


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """A dict."""

    entries: tuple[tuple[Values, Values], ...]


Value = str | int | Known | File | Routine | Klass | Method | Bound | Items | Many | Table
Values = frozenset[Value]
Argument = Callable[[], Values]
UNKNOWN: Values = frozenset({GAP})


@dataclass(frozen=True, slots=True, eq=False)
class Arguments:
    """What a function is called with."""

    positional: tuple[Argument, ...] = ()
    named: dict[str, Argument] = field(default_factory=dict)

    def after(self, first: Arguments) -> Arguments:
        """Return these behind others, as functools.partial has it."""
        return Arguments((*first.positional, *self.positional), {**first.named, **self.named})

    def get(self, number: int, *names: str) -> Values:
        """Return one argument; nothing where it is not given."""
        if number < len(self.positional):
            return self.positional[number]()
        return next((self.named[name]() for name in names if name in self.named), frozenset())


@dataclass(slots=True, eq=False)
class Frame:
    """One call of a function.

    :param outer: that of the function around it.
    """

    scope: NameScope
    arguments: dict[str, Argument]
    outer: Frame | None
    found: dict[str, Values] = field(default_factory=dict)


def values(found: Iterable[Value]) -> Values:
    """Return so many values as are followed, and a hole for the others."""
    every = iter(found)
    made = frozenset(islice(every, 2 * MOST))
    whole = len(made) <= MOST and next(every, None) is None
    return made if whole else frozenset([*islice(made, MOST), GAP])


def elements(sequences: Values) -> Values:
    """Return what a loop over any of these meets."""
    return values(item for sequence in sequences for item in _elements(sequence))


def _elements(sequence: Value) -> Iterator[Value]:
    if isinstance(sequence, Items):
        for each in sequence.each:
            yield from each
    elif isinstance(sequence, Many):
        yield from sequence.of
    elif isinstance(sequence, Table):
        for key, _ in sequence.entries:
            yield from key
    elif isinstance(sequence, str) and GAP not in sequence:
        yield from sequence
    else:
        yield GAP


def item(sequence: Value, key: Value) -> Values:
    """Return ``sequence[key]``."""
    if isinstance(sequence, Items) and isinstance(key, int):
        return sequence.each[key] if -len(sequence.each) <= key < len(sequence.each) else frozenset()
    if isinstance(sequence, Items | Many):
        return elements(frozenset({sequence}))
    if isinstance(sequence, Table):
        every = [value for known, value in sequence.entries if key in known or key == GAP or GAP in known]
        return values(one for value in every for one in value)
    if isinstance(sequence, Known) and isinstance(key, str) and GAP not in key:
        if sequence.path == "sys.modules":
            return frozenset({Known(key)})
        if sequence.path.endswith(".__dict__"):
            return frozenset({Known(f"{sequence.path.removesuffix('__dict__')}{key}")})
    if isinstance(sequence, str) and isinstance(key, int) and GAP not in sequence:
        return frozenset({sequence[key]} if -len(sequence) <= key < len(sequence) else ())
    return UNKNOWN


def text(value: Value) -> str:
    """Return what a value is as a text."""
    return str(value) if isinstance(value, str | int) else GAP


def joined(parts: Sequence[Values]) -> Values:
    """Return every text that these parts make, one after the other."""
    made = ("".join(map(text, each)) for each in product(*parts))
    return values(map(clipped, made))


def clipped(long: str) -> str:
    """Return as much of a text as is followed."""
    return long if len(long) <= LONGEST else long[:LONGEST] + GAP


def filled(template: str, arguments: Arguments) -> Values:
    """Return what ``template.format(…)`` makes."""
    parts: list[Values] = []
    count = 0
    try:
        for literal, name, spec, conversion in string.Formatter().parse(template):
            parts.append(frozenset({literal}))
            if name is None:
                continue
            number, count = (count, count + 1) if not name else (int(name) if name.isdecimal() else LONGEST, count)
            plain = not spec and conversion in {None, "s"}
            parts.append((arguments.get(number, name) if plain else UNKNOWN) or UNKNOWN)
    except ValueError:
        return UNKNOWN
    return joined(parts)


def interpolated(template: str, arguments: Sequence[Values]) -> Values:
    """Return what ``template % arguments`` makes."""
    if GAP in template:
        return UNKNOWN
    literals = template.replace("%%", GAP).split("%s")
    if "%" in "".join(literals) or len(literals) != len(arguments) + 1:
        return UNKNOWN
    parts: list[Values] = [frozenset({literals[0].replace(GAP, "%")})]
    for value, literal in zip(arguments, literals[1:], strict=True):
        parts += [value, frozenset({literal.replace(GAP, "%")})]
    return joined(parts)


# Methods whose result is no longer than what they are given.
_SHORT = {
    *("lower", "upper", "strip", "lstrip", "rstrip", "removeprefix", "removesuffix", "title", "capitalize"),
    *("casefold", "swapcase"),
}
_SPLIT = {"split", "rsplit", "partition", "rpartition"}


def called(method: Method, arguments: Arguments) -> Values:
    """Return what a method of a text gives."""
    if method.name in {"encode", "decode", "__str__"}:
        return frozenset({method.text})
    if method.name == "format":
        return filled(method.text, arguments)
    if method.name == "join":
        return _join(method.text, arguments.get(0))
    given = [argument() for argument in arguments.positional[:3]]
    return values(one for each in product(*given) for one in _plain_method(method, each))


def _join(separator: str, sequences: Values) -> Values:
    made: list[Value] = []
    for sequence in sequences:
        if not isinstance(sequence, Items) or len(sequence.each) > MOST:
            return UNKNOWN
        parts = [part for each in sequence.each for part in (each, frozenset({separator}))][:-1]
        made += joined(parts) if parts else [""]
    return values(made)


def _plain_method(method: Method, given: Sequence[Value]) -> Values:
    texts = [one for one in given if isinstance(one, str | int)]
    if len(texts) != len(given) or any(GAP in text(one) for one in [method.text, *texts]):
        return UNKNOWN
    try:
        if method.name in _SHORT:
            return frozenset({str(getattr(method.text, method.name)(*texts))})
        if method.name in _SPLIT:
            return frozenset({Items(tuple(frozenset({one}) for one in getattr(method.text, method.name)(*texts)))})
        if method.name == "replace":
            return frozenset({clipped(method.text.replace(*texts))})  # type: ignore[arg-type]  # else a TypeError
    except (TypeError, ValueError):
        pass
    return UNKNOWN
