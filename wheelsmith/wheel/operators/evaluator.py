"""Follow the expressions of Python code to what they may be, within bounds; nothing is imported or run."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import product

from wheelsmith.wheel.operators.bindings import COMPREHENSIONS, Binding, Function, How, Point, reaching
from wheelsmith.wheel.operators.code import Code, Unfollowed, read_code, truth
from wheelsmith.wheel.operators.values import (
    HOLE,
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

_END = 2**62  # after every statement
_MOST_STEPS = 400_000
_DEEPEST = 80  # steps within steps
_MOST_ITEMS = 200
_MOST_NESTED = 3  # calls of one function within itself


class Evaluator:
    """Evaluate expressions of some Python files that may import each other.

    :param read: gives the text of a file by its path in the wheel; None where there is none.
    """

    def __init__(self, read: Callable[[str], bytes | None]) -> None:
        self._read = read
        self._codes: dict[str, Code | None] = {}
        self._found: dict[Binding, Values] = {}
        self._active: set[tuple[Binding, int]] = set()
        self._stars: set[tuple[Code, str]] = set()
        self._running: Counter[Function] = Counter()
        self._steps = self._depth = 0
        # Who calls a function of the wheel, and with what: known once all calls were looked at.
        self.callers: dict[Function, list[Arguments]] = {}

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
        found = reaching(name, Point(code.scope, _END, ()))
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

    def _binding(self, binding: Binding, code: Code, frame: Frame | None) -> Values:
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

    def _bound(self, binding: Binding, code: Code, frame: Frame | None) -> Values:
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

    def _parameter(self, node: Function, binding: Binding, code: Code, frame: Frame | None) -> Values:
        name, scope = binding.name, binding.point.scope
        if frame is not None and frame.scope is scope:
            if name not in frame.found:
                frame.found[name] = frame.arguments[name]() if name in frame.arguments else UNKNOWN
            return frame.found[name]
        first = [*node.args.posonlyargs, *node.args.args][:1]
        outer = scope.at.scope.node if scope.at else None
        if isinstance(outer, ast.ClassDef) and first and first[0].arg == name and not _has(node, "staticmethod"):
            return frozenset({Klass(outer, code, is_object=not _has(node, "classmethod"))})
        callers = self.callers.get(node, [])[:_MOST_ITEMS] or [Arguments()]
        routine = Routine(node, code, None)
        given = [self._named(routine, arguments).get(name) for arguments in callers]
        return values(one for argument in given if argument for one in argument()) or UNKNOWN

    # --- expressions ------------------------------------------------------------------------------------------

    def evaluate(self, node: ast.expr, point: Point, code: Code, frame: Frame | None = None) -> Values:
        """Return what an expression may be.

        :param frame: of the function that it stands in, where it is known what that was called with.
        :raises Unfollowed: it takes more steps than are followed.
        """
        self._steps += 1
        if self._steps > _MOST_STEPS or self._depth > _DEEPEST:
            raise Unfollowed
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
            case ast.Constant(value=int() as number) if abs(number) < _END:
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
                one * other if isinstance(one, str) and isinstance(other, int) and other * len(one) <= LONGEST else HOLE
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
            one[cut] if isinstance(one, str) and HOLE not in one and known and cut.step != 0 else HOLE
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
        return frozenset({Method(value, name)}) if isinstance(value, str) and value != HOLE else UNKNOWN

    def _of_class(self, klass: Klass, name: str) -> Values:
        bindings = reaching(name, Point(klass.code.scopes[klass.node], _END, ()))
        own = [binding for binding in bindings if binding.point.scope.node is klass.node]
        if not own:
            return values(one for base in self.bases(klass) for one in self.get(base, name)) or UNKNOWN
        found = values(one for binding in own for one in self._binding(binding, klass.code, None))
        return values(one for value in found for one in self._method(klass, value))

    def _method(self, klass: Klass, value: Value) -> Values:
        if not isinstance(value, Routine) or _has(value.node, "staticmethod"):
            return frozenset({value})
        of_class = _has(value.node, "classmethod")
        if not klass.is_object and not of_class:
            return frozenset({value})
        bound = Bound(value, Arguments((lambda: frozenset({klass}),)))
        return self.call(bound, Arguments()) if _has(value.node, "property") else frozenset({bound})

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
        if HOLE in name or name.startswith("."):
            return HOLE
        name = name if whole else name.partition(".")[0]
        module = self._module(name.split("."))
        return File(module) if module else Known(name)


def _entries(table: Value) -> Iterator[tuple[str, Argument]]:
    if isinstance(table, Table):
        for keys, found in table.entries:
            for key in keys:
                if isinstance(key, str):
                    yield key, partial(frozenset, found)


def _is_within(scope: object, frame: Frame) -> bool:
    """Say whether a scope is that of a frame, or one that runs within it."""
    here = frame.scope if scope is frame.scope else scope
    while here is not frame.scope and here is not None and isinstance(getattr(here, "node", None), COMPREHENSIONS):
        here = here.at.scope  # type: ignore[attr-defined]  # a comprehension stands somewhere
    return here is frame.scope


def _has(node: Function, decorator: str) -> bool:
    given = [] if isinstance(node, ast.Lambda) else node.decorator_list
    return any(getattr(one, "id", getattr(one, "attr", None)) == decorator for one in given)
