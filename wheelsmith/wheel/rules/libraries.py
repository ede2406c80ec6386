"""Every library that a compiled file needs is brought by something."""

from __future__ import annotations

from collections.abc import Iterator

from wheelsmith.wheel.inspection import Inspection
from wheelsmith.wheel.providers import Providers, cuda_releases, torch_names
from wheelsmith.wheel.report import Finding, finding
from wheelsmith.wheel.rules.rule import Rule


def _examine(wheel: Inspection) -> Iterator[Finding]:
    providers = wheel.providers
    for name, extension in wheel.extensions.items():
        strangers: dict[str, list[str]] = {}
        for library in extension.needed:
            why = _out_of_reach(wheel, name, library) or _without(providers, name, extension.arch, library)
            if why:
                strangers.setdefault(why, []).append(library)
        wrong = [f"{name} needs {', '.join(found)}: {why}" for why, found in strangers.items()]
        brought = sorted(lib for lib in extension.needed if not providers.is_platforms(extension.arch, lib))
        yield finding("libraries", wrong, f"{name}, beside the platform's: {', '.join(brought) or 'none'}")


def _out_of_reach(wheel: Inspection, name: str, library: str) -> str | None:
    """Return why the loader does not find a library of the wheel; None where it does, or Python code may load it."""
    own = wheel.providers.own
    place = own.anywhere(library)
    if place is None or own.found(name, library) or wheel.loads_libraries:
        return None
    return f"in the wheel as {place}, where the loader does not look"


def _without(providers: Providers, name: str, arch: str, library: str) -> str | None:
    """Return why nothing brings a library to a file; None where something does."""
    if not library or providers.own.provider(name, library) or providers.is_platforms(arch, library):
        return None
    if providers.is_a_projects(library):
        return None
    if library in torch_names(arch):
        return providers.without_torch(arch, library)
    if cuda_releases(library):
        return providers.without_cuda(library)
    return "neither the wheel's, the platform's, torch's nor CUDA's"


RULE = Rule(
    name="libraries",
    proves="every library in DT_NEEDED is the wheel's own, one that the tag's platform must have, one that the "
    "required torch releases have, or one of CUDA's of the version's major release, each by its exact name",
    leaves_open="where Python code of the wheel loads libraries (ctypes, torch.ops.load_library), whether it loads "
    "what is on no search path; whether a CUDA library that torch does not load itself is loaded before",
    examine=_examine,
)
