"""Which backends of a kernel compile something that includes CPython's headers.

kernel-builder gives them to every source, and few use them: who does not is neither fetched nor built with them. What a
source includes is followed as a compiler would, through the kernel's own files and what a backend's macros leave of
them; where that cannot be decided, both sides count.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from posixpath import dirname, normpath
from typing import Literal

from wheelsmith.frameworks import framework
from wheelsmith.plan.recipe.compile import HEADER_SUFFIXES
from wheelsmith.plan.recipe.spec import BUILT_BACKENDS, KernelSpec

_PYTHON = "Python.h"
_DIRECTIVE = re.compile(
    rb"^[ \t]*#[ \t]*(?:(?P<word>if|ifdef|ifndef|elif|else|endif)\b(?P<condition>[^\n]*)"
    rb"|include[ \t]*(?P<bracket>[<\"])(?P<name>[^>\"\n]+)[>\"])",
    re.MULTILINE,
)
# Of these macros of kernel-builder's, a build has its own backend's alone.
_DEFINED = re.compile(r"(?P<no>!\s*)?defined\s*(?:\(\s*)?(?P<backend>[A-Z]+)_KERNEL\s*\)?")
_BACKENDS = {"CPU", "CUDA", "ROCM", "XPU", "METAL", "CANN", "NEURON", "TPU"}


# What is looked for, and bytes that are read for it, before it is given up; natten takes an eighth.
_MOST_LOOKS, _LOOK = 2_000_000, 64


def python_backends(spec: KernelSpec, paths: Collection[str], read: Callable[[str], bytes]) -> tuple[str, ...]:
    """Return the backends that compile a source which includes ``Python.h``, directly or through the kernel's headers.

    A kernel of which that takes too long to find out counts as one that does.

    :param paths: every file of the kernel.
    :param read: gives what a file holds.
    """
    calls = framework(spec.framework)
    if spec.binding is None or calls.limited_api is None:
        return ()
    # What a build writes over a kernel's own does not include it.
    generated = frozenset(f"{calls.packages}/{path}" for path in calls.files(spec.package, ""))
    search = _Search(frozenset(paths), generated, read)
    return tuple(backend for backend in BUILT_BACKENDS if backend in spec.backends and search.finds(spec, backend))


class _Search:
    """Looks through a kernel's files for one that includes ``Python.h``."""

    def __init__(self, paths: frozenset[str], generated: frozenset[str], read: Callable[[str], bytes]) -> None:
        self._own, self._known = paths - generated, paths | generated
        self._read = read
        self._left = _MOST_LOOKS

    def finds(self, spec: KernelSpec, backend: str) -> bool:
        """Say whether something that is compiled for a backend includes it."""
        groups = (spec.binding, *(section for section in spec.sections if section.backend == backend))
        todo = [
            (path, (*group.include, "csrc"))
            for group in groups
            for path in (group.src if group else ())
            if group and path in self._own and not path.endswith(tuple(HEADER_SUFFIXES))
        ]
        seen = set(todo)
        while todo:
            path, folders = todo.pop()
            for bracket, name in self._included(path, backend):
                beside = (dirname(path),) if bracket == '"' else ()
                found = self._resolve(name, (*beside, *folders))
                if self._left < 0 or (found is None and name == _PYTHON):
                    return True
                if found in self._own and (found, folders) not in seen:
                    seen.add((found, folders))
                    todo.append((found, folders))
        return False

    def _included(self, path: str, backend: str) -> Iterator[tuple[str, str]]:
        text = self._read(path)
        self._left -= len(text) // _LOOK
        return _included(text, backend)

    def _resolve(self, name: str, folders: tuple[str, ...]) -> str | None:
        self._left -= len(folders)
        candidates = (normpath(f"{folder}/{name}" if folder else name) for folder in folders)
        return next((path for path in candidates if path in self._known), None) if self._left >= 0 else None


def _included(text: bytes, backend: str) -> Iterator[tuple[str, str]]:
    """Yield what a text includes where it is compiled for a backend: how it is written, and its name."""
    # One for each condition that a line stands in: whether this branch counts, and whether an earlier one surely did.
    open_branches: list[tuple[bool, bool]] = []
    for match in _DIRECTIVE.finditer(text):
        if match["bracket"]:
            if all(counts for counts, _ in open_branches):
                yield match["bracket"].decode(), match["name"].decode("utf-8", "replace").strip()
            continue
        word = match["word"].decode()
        if word == "endif":
            del open_branches[-1:]
            continue
        holds = _holds(word, match["condition"].decode("utf-8", "replace"), backend)
        taken = open_branches.pop()[1] if word in {"elif", "else"} and open_branches else False
        open_branches.append((not taken and holds != "no", taken or holds == "yes"))


def _holds(word: str, condition: str, backend: str) -> Literal["yes", "no", "unknown"]:
    """Say whether a condition holds for a backend; one that goes on in the next line is not decided."""
    if word == "else":
        return "yes"
    if word in {"ifdef", "ifndef"}:
        condition = f"{'!' if word == 'ifndef' else ''}defined {condition}"
    answers = set[bool | None]()
    for term in condition.partition("//")[0].split("||"):
        match = _DEFINED.fullmatch(term.strip())
        known = match is not None and match["backend"] in _BACKENDS
        answers.add((match["backend"] == backend.upper()) is not bool(match["no"]) if match and known else None)
    if True in answers:
        return "yes"
    return "unknown" if None in answers else "no"
