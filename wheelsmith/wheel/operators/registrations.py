"""Which operators Python code registers with torch, and under which names."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from wheelsmith.wheel.operators.bindings import Function, How, Point, reaching
from wheelsmith.wheel.operators.code import Code
from wheelsmith.wheel.operators.evaluator import Evaluator
from wheelsmith.wheel.operators.values import (
    GAP,
    UNKNOWN,
    Argument,
    Arguments,
    Bound,
    Frame,
    Items,
    Klass,
    Known,
    Many,
    Routine,
    Value,
    Values,
    elements,
    text,
)

PREFIXES = ("add_op_namespace_prefix", "torch_add_op_namespace_prefix")
# What upstream looks for where it decorates a function of a module:
# https://github.com/huggingface/kernels/blob/main/nix-builder/pkgs/torch-ops-check/torch-ops-check-hook.py
DECORATORS = frozenset(
    {"custom_op", "triton_op", "register_kernel", "register_fake", "register_vmap", "register_torch_dispatch"}
)
_NAMED = DECORATORS | {"define", "impl", "impl_abstract", "register_autograd", "register_autocast"}
_NAMES = ("name", "qualname", "op")  # what torch calls the first of them
# Which argument is the namespace, which says whether it is defined: its number, and what torch calls it.
_SPACES: Mapping[str, tuple[tuple[int, str], tuple[int, str]]] = {
    "Library": ((0, "ns"), (1, "kind")),
    "_scoped_library": ((0, "ns"), (1, "kind")),
    "__init__": ((1, "ns"), (2, "kind")),
    "_dispatch_library": ((1, "name"), (0, "kind")),
    "CustomOpDef": ((0, "namespace"), (0, "namespace")),
}
_COMMON = {"define", "impl", "Library"}
_BY_NAME = {"Library", "_scoped_library"}
_DEFINES = {"DEF", "FRAGMENT"}
_QUALIFIED = re.compile(r"[\w\0]+::[\w.\0]+(\(.*)?", re.DOTALL)
_MOST_CALLERS = 500
_MOST_BOUND = 8
_MOST_SHOWN = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """One operator or library that is registered.

    :param path: of the file.
    :param namespace: with holes where it is not known.
    :param shown: as people read it.
    :param must_be_read: upstream wants the kernel's own prefix here, and refuses everything else.
    """

    path: str
    line: int
    namespace: str
    shown: str
    must_be_read: bool = False


@dataclass(frozen=True, slots=True)
class _Site:
    """A call of a function, and what functools.partial or an object puts before its arguments."""

    node: ast.Call
    point: Point
    code: Code
    function: Value
    first: Arguments


@dataclass(frozen=True, slots=True, kw_only=True)
class Registered:
    """What some files register.

    :param by: names of their functions that register for others, and of torch's that they pass on.
    """

    found: tuple[Registration, ...]
    by: frozenset[str]


def read_registrations(evaluator: Evaluator, codes: Sequence[Code]) -> Registered:
    """Find what files register.

    :raises AnalysisLimitError: the code takes more steps than are followed.
    """
    sites = [site for code in codes for call, point in code.calls for site in _sites(evaluator, call, point, code)]
    evaluator.note_callers(_callers(evaluator, sites))
    again = [site for site in sites if site.function == GAP and _is_parameter(site)]
    more = [found for site in again for found in _sites(evaluator, site.node, site.point, site.code)]
    evaluator.note_callers(_callers(evaluator, more))
    sites += more
    found = dict.fromkeys(one for site in sites for one in _registered(evaluator, site))
    by = {_outermost(site.point) for site in sites if _registers(site.function, site.node)}
    by |= {name for code in codes for name in code.scope.bindings if _passes_on(evaluator.member(code, name))}
    order = sorted(found, key=lambda one: (one.path, one.line, one.shown))
    return Registered(found=tuple(order), by=frozenset(by - {""}))


def _outermost(point: Point) -> str:
    """Return the function or class of a module that a place lies in."""
    scope, name = point.scope, ""
    while scope.at is not None:
        name = getattr(scope.node, "name", name)
        scope = scope.at.scope
    return name


def _passes_on(found: Values) -> bool:
    return any(_registers(_unbound(value)[0], None) for value in found)


def _sites(evaluator: Evaluator, node: ast.Call, point: Point, code: Code) -> Iterator[_Site]:
    for value in evaluator.evaluate(node.func, point, code):
        function, first = _unbound(value)
        if isinstance(function, Klass) and not function.is_object:
            own = Arguments((lambda: UNKNOWN,))  # self
            for made in evaluator.get(function, "__init__"):
                yield _Site(node, point, code, made, own)
        else:
            yield _Site(node, point, code, function, first)


def _unbound(value: Value) -> tuple[Value, Arguments]:
    first = Arguments()
    while isinstance(value, Bound):
        first = first.after(value.arguments)
        value = value.function
    return value, first


def _callers(evaluator: Evaluator, sites: list[_Site]) -> Iterator[tuple[Function, Arguments]]:
    for site in sites:
        if isinstance(site.function, Routine):
            yield site.function.node, evaluator.arguments(site.node, site.point, site.code).after(site.first)


def _is_parameter(site: _Site) -> bool:
    root = site.node.func
    while isinstance(root, ast.Attribute):
        root = root.value
    name = root.id if isinstance(root, ast.Name) else ""
    if root is not site.node.func and _called(site.node) not in _NAMED | _SPACES.keys():
        return False
    return any(binding.how is How.PARAMETER for binding in reaching(name, site.point))


# --- what is registered -------------------------------------------------------------------------------------


def _registered(evaluator: Evaluator, site: _Site) -> Iterator[Registration]:
    if name := _registers(site.function, site.node):
        generic = not _is_torchs(site.function)
        for frame in _frames(evaluator, site):
            arguments = evaluator.arguments(site.node, site.point, site.code, frame).after(site.first)
            for namespace, shown in _namespaces(name, arguments, exact=generic):
                yield Registration(
                    path=site.code.path,
                    line=site.node.lineno,
                    namespace=namespace,
                    shown=shown or _source(site.node),
                    must_be_read=_wants_prefix(site, name),
                )
    elif isinstance(site.function, Known | str):
        yield from _passed_on(evaluator, site)


def _passed_on(evaluator: Evaluator, site: _Site) -> Iterator[Registration]:
    """Find what is passed on, to functools.partial or map, and is called there with what stands behind it."""
    for number, given in enumerate(site.node.args[:_MOST_BOUND]):
        if not isinstance(given, ast.Name | ast.Attribute):
            continue
        for value in evaluator.evaluate(given, site.point, site.code):
            if not (_is_torchs(value) and (name := _registers(value, None))):
                continue
            arguments = evaluator.arguments(site.node, site.point, site.code)
            rest = Arguments(tuple(map(_each, arguments.positional[number + 1 :])), arguments.named)
            for namespace, shown in _namespaces(name, rest, exact=False):
                yield Registration(path=site.code.path, line=site.node.lineno, namespace=namespace, shown=shown)


def _each(argument: Argument) -> Argument:
    def found() -> Values:
        given = argument()
        return elements(given) if any(isinstance(value, Items | Many) for value in given) else given

    return found


def _frames(evaluator: Evaluator, site: _Site) -> Iterator[Frame | None]:
    """Yield what the functions around a call were called with, one call after the other."""
    scope, known = site.point.scope, False
    while scope.at is not None:
        callers = evaluator.callers.get(scope.node, []) if isinstance(scope.node, Function) else []
        for arguments in callers[:_MOST_CALLERS]:
            known = True
            yield evaluator.frame(Routine(scope.node, site.code, None), arguments)  # type: ignore[arg-type]  # see above
        scope = scope.at.scope
    if not known:
        yield None


def _registers(function: Value, call: ast.Call | None) -> str | None:
    """Return which of torch's functions registers here; None where none does.

    :param call: where it is not known what is called, the name is believed.
    """
    if _is_torchs(function):
        path = function.path  # type: ignore[union-attr]  # it is Known
        name = path.rpartition(".")[2]
        if name == "__init__" and not path.endswith(".Library.__init__"):
            return None
        return name if name in _NAMED or name in _SPACES else None
    if call is None or not (isinstance(function, Known) or function == GAP):
        return None
    name = _called(call)
    # Objects of other projects have methods called define, impl and the like.
    named = isinstance(call.func, ast.Name) or name not in _COMMON
    return name if named and (name in _NAMED or name in _BY_NAME) else None


def _is_torchs(function: Value) -> bool:
    return isinstance(function, Known) and function.path.startswith("torch.") and ".ops." not in function.path


def _namespaces(name: str, arguments: Arguments, *, exact: bool) -> Iterator[tuple[str, str]]:
    """Yield each namespace that a call registers under, and how people read it.

    :param exact: who is called is known by name alone: an operator's name must look like one.
    """
    if name in _NAMED:
        for value in arguments.get(0, *_NAMES):
            yield _of_operator(value, exact=exact), _quoted(value)
    elif name == "CustomOpDef":
        for value in arguments.get(0, "namespace"):
            yield text(value), _quoted(value)
    else:
        (space, space_name), (kind, kind_name) = _SPACES[name]
        if arguments.get(kind, kind_name) & _DEFINES:
            for value in arguments.get(space, space_name):
                yield text(value), f"the library {_quoted(value)}"


def _of_operator(value: Value, *, exact: bool) -> str:
    if isinstance(value, Known) and value.path.startswith("torch.ops."):
        return value.path.split(".")[2]
    if not isinstance(value, str) or "::" not in value or (exact and not _QUALIFIED.fullmatch(value)):
        return GAP
    return value.partition("::")[0]


def _wants_prefix(site: _Site, name: str) -> bool:
    """Say whether upstream would refuse this: a decorator of a module's function that has no call of the prefix."""
    if site.node not in site.code.decorators or name not in DECORATORS or not site.node.args:
        return False
    first = site.node.args[0]
    return not (isinstance(first, ast.Call) and _called(first) == PREFIXES[0])


def _called(node: ast.Call) -> str:
    return node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")


def _quoted(value: Value) -> str:
    words = value.path if isinstance(value, Known) else text(value)
    return "" if words == GAP else repr(words[:_MOST_SHOWN].replace(GAP, "…"))


def _source(node: ast.Call) -> str:
    try:
        return ast.unparse(node.args[0])[:_MOST_SHOWN]
    except (IndexError, RecursionError, ValueError):  # Python writes no number of thousands of digits
        return "an operator"
