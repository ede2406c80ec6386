"""Follow the expressions of Python code to what they may be, within bounds; nothing is imported or run."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product

from wheelsmith.wheel.operators.bindings import Function, Point, reaching
from wheelsmith.wheel.operators.code import AnalysisLimitError, Code, truth
from wheelsmith.wheel.operators.names import END, Names, has_decorator
from wheelsmith.wheel.operators.values import (
    GAP,
    LONGEST,
    UNKNOWN,
    Argument,
    Arguments,
    Bound,
    File,
    Frame,
    Items,
    Klass,
    Known,
    Many,
    Method,
    Routine,
    Table,
    Value,
    Values,
    called,
    clipped,
    elements,
    interpolated,
    item,
    joined,
    text,
    values,
)

_MOST_STEPS = 400_000
_DEEPEST = 80  # steps within steps
_MOST_ITEMS = 200
_MOST_NESTED = 3  # calls of one function within itself


class Evaluator(Names):
    """Evaluate expressions, within bounds.

    :param read: gives the text of a file by its path in the wheel; None where there is none.
    """

    def __init__(self, read: Callable[[str], bytes | None]) -> None:
        super().__init__(read)
        self._running: Counter[Function] = Counter()
        self._steps = self._depth = 0

    # --- expressions ------------------------------------------------------------------------------------------

    def evaluate(self, node: ast.expr, point: Point, code: Code, frame: Frame | None = None) -> Values:
        """Return what an expression may be; the steps that it takes are counted."""
        self._steps += 1
        if self._steps > _MOST_STEPS or self._depth > _DEEPEST:
            raise AnalysisLimitError
        self._depth += 1
        try:
            found = self._evaluate(node, point, code, frame)
        finally:
            self._depth -= 1
        self._steps += len(found)
        return found

    def _evaluate(self, node: ast.expr, point: Point, code: Code, frame: Frame | None) -> Values:  # noqa: C901, PLR0911, PLR0912  # one case for each kind of expression
        again = partial(self.evaluate, point=point, code=code, frame=frame)
        match node:
            case ast.Constant(value=str() as value):
                return frozenset({clipped(value)})
            case ast.Constant(value=int() as number) if abs(number) < END:
                return frozenset({number})
            case ast.Constant(value=bytes() as data):
                return frozenset({data[:LONGEST].decode("latin-1")})
            case ast.Name():
                return self._name(node.id, point, code, frame)
            case ast.Attribute():
                return self._attribute(node, point, code, frame)
            case ast.Call():
                arguments = self.arguments(node, point, code, frame)
                return values(one for function in again(node.func) for one in self.call(function, arguments))
            case ast.JoinedStr():
                return joined([again(part) for part in node.values[:_MOST_ITEMS]])
            case ast.FormattedValue():
                plain = node.format_spec is None and node.conversion in {-1, ord("s")}
                return values(map(text, again(node.value))) if plain else UNKNOWN
            case ast.BinOp():
                return self._operation(node, again)
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() as number)):
                return frozenset({-number})
            case ast.BoolOp():
                return values(one for value in node.values for one in again(value))
            case ast.IfExp():
                known = truth(node.test)
                arms = [node.body, node.orelse] if known is None else [node.body if known else node.orelse]
                return values(one for arm in arms for one in again(arm))
            case ast.NamedExpr() | ast.Await() | ast.Starred():
                return again(node.value)
            case ast.Lambda():
                return frozenset({Routine(node, code, frame)})
            case ast.Tuple() | ast.List() | ast.Set():
                if len(node.elts) > _MOST_ITEMS or any(isinstance(each, ast.Starred) for each in node.elts):
                    return frozenset({Many(values(one for each in node.elts[:_MOST_ITEMS] for one in again(each)))})
                return frozenset({Items(tuple(again(each) for each in node.elts))})
            case ast.Dict():
                pairs = zip(node.keys[:_MOST_ITEMS], node.values, strict=False)
                return frozenset({Table(tuple((again(key) if key else UNKNOWN, again(value)) for key, value in pairs))})
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp():
                inner = Point(code.scopes[node], point.order + 2, ())
                return frozenset({Many(self.evaluate(node.elt, inner, code, frame))})
            case ast.Subscript():
                return self._subscript(node, again)
            case _:
                return UNKNOWN

    def _operation(self, node: ast.BinOp, again: Callable[[ast.expr], Values]) -> Values:
        if isinstance(node.op, ast.Add):
            parts: list[ast.expr] = [node.right]
            left = node.left
            while isinstance(left, ast.BinOp) and isinstance(left.op, ast.Add):
                parts.append(left.right)
                left = left.left
            return joined([again(part) for part in [left, *reversed(parts)][:_MOST_ITEMS]])
        if isinstance(node.op, ast.Mod):
            made: list[Value] = []
            for template, given in product(again(node.left), again(node.right)):
                each = list(given.each) if isinstance(given, Items) else [frozenset({given})]
                made += interpolated(template, each) if isinstance(template, str) else UNKNOWN
            return values(made)
        if isinstance(node.op, ast.Mult):
            pairs = product(again(node.left), again(node.right))
            return values(
                one * other if isinstance(one, str) and isinstance(other, int) and other * len(one) <= LONGEST else GAP
                for one, other in pairs
            )
        return UNKNOWN

    def _subscript(self, node: ast.Subscript, again: Callable[[ast.expr], Values]) -> Values:
        if not isinstance(node.slice, ast.Slice):
            pairs = product(again(node.value), again(node.slice))
            return values(one for sequence, key in pairs for one in item(sequence, key))
        bounds = [again(part) if part else None for part in (node.slice.lower, node.slice.upper, node.slice.step)]
        exact = [next(iter(bound)) if bound and len(bound) == 1 else None for bound in bounds]
        numbers = [number if isinstance(number, int) else None for number in exact]
        known = all(bound is None or number is not None for bound, number in zip(bounds, numbers, strict=True))
        cut = slice(*numbers)
        return values(
            one[cut] if isinstance(one, str) and GAP not in one and known and cut.step != 0 else GAP
            for one in again(node.value)
        )

    def _attribute(self, node: ast.Attribute, point: Point, code: Code, frame: Frame | None) -> Values:
        if isinstance(node.value, ast.Call) and getattr(node.value.func, "id", "") == "super":
            bound = Arguments((lambda: UNKNOWN,))
            found = self._of_base(point, code, node.attr)
            return frozenset(Bound(value, bound) for value in found)
        found = self.evaluate(node.value, point, code, frame)
        return values(one for value in found for one in self.get(value, node.attr))

    def _of_base(self, point: Point, code: Code, name: str) -> Values:
        around = point.scope.at.scope.node if point.scope.at else None
        klass = Klass(around, code) if isinstance(around, ast.ClassDef) else None
        return values(one for base in self.bases(klass) for one in self.get(base, name)) if klass else UNKNOWN

    def get(self, value: Value, name: str) -> Values:
        """Return an attribute of a value."""
        if name == "__call__":
            return frozenset({value})
        if isinstance(value, Known) and len(value.path) < LONGEST:
            if value.path.startswith("torch.ops.") and name == "__name__":
                return frozenset({value.path})
            return frozenset({Known(f"{value.path}.{name}")})
        if isinstance(value, File):
            return self.member(value.code, name)
        if isinstance(value, Klass):
            return self._of_class(value, name)
        return frozenset({Method(value, name)}) if isinstance(value, str) and value != GAP else UNKNOWN

    def _of_class(self, klass: Klass, name: str) -> Values:
        bindings = reaching(name, Point(klass.code.scopes[klass.node], END, ()))
        own = [binding for binding in bindings if binding.point.scope.node is klass.node]
        if not own:
            return values(one for base in self.bases(klass) for one in self.get(base, name)) or UNKNOWN
        found = values(one for binding in own for one in self._binding(binding, klass.code, None))
        return values(one for value in found for one in self._method(klass, value))

    def _method(self, klass: Klass, value: Value) -> Values:
        if not isinstance(value, Routine) or has_decorator(value.node, "staticmethod"):
            return frozenset({value})
        of_class = has_decorator(value.node, "classmethod")
        if not klass.is_object and not of_class:
            return frozenset({value})
        bound = Bound(value, Arguments((lambda: frozenset({klass}),)))
        return self.call(bound, Arguments()) if has_decorator(value.node, "property") else frozenset({bound})

    def bases(self, klass: Klass) -> Values:
        """Return what a class is derived from."""
        at = klass.code.scopes[klass.node].at
        given = klass.node.bases if at else []
        return values(one for base in given for one in self.evaluate(base, at, klass.code) if one != klass)  # type: ignore[arg-type]  # never None where there are bases

    # --- calls ------------------------------------------------------------------------------------------------

    def arguments(self, node: ast.Call, point: Point, code: Code, frame: Frame | None = None) -> Arguments:
        """Return what stands in a call; each is evaluated when it is asked for."""

        def later(expression: ast.expr) -> Argument:
            return partial(self.evaluate, expression, point, code, frame)

        positional: list[Argument] = []
        for given in node.args[:_MOST_ITEMS]:
            if isinstance(given, ast.Starred):
                positional += self._spread(self.evaluate(given.value, point, code, frame))
            else:
                positional.append(later(given))
        named = {keyword.arg: later(keyword.value) for keyword in node.keywords if keyword.arg}
        for keyword in node.keywords:
            if keyword.arg is None:
                for table in self.evaluate(keyword.value, point, code, frame):
                    named |= dict(_entries(table))
        return Arguments(tuple(positional), named)

    def _spread(self, found: Values) -> Iterator[Argument]:
        for value in found:
            if isinstance(value, Items):
                yield from (partial(frozenset, each) for each in value.each)
            else:
                yield partial(elements, frozenset({value}))

    def call(self, function: Value, arguments: Arguments) -> Values:
        """Return what a function may give."""
        if isinstance(function, Bound):
            return self.call(function.function, arguments.after(function.arguments))
        if isinstance(function, Routine):
            return self._returned(function, arguments)
        if isinstance(function, Method):
            return called(function, arguments)
        if isinstance(function, Klass):
            return frozenset({Klass(function.node, function.code, is_object=True)})
        return self._builtin(function.path, arguments) if isinstance(function, Known) else UNKNOWN

    def _returned(self, function: Routine, arguments: Arguments) -> Values:
        scope = function.code.scopes[function.node]
        nested = self._running[function.node] >= _MOST_NESTED
        if nested or scope.yields or isinstance(function.node, ast.AsyncFunctionDef):
            return UNKNOWN
        frame = self.frame(function, arguments)
        self._running[function.node] += 1
        try:
            found = (self.evaluate(node, point, function.code, frame) for node, point in scope.returns)
            return values(one for each in found for one in each) or UNKNOWN
        finally:
            self._running[function.node] -= 1

    def _builtin(self, path: str, arguments: Arguments) -> Values:
        name = path.rpartition(".")[2]
        first = partial(arguments.get, 0)
        if path == "builtins.getattr":
            pairs = product(first(), arguments.get(1))
            plain = [(value, key) for value, key in pairs if isinstance(key, str)]
            return values(one for value, key in plain for one in self.get(value, key)) or UNKNOWN
        if path in {"builtins.__import__", "importlib.import_module", "importlib.__import__"}:
            whole = name == "import_module"
            return values(self._import(text(one), whole=whole) for one in first())
        if path in {"functools.partial", "functools.partialmethod"}:
            rest = Arguments(arguments.positional[1:], arguments.named)
            return frozenset(Bound(one, rest) for one in first())
        if path == "builtins.vars":
            return values(one for value in first() for one in self.get(value, "__dict__"))
        if path in {"builtins.list", "builtins.tuple", "builtins.iter", "builtins.str"}:
            return first() or frozenset({""})
        if path in {"builtins.sorted", "builtins.set", "builtins.frozenset", "builtins.reversed"}:
            return frozenset({Many(elements(first()))})
        return UNKNOWN

    def _import(self, name: str, *, whole: bool) -> Value:
        if GAP in name or name.startswith("."):
            return GAP
        name = name if whole else name.partition(".")[0]
        module = self._module(name.split("."))
        return File(module) if module else Known(name)


def _entries(table: Value) -> Iterator[tuple[str, Argument]]:
    if isinstance(table, Table):
        for keys, found in table.entries:
            for key in keys:
                if isinstance(key, str):
                    yield key, partial(frozenset, found)
