"""Check that something provides every library that a compiled file needs."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from dataclasses import dataclass

from wheelsmith.wheel.bundled_libraries import every_process_has
from wheelsmith.wheel.cuda_libraries import cuda_releases
from wheelsmith.wheel.inspection import Inspection
from wheelsmith.wheel.report import Finding, finding
from wheelsmith.wheel.rules.rule import Rule
from wheelsmith.wheel.symbol_resolution import SymbolResolver, torch_names

_MOST_TOLD = 20  # libraries in one finding


def _examine(wheel: Inspection) -> Iterator[Finding]:
    resolver = wheel.resolver
    missing: dict[str, _Missing] = {}
    for name, extension in wheel.extensions.items():
        right = True
        for library in extension.needed:
            if why := _out_of_reach(wheel, name, library) or _without(resolver, name, extension.arch, library):
                right = False
                found = missing.setdefault(why, _Missing(files={}, libraries={}))
                found.files[name] = found.libraries[library] = None
        if right:
            brought = sorted(lib for lib in extension.needed if not resolver.is_platforms(extension.arch, lib))
            yield finding("libraries", [], f"{name}, beside the platform's: {', '.join(brought) or 'none'}")
    # One finding for what many files have in common.
    yield from (finding("libraries", [_sentence(why, found)], "") for why, found in missing.items())
    if wrong := [*_never_opened(wheel), *_twice(wheel)]:
        yield finding("libraries", wrong, "")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Missing:
    """The libraries that one reason applies to, and the files that need them, in order."""

    files: dict[str, None]
    libraries: dict[str, None]


def _sentence(why: str, missing: _Missing) -> str:
    files, libraries = list(missing.files), list(missing.libraries)
    others = f" and {len(files) - 1} more need" if len(files) > 1 else " needs"
    left = f" and {len(libraries) - _MOST_TOLD} more" if len(libraries) > _MOST_TOLD else ""
    return f"{files[0]}{others} {', '.join(libraries[:_MOST_TOLD])}{left}: {why}"


def _never_opened(wheel: Inspection) -> Iterator[str]:
    """Yield the wheel's copies of libraries that every process has already."""
    for name, extension in wheel.extensions.items():
        library = posixpath.basename(name)
        if extension.kind == "library" and every_process_has(library):
            yield f"{name} is a copy of {library}, which every process has of the platform: this one is never opened"


def _twice(wheel: Inspection) -> Iterator[str]:
    """Yield libraries of torch's or CUDA's that a process loads twice: the wheel's copy has another name."""
    bundled = wheel.resolver.bundled
    for name, extension in wheel.extensions.items():
        for library in extension.needed:
            copy = bundled.found(name, library)
            soname = (wheel.extensions[copy].soname if copy else None) or library
            if soname == library or not (cuda_releases(soname) or soname in torch_names(extension.arch)):
                continue
            others = (path for path, other in wheel.extensions.items() if soname in other.needed and path != copy)
            if other := next((path for path in others if bundled.found(path, soname) is None), None):
                yield f"{name} needs {library}, the wheel's own {soname}, and {other} torch's or CUDA's: two at once"


def _out_of_reach(wheel: Inspection, name: str, library: str) -> str | None:
    """Return why the loader does not find a library of the wheel; None if it does, or if Python code may load it."""
    bundled = wheel.resolver.bundled
    if place := bundled.found(name, library):
        found = wheel.extensions[place]
        if found.kind == "library" and found.dynamic:
            return None
        kind = "library without a dynamic table" if found.kind == "library" else found.kind
        return f"in the wheel as {place}, which is a {kind}"
    place = bundled.anywhere(library)
    names = {None, library, posixpath.basename(place or "")}
    if place is None or any(load.library in names for load in wheel.loads):
        return None
    return f"in the wheel as {place}, where the loader does not look"


def _without(resolver: SymbolResolver, name: str, arch: str, library: str) -> str | None:
    """Return why nothing provides a library to a file, or None if something does."""
    if resolver.bundled.provider(name, library) or resolver.is_platforms(arch, library):
        return None
    if resolver.is_a_projects(library):
        return None
    if library in torch_names(arch):
        return resolver.without_torch(arch, library)
    if cuda_releases(library):
        return resolver.without_cuda(arch, library)
    return "neither the wheel's, the platform's, torch's nor CUDA's"


RULE = Rule(
    name="libraries",
    proves="every library in DT_NEEDED is the wheel's own, one that the tag's platform must have, one that the "
    "required torch releases have, or one of CUDA's of the version's major release that those torch releases load, "
    "whose package is required, or that the driver has, each by its exact name; no file needs the wheel's own copy of "
    "a library of CUDA's or torch's that another file needs from there; no library of the wheel is a copy of one that "
    "every process has",
    leaves_open="libraries that Python code loads by names that are no literals (ctypes, torch.ops.load_library); "
    "whether a literal name that it loads is there; whether a library of CUDA's is loaded before: one whose package is "
    "required, one that torch loads when it is first of use, and any where no torch is required; whether every file "
    "that loads a library has the DT_RPATH that another one hands on to it",
    in_the_wild="torchvision 0.29.2: `image_stable.so` needs `libcudart.3eda8113.so.13`, a copy of its own, and "
    "`_C_stable.so` needs `libcudart.so.13`, which torch brings: two runtimes in one process",
    examine=_examine,
)
