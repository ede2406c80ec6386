"""Every library that a compiled file needs is brought by something."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from dataclasses import dataclass

from wheelsmith.wheel.bundled_libraries import every_process_has
from wheelsmith.wheel.elf import Extension
from wheelsmith.wheel.inspection import Inspection
from wheelsmith.wheel.report import Finding, finding
from wheelsmith.wheel.rules.rule import Rule
from wheelsmith.wheel.symbol_resolution import Providers, cuda_releases, torch_names

_MOST_TOLD = 20  # libraries in one finding


def _examine(wheel: Inspection) -> Iterator[Finding]:
    providers = wheel.providers
    facts: dict[str, _Fact] = {}
    for name, extension in wheel.extensions.items():
        right = True
        for library in extension.needed:
            why = (
                _out_of_reach(wheel, name, library)
                or _without(providers, name, extension.arch, library)
                or _not_looked_for(providers, name, extension, library)
            )
            if why:
                right = False
                fact = facts.setdefault(why, _Fact(files={}, libraries={}))
                fact.files[name] = None
                fact.libraries[library] = None
        if right:
            brought = sorted(lib for lib in extension.needed if not providers.is_platforms(extension.arch, lib))
            yield finding("libraries", [], f"{name}, beside the platform's: {', '.join(brought) or 'none'}")
    # What many files have in common is said once.
    yield from (finding("libraries", [_sentence(why, fact)], "") for why, fact in facts.items())
    if strangers := list(_never_opened(wheel)):
        yield finding("libraries", strangers, "")
    if twice := list(_twice(wheel)):
        yield finding("libraries", twice, "")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fact:
    """What is wrong with some libraries, and the files that need them, each in the order in which it was met."""

    files: dict[str, None]
    libraries: dict[str, None]


def _sentence(why: str, fact: _Fact) -> str:
    files, libraries = list(fact.files), list(fact.libraries)
    others = f" and {len(files) - 1} more" if len(files) > 1 else ""
    left = f" and {len(libraries) - _MOST_TOLD} more" if len(libraries) > _MOST_TOLD else ""
    verb = "need" if others else "needs"
    return f"{files[0]}{others} {verb} {', '.join(libraries[:_MOST_TOLD])}{left}: {why}"


def _not_looked_for(providers: Providers, name: str, extension: Extension, library: str) -> str | None:
    """Return why the loader does not look where a platform's library is; None where it does, or need not."""
    if not extension.no_default_folders or every_process_has(library) or providers.own.provider(name, library):
        return None
    if not providers.is_platforms(extension.arch, library):
        return None
    return "the platform's, where the loader is told not to look (DF_1_NODEFLIB)"


def _never_opened(wheel: Inspection) -> Iterator[str]:
    """Find copies of libraries that every process has, and that the loader takes from there."""
    for name, extension in wheel.extensions.items():
        library = posixpath.basename(name)
        if extension.kind == "library" and every_process_has(library):
            yield f"{name} is a copy of {library}, which every process has of the platform: this one is never opened"


def _twice(wheel: Inspection) -> Iterator[str]:
    """Find libraries of torch's or CUDA's that a process has twice: the wheel's copy is loaded under another name."""
    own = wheel.providers.own
    for name, extension in wheel.extensions.items():
        for library in extension.needed:
            copy = own.found(name, library)
            soname = wheel.extensions[copy].soname if copy else None
            if (
                soname is None
                or soname == library
                or not (cuda_releases(soname) or soname in torch_names(extension.arch))
            ):
                continue
            others = (path for path, other in wheel.extensions.items() if soname in other.needed and path != copy)
            if other := next((path for path in others if own.found(path, soname) is None), None):
                yield f"{name} needs {library}, the wheel's own {soname}, and {other} torch's or CUDA's: two at once"


def _out_of_reach(wheel: Inspection, name: str, library: str) -> str | None:
    """Return why the loader does not find a library of the wheel; None where it does, or Python code may load it."""
    own = wheel.providers.own
    if place := own.found(name, library):
        return _not_for_a_need(wheel, place)
    place = own.anywhere(library)
    if place is None or _may_be_loaded(wheel, place, library):
        return None
    return f"in the wheel as {place}, where the loader does not look"


def _not_for_a_need(wheel: Inspection, place: str) -> str | None:
    """Return why the loader refuses a file that it finds; None where it takes it."""
    found = wheel.extensions[place]
    if found.kind != "library" or not found.dynamic:
        kind = "library without a dynamic table" if found.kind == "library" else found.kind
        return f"in the wheel as {place}, which is a {kind}"
    return f"in the wheel as {place}, which forbids to be loaded (DF_1_NOOPEN)" if found.not_to_open else None


def _may_be_loaded(wheel: Inspection, place: str, library: str) -> bool:
    """Say whether Python code of the wheel loads a library of it, by its name or by one that it puts together."""
    names = {library, posixpath.basename(place)}
    return any(load.library is None or load.library in names for load in wheel.loads)


def _without(providers: Providers, name: str, arch: str, library: str) -> str | None:
    """Return why nothing brings a library to a file; None where something does."""
    if not library or providers.own.provider(name, library) or providers.is_platforms(arch, library):
        return None
    if providers.is_a_projects(library):
        return None
    if library in torch_names(arch):
        return providers.without_torch(arch, library)
    if cuda_releases(library):
        return providers.without_cuda(arch, library)
    return "neither the wheel's, the platform's, torch's nor CUDA's"


RULE = Rule(
    name="libraries",
    proves="every library in DT_NEEDED is the wheel's own, one that the tag's platform must have, one that the "
    "required torch releases have, or one of CUDA's of the version's major release that those torch releases load, "
    "whose package is required, or that the driver has, each by its exact name, and not shut out by another one of the "
    "wheel's whose DT_SONAME that is; and "
    "no file needs the wheel's own copy of a library of CUDA's or torch's that another file needs from there",
    leaves_open="where Python code of the wheel loads libraries (ctypes, torch.ops.load_library) by names that it puts "
    "together while it runs, whether it loads what is on no search path; whether what it loads by a plain name is "
    "there; whether a library of CUDA's is loaded before: one whose package is required, one that torch loads when it "
    "is first of use, and any where no torch is required; whether a DT_SONAME shuts out "
    "what a library needs that the file itself does not name",
    in_the_wild="torchvision 0.29.2: `image_stable.so` needs `libcudart.3eda8113.so.13`, a copy of its own, and "
    "`_C_stable.so` needs `libcudart.so.13`, which torch brings: two runtimes in one process",
    examine=_examine,
)
