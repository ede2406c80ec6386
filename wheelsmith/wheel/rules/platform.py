"""Compute what the platform must have from the versions of the needed symbols."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from wheelsmith.wheel.bundled_libraries import every_process_has
from wheelsmith.wheel.elf import Extension
from wheelsmith.wheel.inspection import Inspection
from wheelsmith.wheel.manylinux import (
    is_no_older,
    lowest_satisfied_policy,
    oldest,
    policy_of,
    promised_kernel,
    promises,
)
from wheelsmith.wheel.report import Finding, finding
from wheelsmith.wheel.rules.rule import Rule
from wheelsmith.wheel.symbol_resolution import LookupScope
from wheelsmith.wheel.symbols import platform_exports


def _examine(wheel: Inspection) -> Iterator[Finding]:
    if not wheel.extensions:
        return
    claimed = sorted({tag.platform for tag in wheel.name.tags})
    wrong: list[str] = []
    policies: set[str] = set()
    for name, extension in wheel.extensions.items():
        if not _is_static(extension):
            implied = _implied(wheel, name, extension)
            needs = _needs(wheel, name, implied)
            policies.add(policy := lowest_satisfied_policy(*needs))
            wrong += [
                f"the tag says {tag}, the symbols of {name} need {policy}{_traced(implied, tag, *needs[1:])}"
                for tag in claimed
                if not is_no_older(tag, policy) and not promises(tag, *needs)
            ]
        wrong += [mistake for tag in claimed for mistake in _not_promised(name, extension, tag)]
    said = ", ".join(sorted(policies)) or "no platform"
    yield finding("platform-tag", wrong, f"{', '.join(claimed)}: the symbols need {said}")


def _traced(implied: dict[str, str], tag: str, arch: str, family: str) -> str:
    """Return a symbol without a version that breaks the tag's promise; other tools show only versions."""
    broken = (v for v in sorted(implied) if not promises(tag, {v}, arch, family))
    return next((f": {implied[version]} is there from {version} on" for version in broken), "")


def _is_static(extension: Extension) -> bool:
    """Return True if a file needs no libc, as a program that was linked statically."""
    references = (reference for reference in extension.references if not reference.weak)
    return not (extension.needed or extension.needed_versions or extension.interpreter or any(references))


def _needs(wheel: Inspection, name: str, implied: Iterable[str]) -> tuple[set[str], str, str]:
    """Return the versions of symbols that a file needs of the platform, its architecture, and the tag's family.

    :param implied: versions of symbols that are needed without one.
    """
    extension, bundled = wheel.extensions[name], wheel.resolver.bundled
    versions = {
        need.name
        for need in extension.needed_versions
        if "ld-linux" not in need.library and bundled.provider(name, need.library) is None
    }
    musl = any(library.startswith("libc.musl-") for library in extension.needed)
    return versions | {*implied}, extension.arch, "musllinux" if musl else "manylinux"


def _implied(wheel: Inspection, name: str, extension: Extension) -> dict[str, str]:
    """Return the oldest versions of the symbols that are needed without one, each with such a symbol.

    The linker writes no version if the library that it was given lacks the symbol, and the loader takes any version.
    Symbols that torch, the wheel or an unknown library may offer do not count.
    """
    exports, scope = platform_exports(extension.arch), wheel.resolver.scope(name)
    libraries = [name for name in exports.symbols if name in extension.needed or every_process_has(name)]
    found: dict[str, str] = {}
    for reference in extension.references if not scope.unknown else ():
        if reference.version is not None or reference.weak or wheel.resolver.wheel_offers(scope, reference):
            continue
        versions = [v for library in libraries for v in exports.versions(library, reference.name)]
        if versions and all(versions) and not _is_torchs(wheel, scope, extension, reference.name):
            found.setdefault(oldest(versions, extension.arch), reference.name)
    return found


def _is_torchs(wheel: Inspection, scope: LookupScope, extension: Extension, symbol: str) -> bool:
    return len(wheel.resolver.torch_without(scope, extension.arch, symbol)) < len(scope.torch)


def _not_promised(name: str, extension: Extension, tag: str) -> Iterator[str]:
    policy, promised = policy_of(tag), promised_kernel(tag, extension.arch)
    for library in extension.needed:
        banned = policy.blacklist.get(library, frozenset()) if policy else frozenset()
        if taken := sorted(r.name for r in extension.references if r.name in banned and not r.weak):
            yield f"{name} needs {', '.join(taken)} of {library}, which {tag} does not promise"
    # The loader does not compare the kernel of programs.
    if promised and extension.kind == "library" and extension.linux and extension.linux > promised:
        wanted, first = (".".join(map(str, numbers)) for numbers in (extension.linux, promised))
        yield (
            f"{name} requires Linux {wanted} (NT_GNU_ABI_TAG), and {tag} begins with {first}, on which the loader "
            "ignores the file"
        )


RULE = Rule(
    name="platform-tag",
    proves="the tag promises no older glibc, libstdc++ and so on than the versions of the symbols need, by the "
    "policies that auditwheel publishes; a symbol without a version counts as the oldest in which its library has it; "
    "no library requires a newer Linux than that glibc, whose loader compares it (before 2.36)",
    leaves_open="which instructions of the processor are used",
    in_the_wild="bitsandbytes 0.50.2: the tag says manylinux_2_24, `libbitsandbytes_xpu2026.so` needs "
    "`__libc_single_threaded` of glibc 2.32; opencv-python 5.0.0.93: its tag is manylinux_2_28, `libQt5Core` asks for "
    "Linux 3.17",
    examine=_examine,
)
