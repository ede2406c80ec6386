"""Symbols without a version, which the linker leaves so where the library that it was shown does not have them.

Any version will do for the loader, so nothing in the file tells of a newer C library: what has the symbol does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from wheelsmith.wheel.elf import Extension
from wheelsmith.wheel.manylinux import Policy, oldest
from wheelsmith.wheel.symbols import platform_exports


def newer_than(policy: Policy, extensions: Mapping[str, Extension]) -> Iterator[str]:
    """Say which symbols without a version only a newer library has than a policy allows.

    :param extensions: of one wheel, by their paths; what one of them has is taken from there.
    """
    for name, extension in extensions.items():
        exports = platform_exports(extension.arch)
        for reference in extension.references:
            if reference.version or reference.weak or any(each.offers(reference) for each in extensions.values()):
                continue
            for library in extension.needed:
                versions = exports.versions(library, reference.name)
                if versions and not any(policy.allows([version], extension.arch) for version in versions):
                    since = oldest(versions, extension.arch)
                    yield f"{name} needs {reference.name}, which {library} has from {since} on"
