"""Operators of a Hub kernel are registered under a namespace that no other kernel has.

What huggingface/kernels asks of a kernel (``nix-builder/pkgs/torch-ops-check``): whatever it registers from Python goes
through ``add_op_namespace_prefix`` of its own ``_ops`` module, so that two kernels, or two versions of one, can be in
one process.
"""

from __future__ import annotations

import ast
import posixpath
import re
from collections.abc import Iterator
from typing import BinaryIO

from wheelsmith.wheel.inspection import Inspection
from wheelsmith.wheel.report import Finding, finding
from wheelsmith.wheel.rules.rule import Rule

_PREFIX = "add_op_namespace_prefix"
# Of torch.library, what upstream looks for as a decorator, and what else takes an operator's name first.
_DECORATORS = {
    *("custom_op", "triton_op", "register_kernel", "register_fake", "register_vmap", "register_torch_dispatch"),
}
_CALLS = _DECORATORS | {"define", "impl", "impl_abstract", "register_autograd", "register_autocast"}
_QUALIFIED = re.compile(r"(?P<namespace>\w+)::[\w.]+")
_OWN = re.compile(rb"torch\.ops\.(\w+)|[\"'](_\w+)::")
_DEFINES = {"DEF", "FRAGMENT"}
_NAMES = {"name", "qualname", "ns"}  # what torch.library calls its first parameter
# What the macros of torch/library.h leave in the table of symbols that a debugger reads, with its length before it.
_MACROS = re.compile(rb"(\d+)((?:STABLE_)?TORCH_LIBRARY_(?:FRAGMENT_)?(?:static_)?init_)(\w+)")
_PIECE = 2**24  # bytes
_OVERLAP = 2**12


def _examine(wheel: Inspection) -> Iterator[Finding]:
    if not any(posixpath.basename(name) == "_ops.py" for name in wheel.files):
        return  # no Hub kernel: nothing needs to be read
    code = wheel.python_code(_PREFIX.encode(), b"torch", b"::", b"Library")
    sources = code.sources
    kernels = {
        posixpath.dirname(name): text
        for name, text in sources.items()
        if posixpath.basename(name) == "_ops.py" and f"def {_PREFIX}".encode() in text
    }
    if not kernels:
        return
    own = {home: frozenset((m[1] or m[2]).decode() for m in _OWN.finditer(text)) for home, text in kernels.items()}
    wrong = []
    for name, text in sorted(sources.items()):
        home = _home(name, kernels)
        if home is not None:
            wrong += [f"{name}:{line} registers {what}" for line, what in shared_registrations(text, own[home])]
    wrong += [f"{name} has more code than is parsed, and may register whatever" for name in code.unread]
    for name in wheel.extensions:
        home = _home(name, kernels)
        if home is not None:
            with wheel.binary(name) as file:
                wrong += [f"{name} registers {found!r}" for found in sorted(registered_namespaces(file) - own[home])]
    wrong = [f"{message}, which another kernel may register too" for message in wrong]
    yield finding("torch-ops", wrong, "what is registered has the kernel's own namespace")


def registered_namespaces(file: BinaryIO) -> set[str]:
    """Return the namespaces that an ELF file registers operators under, as far as its symbols still say it."""
    found: set[str] = set()
    before = b""
    while piece := file.read(_PIECE):
        for match in _MACROS.finditer(before + piece):
            length, macro, rest = int(match[1]), match[2], match[3]
            name = rest[: max(length - len(macro), 0)].decode("ascii", "replace")
            # A fragment's name ends with a number of its own.
            found.add(re.sub(r"_\d+$", "", name) if b"FRAGMENT" in macro else name)
        before = piece[-_OVERLAP:]
    return found - {""}


def _home(name: str, kernels: dict[str, bytes]) -> str | None:
    return next((folder for folder in kernels if not folder or name.startswith(f"{folder}/")), None)


def shared_registrations(source: bytes, own: frozenset[str] = frozenset()) -> list[tuple[int, str]]:
    """Return line and name of each operator that is registered under a name which other kernels may have.

    :param source: of a Python file.
    :param own: namespaces that are this kernel's alone.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []  # whoever imports it will be told
    found = {(line, what) for line, what in _decorated(tree) if what is not None}
    found |= set(_named(tree, own))
    return sorted(found)


def _decorated(tree: ast.Module) -> Iterator[tuple[int, str | None]]:
    """Find what upstream finds: decorators of functions and classes of the module, named by anything but the prefix."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            for call in node.decorator_list:
                if isinstance(call, ast.Call) and call.args and _called(call) in _DECORATORS:
                    yield call.lineno, None if _is_prefixed(call.args[0]) else ast.unparse(call.args[0])[:80]


def _named(tree: ast.Module, own: frozenset[str]) -> Iterator[tuple[int, str]]:
    """Find operators and libraries that are registered by a name that stands there, wherever."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        named = node.args[0] if node.args else next((k.value for k in node.keywords if k.arg in _NAMES), None)
        if not isinstance(named, ast.Constant) or not isinstance(named.value, str):
            continue
        first, called = named.value, _called(node)
        if called in _CALLS:
            qualified = _QUALIFIED.match(first)
            if qualified and qualified["namespace"] not in own:
                yield node.lineno, repr(first)
        elif called == "Library" and first not in own and _kind(node) in _DEFINES:
            yield node.lineno, f"the library {first!r}"


def _called(node: ast.Call) -> str | None:
    if isinstance(node.func, ast.Name):
        return node.func.id
    return node.func.attr if isinstance(node.func, ast.Attribute) else None


def _is_prefixed(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and _called(node) == _PREFIX


def _kind(node: ast.Call) -> str | None:
    second = node.args[1] if len(node.args) > 1 else next((k.value for k in node.keywords if k.arg == "kind"), None)
    return second.value if isinstance(second, ast.Constant) and isinstance(second.value, str) else None


RULE = Rule(
    name="torch-ops",
    proves="of a Hub kernel (its `_ops` module has `add_op_namespace_prefix`): every operator that is registered has "
    "the kernel's own namespace, as huggingface/kernels asks of Python code",
    leaves_open="names that are put together while the code runs; what machine code registers where its own symbols "
    "were stripped; projects that are no Hub kernels may share what they like",
    in_the_wild="silu-and-mul-bad-registration, which huggingface/kernels keeps as an example: `myns::silu_and_mul`",
    examine=_examine,
)
