"""What the platform must have, computed from the versions of the symbols that are needed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from wheelsmith.wheel.bundled_libraries import every_process_has
from wheelsmith.wheel.elf import Extension, Reference
from wheelsmith.wheel.inspection import Inspection
from wheelsmith.wheel.manylinux import earned, is_no_older, oldest, policy_of, promised_kernel, promises
from wheelsmith.wheel.report import Finding, finding
from wheelsmith.wheel.rules.rule import Rule
from wheelsmith.wheel.symbols import platform_exports

_MUSL = "libc.musl-"


def _examine(wheel: Inspection) -> Iterator[Finding]:
    if not wheel.extensions:
        return
    claimed = sorted({tag.platform for tag in wheel.name.tags})
    files = {name: one for name, one in wheel.extensions.items() if not _stands_alone(one)}
    implied = {name: _implied(wheel, name, extension) for name, extension in files.items()}
    needs = {name: _needs(wheel, name, implied[name]) for name in files}
    earliest = {name: earned(*need) for name, need in needs.items()}
    wrong = [
        f"the tag says {tag}, the symbols of {name} need {earliest[name]}{_traced(implied[name], tag, *need[1:])}"
        for name, need in needs.items()
        for tag in claimed
        if not is_no_older(tag, earliest[name]) and not promises(tag, *need)
    ]
    wrong += [
        f"{name} needs {', '.join(taken)} of {library}, which {tag} does not promise"
        for name, extension in wheel.extensions.items()
        for tag in claimed
        for library, taken in _blacklisted(extension, tag)
    ]
    wrong += [
        f"{name} asks for Linux {_dotted(release)} (NT_GNU_ABI_TAG): on an older one, and {tag} runs from "
        f"{_dotted(promised)} on, the loader passes over the file"
        for name, extension in wheel.extensions.items()
        if extension.kind == "library"  # of a program nobody asks it
        and (release := extension.system.release if extension.system else None)
        for tag in claimed
        if (promised := promised_kernel(tag, extension.arch)) and release > promised
    ]
    said = ", ".join(sorted(set(earliest.values()))) or "no platform"
    yield finding("platform-tag", wrong, f"{', '.join(claimed)}: the symbols need {said}")


def _traced(implied: dict[str, str], tag: str, arch: str, family: str) -> str:
    """Name a symbol without a version that breaks the tag's promise; a version itself any tool shows."""
    broken = (v for v in sorted(implied) if not promises(tag, {v}, arch, family))
    return next((f": {implied[version]} is there from {version} on" for version in broken), "")


def _dotted(release: tuple[int, ...]) -> str:
    return ".".join(map(str, release))


def _stands_alone(extension: Extension) -> bool:
    """Say whether a file needs nothing of any libc, as a program does that was linked statically."""
    references = (reference for reference in extension.references if not reference.weak)
    return not (extension.needed or extension.needed_versions or extension.interpreter or any(references))


def _needs(wheel: Inspection, name: str, implied: Iterable[str]) -> tuple[set[str], str, str]:
    """Return the versions of symbols that one file needs of the platform, its architecture, and the tag's family.

    :param implied: by symbols without one.
    """
    extension = wheel.extensions[name]
    own = wheel.providers.own
    versions = {
        need.name
        for need in extension.needed_versions
        if "ld-linux" not in need.library and own.provider(name, need.library) is None
    }
    versions |= set(implied)
    musl = any(library.startswith(_MUSL) for library in extension.needed)
    return versions, extension.arch, "musllinux" if musl else "manylinux"


def _implied(wheel: Inspection, name: str, extension: Extension) -> dict[str, str]:
    """Return the oldest versions that stand behind the symbols that are needed without one, each with such a symbol.

    The linker leaves a symbol so that the library it was shown does not have, and the loader takes any version of it.
    Whoever else may have such a symbol, torch or a library that is not known, may be the one that is meant.
    """
    exports, scope = platform_exports(extension.arch), wheel.providers.scope(name)
    # What every process has, it finds there though it does not say that it needs it.
    libraries = [name for name in exports.symbols if name in extension.needed or every_process_has(name)]
    found: dict[str, list[Reference]] = {}
    for reference in extension.references:
        if reference.version is None and not reference.weak and not scope.unknown:
            versions = [v for library in libraries for v in exports.versions(library, reference.name)]
            if versions and all(versions):
                found.setdefault(oldest(versions, extension.arch), []).append(reference)
    return {
        version: reference.name
        for version, references in found.items()
        for reference in references
        if not wheel.providers.wheel_offers(scope, reference)
        and len(wheel.providers.torch_without(scope, extension.arch, reference.name)) == len(scope.torch)
    }


def _blacklisted(extension: Extension, tag: str) -> Iterator[tuple[str, list[str]]]:
    policy = policy_of(tag)
    for library in extension.needed:
        banned = policy.blacklist.get(library, frozenset()) if policy else frozenset()
        taken = sorted(r.name for r in extension.references if r.name in banned and not r.weak)
        if taken:
            yield library, taken


RULE = Rule(
    name="platform-tag",
    proves="the tag promises no older glibc, libstdc++ and so on than the versions of the symbols need, by the "
    "policies that auditwheel publishes; a symbol without a version counts as the oldest in which its library has it; "
    "no file asks for a newer Linux than that glibc itself, where its loader heeds such a wish (before 2.36)",
    leaves_open="which instructions of the processor are used",
    in_the_wild="bitsandbytes 0.50.2: the tag says manylinux_2_24, `libbitsandbytes_xpu2026.so` needs "
    "`__libc_single_threaded` of glibc 2.32; opencv-python 5.0.0.93: its tag is manylinux_2_28, `libQt5Core` asks for "
    "Linux 3.17",
    examine=_examine,
)
