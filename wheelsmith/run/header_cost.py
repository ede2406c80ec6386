"""Tell before a build what torch's largest headers cost in .cu files."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache

from wheelsmith.base.errors import SourceError
from wheelsmith.base.units import counted, show_duration
from wheelsmith.model import Notice
from wheelsmith.plan.planned_run import Build
from wheelsmith.source.tree import SourceTree

_LARGE = {"torch/all.h", "torch/extension.h"}
# CPU seconds of a .cu file that includes one of them, and as many for each capability. They need 2.6 GB of memory.
# Measured with torch 2.11 and CUDA 13.0: docs/explanation/reuse.md.
_SECONDS = 20
_INCLUDE = re.compile(rb"^[ \t]*#[ \t]*include[ \t]*[<\"]([^>\"\n]+)[>\"]", re.MULTILINE)


def header_cost(source: SourceTree, builds: Iterable[Build]) -> Iterator[Notice]:
    """Yield a notice if .cu files of these builds include ``torch/all.h`` or ``torch/extension.h``."""
    compiled = [list(_device_files(source, build)) for build in builds]
    find = _finder(source)
    paths = dict.fromkeys(path for files in compiled for path, _ in files)
    found = {path: header for path in paths if (header := find(path))}
    if not found:
        return
    passes = [1 + capabilities for files in compiled for path, capabilities in files if path in found]
    number = sum(any(path in found for path, _ in files) for files in compiled)
    first, header = next(iter(found.items()))
    more = f" and {counted(len(found) - 1, 'other .cu file')} include" if found.keys() - {first} else " includes"
    yield Notice(
        level="info",
        text=f"{first}{more} {header}, which costs about {_SECONDS} seconds and {_SECONDS} more for each capability: "
        f"{show_duration(_SECONDS * sum(passes))} of CPU time in {counted(number, 'build')}, with 2.6 GB of memory for "
        "each file; include torch/types.h instead, or for a kernel set torch-headers: light, which halves it",
    )


def _device_files(source: SourceTree, build: Build) -> Iterator[tuple[str, int]]:
    """Yield the .cu files that a build compiles with all of torch's headers, and the number of capabilities."""
    plan = build.plan
    if plan.toolkit is None or plan.cell.settings.torch_headers == "light":
        return
    if plan.project:
        yield from ((path, len(plan.wheel.gpu_archs)) for path in source.paths if path.endswith(".cu"))
    for step in plan.recipe.steps:
        if step.source and step.source.endswith(".cu"):
            yield step.source, len(step.gpu_archs)


def _finder(source: SourceTree) -> Callable[[str], str | None]:
    """Return a function that finds the large header that a file includes, itself or in other files of the source."""
    by_name: dict[str, list[str]] = {}
    for path in source.paths:
        by_name.setdefault(posixpath.basename(path), []).append(path)

    @cache
    def included(path: str) -> tuple[str, ...]:
        try:
            return tuple(name.decode(errors="replace") for name in _INCLUDE.findall(source.read_bytes(path)))
        except SourceError:  # larger than any real source file
            return ()

    def find(path: str) -> str | None:
        todo, seen = [path], {path}
        while todo:
            for name in included(todo.pop()):
                if name in _LARGE:
                    return name
                new = {*by_name.get(posixpath.basename(name), ())} - seen
                seen |= new
                todo += new
        return None

    return find
