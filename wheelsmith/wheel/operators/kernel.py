"""The Hub kernels in a wheel: their own namespaces, and what they register under others."""

from __future__ import annotations

import posixpath
import re

from wheelsmith.base.errors import WheelError
from wheelsmith.wheel.operators.code import AnalysisLimitError
from wheelsmith.wheel.operators.evaluator import Evaluator
from wheelsmith.wheel.operators.registrations import PREFIXES, Registered, Registration, read_registrations
from wheelsmith.wheel.operators.values import GAP, UNKNOWN, Arguments, Known
from wheelsmith.wheel.python_code import PythonFiles

# A file without any of these registers nothing, unless by a function of another that has them.
_WORDS = (*(prefix.encode() for prefix in PREFIXES), b"librar", b"Librar", b"_op", b"register_", b"OpDef", b"impl_")
_ROUNDS = 4  # functions that call functions of other files, until nothing new is found
# What kernel-builder gives: ``_<kernel>_<backend>_<revision>``, or ``_<kernel>_<revision>`` of old.
_GIVEN = re.compile(r"_\w+_\w+", re.ASCII)


class HubKernels:
    """Every Hub kernel of a wheel: a folder whose ``_ops`` module has ``add_op_namespace_prefix``.

    :raises WheelError: an ``_ops`` module has more code than is parsed.
    """

    def __init__(self, files: PythonFiles) -> None:
        self._files = files
        self._evaluator = Evaluator(files.text)
        self._own: set[str] = set()
        self._others: list[str] = []
        self.homes = tuple(home for name in sorted(files.names) if (home := self._home(name)) is not None)

    def is_within(self, name: str) -> bool:
        """Say whether a file is part of a kernel."""
        return any(name.startswith(f"{home}/") or not home for home in self.homes)

    def is_shared(self, namespace: str) -> bool:
        """Say whether other kernels may have a namespace; one of which too little is known is not."""
        if GAP in namespace:
            return not any(_may_be(namespace, own) for own in self._own or {f"_{GAP}"})
        if not self._own:
            return not _GIVEN.fullmatch(namespace)
        return not any(re.fullmatch(_pattern(own), namespace) for own in self._own)

    def shared(self) -> list[str]:
        """Say what is registered under namespaces that other kernels may have."""
        try:
            found = self._registered()
        except (AnalysisLimitError, RecursionError):
            return ["its Python code takes more steps than are followed, and may register whatever"]
        except WheelError as error:
            return [f"{error.message}, and may register whatever"]
        return self._others + [_sentence(one) for one in found if self._is_wrong(one)]

    def _is_wrong(self, found: Registration) -> bool:
        # A name that cannot be read proves nothing, but where upstream wants the kernel's own prefix.
        unread = GAP in found.namespace and found.namespace not in self._own
        return (found.must_be_read and unread) or self.is_shared(found.namespace)

    def _registered(self) -> tuple[Registration, ...]:
        words, names, by = frozenset(_WORDS), frozenset[str](), frozenset[str]()
        registered = Registered(found=(), by=by)
        for _ in range(_ROUNDS):
            more = self._files.mentioning(words) - names
            if not any(map(self.is_within, more)):
                break
            names |= more
            codes = [self._evaluator.code(name) for name in sorted(names) if self.is_within(name)]
            self._evaluator.forget()
            registered = read_registrations(self._evaluator, [code for code in codes if code])
            words = frozenset(name.encode() for name in registered.by - by)
            by |= registered.by
            if not words:
                break
        return registered.found

    def _home(self, name: str) -> str | None:
        """Return the folder whose ``_ops`` module a file is, and learn which namespace that gives."""
        folder, base = posixpath.split(name.removesuffix("/__init__.py") if name.endswith("/__init__.py") else name)
        if base not in {"_ops", "_ops.py"}:
            return None
        try:
            if (code := self._evaluator.code(name)) is None:
                return None
            prefixes = [one for prefix in PREFIXES for one in self._evaluator.member(code, prefix) - UNKNOWN]
            if not prefixes:
                return None
            argument = Arguments((lambda: UNKNOWN,))
            given = {one for prefix in prefixes for one in self._evaluator.call(prefix, argument)}
            given |= {
                one.path.partition("torch.ops.")[2]
                for one in self._evaluator.member(code, "ops")
                if isinstance(one, Known)
            }
        except (AnalysisLimitError, RecursionError):
            return folder
        for space in {one.partition("::")[0] for one in given if isinstance(one, str)}:
            if _GIVEN.fullmatch(space.replace(GAP, "_")):
                self._own.add(space)
            elif space.strip(GAP):
                self._others.append(f"{name} gives the namespace {space!r}")
        return folder


def _sentence(found: Registration) -> str:
    return f"{found.path}:{found.line} registers {found.shown}"


def _pattern(own: str) -> str:
    return r"\w+".join(map(re.escape, own.split(GAP)))


def _may_be(one: str, other: str) -> bool:
    """Say whether two texts with holes may be the same, by what stands before and behind them."""
    start, begin = one.partition(GAP)[0], other.partition(GAP)[0]
    end, tail = one.rpartition(GAP)[2], other.rpartition(GAP)[2]
    return (start.startswith(begin) or begin.startswith(start)) and (end.endswith(tail) or tail.endswith(end))
