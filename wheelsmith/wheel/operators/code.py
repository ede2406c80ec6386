"""One Python file: its names, scopes and calls, read from its syntax; nothing is run."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import singledispatch

from wheelsmith.wheel.operators.bindings import (
    COMPREHENSIONS,
    ELSE,
    LOOP,
    SOMETIMES,
    THEN,
    Comprehension,
    Function,
    How,
    NameBinding,
    NameScope,
    Point,
)


class AnalysisLimitError(Exception):
    """The code nests deeper, or takes more steps, than is followed."""


@dataclass(eq=False, slots=True)
class Code:
    """One Python file.

    :param calls: every call that can be reached, in the order of the text.
    :param stars: what it takes all names of.
    """

    path: str
    scope: NameScope
    calls: list[tuple[ast.Call, Point]] = field(default_factory=list)
    decorators: set[ast.Call] = field(default_factory=set)
    stars: list[ast.ImportFrom] = field(default_factory=list)
    scopes: dict[ast.AST, NameScope] = field(default_factory=dict)


def read_code(path: str, source: bytes, is_there: Callable[[ast.ImportFrom], bool]) -> Code | None:
    """Read one file; None where it is no Python: whoever imports it will be told.

    :param path: in the wheel.
    :param is_there: says whether the wheel has what is imported, so that nothing else is tried.
    :raises AnalysisLimitError: it nests deeper than is parsed; Python's own compiler may go further.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return None
    except (RecursionError, MemoryError):
        raise AnalysisLimitError from None
    code = Code(path=path, scope=NameScope())
    _Walk(code, is_there).walk(tree)
    return code


def truth(test: ast.expr) -> bool | None:
    """Return what a condition is for certain; None where that is not known."""
    return bool(test.value) if isinstance(test, ast.Constant) else None


class _Walk:
    """Go through a file in the order of its text, without recursion: how deep it nests is up to whoever wrote it."""

    def __init__(self, code: Code, is_there: Callable[[ast.ImportFrom], bool]) -> None:
        self.code = code
        self.is_there = is_there
        self._order = 0
        self._waiting: list[tuple[ast.AST, Point]] = []

    def walk(self, tree: ast.Module) -> None:
        """Visit every statement and expression that can be reached."""
        self.later(tree.body, Point(self.code.scope, 0, ()))
        while self._waiting:
            node, point = self._waiting.pop()
            if isinstance(node, ast.stmt):
                self._order += 2
                point = Point(point.scope, self._order, point.path)
            _visit(node, self, point)

    def later(self, nodes: Iterable[ast.AST | None], point: Point) -> None:
        """Visit nodes next, before what was put off until now."""
        self._waiting += [(node, point) for node in reversed(list(nodes)) if node is not None]

    def open(self, node: ast.AST, point: Point) -> Point:
        """Open a scope and return the place at its start."""
        scope = NameScope(node=node, at=point)
        self.code.scopes[node] = scope
        return Point(scope, point.order, ())

    def bind(self, name: str, point: Point, how: How, node: ast.AST | None = None, source: str = "") -> None:
        """Bind one name."""
        self._bind(name, point, how, node, (), source)

    def target(self, target: ast.expr, point: Point, how: How, node: ast.AST, index: tuple[int, ...] = ()) -> None:
        """Bind what stands left of an assignment."""
        if isinstance(target, ast.Name):
            self._bind(target.id, point, how, node, index, "")
        elif isinstance(target, ast.Tuple | ast.List):
            starred = any(isinstance(item, ast.Starred) for item in target.elts)
            for number, item in enumerate(target.elts):
                self.target(item, point, How.OPAQUE if starred else how, node, (*index, number))
        elif isinstance(target, ast.Starred):
            self.target(target.value, point, How.OPAQUE, node)
        else:
            self.later([target], point)

    def _bind(
        self, name: str, point: Point, how: How, node: ast.AST | None, index: tuple[int, ...], source: str
    ) -> None:
        scope = point.scope
        if name in scope.elsewhere:  # nobody knows when the function runs
            point = Point(scope, point.order, (*point.path, (id(scope), SOMETIMES)))
            scope = self.code.scope
        made = NameBinding(how=how, point=point, order=point.order + 1, node=node, index=index, name=source)
        scope.bindings.setdefault(name, []).append(made)


def _arm(point: Point, node: ast.AST, arm: int) -> Point:
    return Point(point.scope, point.order, (*point.path, (id(node), arm)))


@singledispatch
def _visit(node: ast.AST, walk: _Walk, point: Point) -> None:
    walk.later(ast.iter_child_nodes(node), point)


# --- statements ---------------------------------------------------------------------------------------------


@_visit.register(ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
def _(node: Function, walk: _Walk, point: Point) -> None:
    inner = walk.open(node, point)
    given = node.args
    named = [*given.posonlyargs, *given.args, *given.kwonlyargs]
    for argument in named:
        walk.bind(argument.arg, inner, How.PARAMETER, node, argument.arg)
    rest = [argument for argument in (given.vararg, given.kwarg) if argument]
    for argument in rest:
        walk.bind(argument.arg, inner, How.OPAQUE, node)
    inner = Point(inner.scope, inner.order + 1, ())
    around = [*given.defaults, *given.kw_defaults, *(argument.annotation for argument in [*named, *rest])]
    if isinstance(node, ast.Lambda):
        inner.scope.returns.append((node.body, inner))
        walk.later([node.body], inner)
        walk.later(around, point)
    else:
        walk.later(node.body, inner)
        walk.later([*around, node.returns], point)
        _define(node, walk, point)


@_visit.register
def _(node: ast.ClassDef, walk: _Walk, point: Point) -> None:
    walk.later(node.body, walk.open(node, point))
    walk.later([*node.bases, *node.keywords], point)
    _define(node, walk, point)


def _define(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef, walk: _Walk, point: Point) -> None:
    walk.bind(node.name, point, How.DEFINITION, node)
    walk.later(node.decorator_list, point)
    if point.scope is walk.code.scope and not point.path:
        walk.code.decorators |= {call for call in node.decorator_list if isinstance(call, ast.Call)}


@_visit.register
def _(node: ast.Assign, walk: _Walk, point: Point) -> None:
    for target in node.targets:
        walk.target(target, point, How.VALUE, node.value)
    walk.later([node.value], point)


@_visit.register
def _(node: ast.AnnAssign, walk: _Walk, point: Point) -> None:
    walk.later([node.annotation, node.value], point)
    if node.value is not None:
        walk.target(node.target, point, How.VALUE, node.value)


@_visit.register
def _(node: ast.AugAssign, walk: _Walk, point: Point) -> None:
    if isinstance(node.target, ast.Name):
        before = ast.Name(id=node.target.id, ctx=ast.Load())
        walk.bind(node.target.id, point, How.VALUE, ast.BinOp(left=before, op=node.op, right=node.value))
    walk.later([node.value], point)


@_visit.register(ast.For | ast.AsyncFor)
def _(node: ast.For | ast.AsyncFor, walk: _Walk, point: Point) -> None:
    inner = _arm(point, node, LOOP)
    walk.later(node.orelse, _arm(point, node, SOMETIMES))
    walk.later(node.body, inner)
    walk.later([node.iter], point)
    walk.target(node.target, inner, How.ELEMENT, node.iter)


@_visit.register
def _(node: ast.While, walk: _Walk, point: Point) -> None:
    walk.later(node.orelse, point)
    if truth(node.test) is not False:
        walk.later(node.body, _arm(point, node, LOOP))
        walk.later([node.test], point)


@_visit.register
def _(node: ast.If, walk: _Walk, point: Point) -> None:
    known = False if _is_main(node.test) else truth(node.test)
    if known is None:
        walk.later(node.orelse, _arm(point, node, ELSE))
        walk.later(node.body, _arm(point, node, THEN))
        walk.later([node.test], point)
    else:
        walk.later(node.body if known else node.orelse, point)


def _is_main(test: ast.expr) -> bool:
    """Say whether a condition asks for ``__name__ == "__main__"``: what follows is no part of an import."""
    if not isinstance(test, ast.Compare) or len(test.ops) != 1 or not isinstance(test.ops[0], ast.Eq):
        return False
    sides = [test.left, *test.comparators]
    named = any(isinstance(side, ast.Name) and side.id == "__name__" for side in sides)
    return named and any(isinstance(side, ast.Constant) and side.value == "__main__" for side in sides)


@_visit.register(ast.Try | ast.TryStar)
def _(node: ast.Try | ast.TryStar, walk: _Walk, point: Point) -> None:
    # What is imported is there: nothing falls back on what handles its absence.
    sure = all(isinstance(item, ast.ImportFrom) and walk.is_there(item) for item in node.body)
    body = point if sure else _arm(point, node, SOMETIMES)
    walk.later(node.finalbody, point)
    walk.later(node.orelse, body)
    for handler in () if sure else node.handlers:
        inner = _arm(point, handler, SOMETIMES)
        if handler.name:
            walk.bind(handler.name, inner, How.OPAQUE)
        walk.later(handler.body, inner)
    walk.later(node.body, body)


@_visit.register
def _(node: ast.Match, walk: _Walk, point: Point) -> None:
    for case in node.cases:
        inner = _arm(point, case, SOMETIMES)
        for pattern in ast.walk(case.pattern):
            if name := getattr(pattern, "name", None) or getattr(pattern, "rest", None):
                walk.bind(str(name), inner, How.OPAQUE)
        walk.later(case.body, inner)
    walk.later([node.subject], point)


@_visit.register(ast.With | ast.AsyncWith)
def _(node: ast.With | ast.AsyncWith, walk: _Walk, point: Point) -> None:
    walk.later(node.body, point)
    for item in node.items:
        if item.optional_vars is not None:
            walk.target(item.optional_vars, point, How.OPAQUE, item.context_expr)
        walk.later([item.context_expr], point)


@_visit.register
def _(node: ast.Import, walk: _Walk, point: Point) -> None:
    for alias in node.names:
        top = alias.name.partition(".")[0]  # ``import a.b`` binds a
        walk.bind(alias.asname or top, point, How.MODULE, node, alias.name if alias.asname else top)


@_visit.register
def _(node: ast.ImportFrom, walk: _Walk, point: Point) -> None:
    for alias in node.names:
        if alias.name == "*":
            walk.code.stars.append(node)
        else:
            walk.bind(alias.asname or alias.name, point, How.MEMBER, node, alias.name)


@_visit.register
def _(node: ast.Global, _walk: _Walk, point: Point) -> None:
    point.scope.elsewhere |= set(node.names)


@_visit.register
def _(node: ast.Return, walk: _Walk, point: Point) -> None:
    if node.value is not None:
        point.scope.returns.append((node.value, point))
        walk.later([node.value], point)


# --- expressions --------------------------------------------------------------------------------------------


@_visit.register
def _(node: ast.Call, walk: _Walk, point: Point) -> None:
    walk.code.calls.append((node, point))
    walk.later(ast.iter_child_nodes(node), point)


@_visit.register
def _(node: ast.NamedExpr, walk: _Walk, point: Point) -> None:
    outer = point
    while isinstance(outer.scope.node, COMPREHENSIONS) and outer.scope.at:
        outer = outer.scope.at
    # It holds for the rest of its own statement.
    walk.target(node.target, Point(outer.scope, outer.order - 1, outer.path), How.VALUE, node.value)
    walk.later([node.value], point)


@_visit.register(ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp)
def _(node: Comprehension, walk: _Walk, point: Point) -> None:
    inner = walk.open(node, point)
    for generator in node.generators:
        walk.target(generator.target, inner, How.ELEMENT, generator.iter)
        inner = Point(inner.scope, point.order + 1, ())  # only the first is evaluated outside
    walk.later(ast.iter_child_nodes(node), inner)


@_visit.register(ast.Yield | ast.YieldFrom)
def _(node: ast.Yield | ast.YieldFrom, walk: _Walk, point: Point) -> None:
    point.scope.yields = True
    walk.later(ast.iter_child_nodes(node), point)
