"""What the names of a Python file are bound to, and which of it holds at a place."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

# Which arm of which statement a place lies in, outermost first.
Path = tuple[tuple[int, int], ...]
# Arms of statements: of a loop, of an if, and whatever else may be passed over.
LOOP, THEN, ELSE, SOMETIMES = range(4)

Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
Comprehension = ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)
_MOST = 12  # bindings of one name that may hold at one place


class How(StrEnum):
    """How a name comes by its value."""

    VALUE = "value"
    ELEMENT = "element"
    DEFINITION = "definition"
    MODULE = "module"
    MEMBER = "member"
    PARAMETER = "parameter"
    OPAQUE = "opaque"


@dataclass(eq=False, slots=True)
class NameScope:
    """A module, class, function or comprehension.

    :param node: what opens it; None for a module.
    :param at: where it stands; None for a module.
    """

    node: ast.AST | None = None
    at: Point | None = None
    bindings: dict[str, list[NameBinding]] = field(default_factory=dict)
    elsewhere: set[str] = field(default_factory=set)
    returns: list[tuple[ast.expr, Point]] = field(default_factory=list)
    yields: bool = False

    @property
    def runs_in_place(self) -> bool:
        """Its code runs where it stands, not when it is called."""
        return isinstance(self.node, (ast.ClassDef, *COMPREHENSIONS))


@dataclass(frozen=True, slots=True)
class Point:
    """Where code stands: statements are counted by twos, so that what one binds comes right after it."""

    scope: NameScope
    order: int
    path: Path


@dataclass(frozen=True, slots=True, eq=False)
class NameBinding:
    """One way in which a name gets a value.

    :param point: where its expression is evaluated.
    :param node: the expression, definition or import.
    :param index: what of a sequence it takes, outermost first.
    :param name: what is imported, or which parameter it is.
    """

    how: How
    point: Point
    order: int
    node: ast.AST | None = None
    index: tuple[int, ...] = ()
    name: str = ""


def reaching(name: str, point: Point) -> list[NameBinding]:
    """Return the bindings of a name that may hold at a place; none where the file does not bind it."""
    scope: NameScope | None = point.scope
    here: Point | None = point
    while scope is not None:
        visible = scope is point.scope or not isinstance(scope.node, ast.ClassDef)
        if visible and (found := list(_last(scope.bindings.get(name, ()), here))):
            return found
        here = scope.at if scope.runs_in_place else None
        scope = scope.at.scope if scope.at else None
    return []


def _last(bindings: Sequence[NameBinding], here: Point | None) -> Iterator[NameBinding]:
    """Go back from a place, or from the end of its scope, to what binds the name for certain."""
    path = here.path if here else ()
    covered: set[Path] = set()
    found = 0
    for binding in reversed(bindings):
        at = binding.point.path
        later = here is not None and binding.order > here.order
        if (later and not _share_loop(at, path)) or _exclude(at, path):
            continue
        yield binding
        found += 1
        if found == _MOST or (not later and _is_certain(at, path, covered)):
            return


def _is_certain(at: Path, path: Path, covered: set[Path]) -> bool:
    """Say whether every way to a place led through a binding, this one or those that were seen before."""
    covered.add(at)
    while at and at != path[: len(at)]:
        *outer, (statement, arm) = at
        if arm not in (THEN, ELSE) or (*outer, (statement, ELSE if arm == THEN else THEN)) not in covered:
            return False
        at = tuple(outer)  # both arms of an if bind it
        covered.add(at)
    return True


def _share_loop(one: Path, other: Path) -> bool:
    return any(step in other for step in one if step[1] == LOOP)


def _exclude(one: Path, other: Path) -> bool:
    """Say whether two places lie in arms of one statement of which only one runs."""
    for mine, theirs in zip(one, other, strict=False):
        if mine != theirs:
            return mine[0] == theirs[0]
    return False
