"""What the names of Python code may be: of the files of a wheel, which import each other."""

from __future__ import annotations

import ast
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from functools import partial

from wheelsmith.wheel.operators.bindings import COMPREHENSIONS, Function, How, NameBinding, Point, reaching
from wheelsmith.wheel.operators.code import Code, read_code
from wheelsmith.wheel.operators.values import (
    UNKNOWN,
    Argument,
    Arguments,
    File,
    Frame,
    Klass,
    Known,
    Routine,
    Value,
    Values,
    elements,
    item,
    values,
)

END = 2**62  # after every statement
_MOST_CALLERS = 200


class Names(ABC):
    """Names of some Python files that may import each other.

    :param read: gives the text of a file by its path in the wheel; None where there is none.
    """

    def __init__(self, read: Callable[[str], bytes | None]) -> None:
        self._read = read
        self._codes: dict[str, Code | None] = {}
        self._found: dict[NameBinding, Values] = {}
        self._active: set[tuple[NameBinding, int]] = set()
        self._stars: set[tuple[Code, str]] = set()
        # Who calls a function of the wheel, and with what: known once all calls were looked at.
        self.callers: dict[Function, list[Arguments]] = {}

    @abstractmethod
    def evaluate(self, node: ast.expr, point: Point, code: Code, frame: Frame | None = None) -> Values:
        """Return what an expression may be.

        :param frame: of the function that it stands in, where it is known what that was called with.
        :raises AnalysisLimitError: it takes more steps than are followed.
        """

    def forget(self) -> None:
        """Evaluate afresh: there are more files to look at."""
        self._found.clear()
        self.callers.clear()

    def note_callers(self, found: Iterable[tuple[Function, Arguments]]) -> None:
        """Learn who calls functions of the wheel: what depends on that is evaluated afresh."""
        for node, arguments in found:
            self.callers.setdefault(node, []).append(arguments)
        self._found.clear()

    # --- modules ----------------------------------------------------------------------------------------------

    def code(self, path: str) -> Code | None:
        """Read a file; None where there is none, or none that can be parsed."""
        if path not in self._codes:
            source = self._read(path)
            self._codes[path] = None  # while it is read
            if source is not None:
                self._codes[path] = read_code(path, source, partial(self._brings, path))
        return self._codes[path]

    def member(self, code: Code, name: str) -> Values:
        """Return what a module's name is, once the module is imported."""
        found = reaching(name, Point(code.scope, END, ()))
        if found:
            return values(one for binding in found for one in self._binding(binding, code, None))
        package = code.path.split("/")[:-1] if code.path.endswith("/__init__.py") else None
        inner = self._module([*package, name]) if package is not None else None
        return frozenset({File(inner)}) if inner else self._from_stars(code, name)

    def _from_stars(self, code: Code, name: str) -> Values:
        made: list[Value] = []
        for star in code.stars:
            where = self._imported(code.path, star)
            if isinstance(where, Code):
                if (where, name) not in self._stars:
                    self._stars.add((where, name))
                    made += self.member(where, name) - UNKNOWN
                    self._stars.discard((where, name))
            elif where:
                made.append(Known(f"{where}.{name}"))
        return values(made) or UNKNOWN

    def _module(self, parts: list[str]) -> Code | None:
        stem = "/".join(parts)
        return (self.code(f"{stem}/__init__.py") or self.code(f"{stem}.py")) if stem else None

    def _imported(self, path: str, node: ast.ImportFrom) -> Code | str | None:
        """Return the module that is imported from: of the wheel, or by its name; None where it is neither."""
        named = (node.module or "").split(".") if node.module else []
        if not node.level:
            return self._module(named) or node.module
        base = path.split("/")[:-1]
        return self._module([*base[: len(base) - node.level + 1], *named]) if node.level <= len(base) else None

    def _brings(self, path: str, node: ast.ImportFrom) -> bool:
        where = self._imported(path, node) if node.level else None
        return isinstance(where, Code) and all(self.member(where, alias.name) for alias in node.names)

    # --- names ------------------------------------------------------------------------------------------------

    def _name(self, name: str, point: Point, code: Code, frame: Frame | None) -> Values:
        if found := reaching(name, point):
            return values(one for binding in found for one in self._binding(binding, code, frame))
        return self._from_stars(code, name) if code.stars else frozenset({Known(f"builtins.{name}")})

    def _binding(self, binding: NameBinding, code: Code, frame: Frame | None) -> Values:
        scope = binding.point.scope
        while frame is not None and not _is_within(scope, frame):
            frame = frame.outer
        if frame is None and binding in self._found:
            return self._found[binding]
        key = (binding, id(frame))
        if key in self._active:
            return UNKNOWN
        self._active.add(key)
        try:
            found = self._bound(binding, code, frame)
        finally:
            self._active.discard(key)
        if frame is None:
            self._found[binding] = found
        return found

    def _bound(self, binding: NameBinding, code: Code, frame: Frame | None) -> Values:
        node = binding.node
        match binding.how:
            case How.DEFINITION if isinstance(node, ast.ClassDef):
                return frozenset({Klass(node, code)})
            case How.DEFINITION if isinstance(node, Function):
                return frozenset({Routine(node, code, frame)})
            case How.VALUE | How.ELEMENT if isinstance(node, ast.expr):
                found = self.evaluate(node, binding.point, code, frame)
                found = elements(found) if binding.how is How.ELEMENT else found
                for number in binding.index:
                    found = values(one for sequence in found for one in item(sequence, number))
                return found
            case How.MODULE:
                module = self._module(binding.name.split("."))
                return frozenset({File(module) if module else Known(binding.name)})
            case How.MEMBER if isinstance(node, ast.ImportFrom):
                where = self._imported(code.path, node)
                if isinstance(where, Code):
                    return self.member(where, binding.name)
                return frozenset({Known(f"{where}.{binding.name}")}) if where else UNKNOWN
            case How.PARAMETER if isinstance(node, Function):
                return self._parameter(node, binding, code, frame)
            case _:
                return UNKNOWN

    def _parameter(self, node: Function, binding: NameBinding, code: Code, frame: Frame | None) -> Values:
        name, scope = binding.name, binding.point.scope
        if frame is not None and frame.scope is scope:
            if name not in frame.found:
                frame.found[name] = frame.arguments[name]() if name in frame.arguments else UNKNOWN
            return frame.found[name]
        first = [one.arg for one in (*node.args.posonlyargs, *node.args.args)][:1]
        outer = scope.at.scope.node if scope.at else None
        if isinstance(outer, ast.ClassDef) and first and first == [name] and not has_decorator(node, "staticmethod"):
            return frozenset({Klass(outer, code, is_object=not has_decorator(node, "classmethod"))})
        callers = self.callers.get(node, [])[:_MOST_CALLERS] or [Arguments()]
        routine = Routine(node, code, None)
        given = [self._named(routine, arguments).get(name) for arguments in callers]
        return values(one for argument in given if argument for one in argument()) or UNKNOWN

    def frame(self, function: Routine, arguments: Arguments) -> Frame:
        """Return one call of a function."""
        scope = function.code.scopes[function.node]
        return Frame(scope, self._named(function, arguments), function.frame)

    def _named(self, function: Routine, arguments: Arguments) -> dict[str, Argument]:
        """Return what each parameter is, defaults included."""
        given, scope = function.node.args, function.code.scopes[function.node]
        positional = [*given.posonlyargs, *given.args]
        defaults = list(zip(reversed(positional), reversed(given.defaults), strict=False))
        defaults += [(one, value) for one, value in zip(given.kwonlyargs, given.kw_defaults, strict=True) if value]
        made: dict[str, Argument] = {}
        if scope.at:
            for one, value in defaults:
                made[one.arg] = partial(self.evaluate, value, scope.at, function.code, function.frame)
        made |= {one.arg: value for one, value in zip(positional, arguments.positional, strict=False)}
        return made | arguments.named


def _is_within(scope: object, frame: Frame) -> bool:
    """Say whether a scope is that of a frame, or one that runs within it."""
    here = frame.scope if scope is frame.scope else scope
    while here is not frame.scope and here is not None and isinstance(getattr(here, "node", None), COMPREHENSIONS):
        here = here.at.scope  # type: ignore[attr-defined]  # a comprehension stands somewhere
    return here is frame.scope


def has_decorator(node: Function, decorator: str) -> bool:
    """Say whether a function has a decorator of this name."""
    given = [] if isinstance(node, ast.Lambda) else node.decorator_list
    return any(getattr(one, "id", getattr(one, "attr", None)) == decorator for one in given)
