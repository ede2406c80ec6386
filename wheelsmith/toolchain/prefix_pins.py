"""What a prefix is made from, by its name: which files, each by its hash."""

from __future__ import annotations

from collections.abc import Iterator

from wheelsmith.frameworks import frameworks
from wheelsmith.model import PinnedFile, PinnedPackage, PinnedTree, PrefixId
from wheelsmith.platforms import DEVELOPMENT, cuda_prefix, cuda_toolkits, cxx_toolchains, header_library
from wheelsmith.platforms.cuda import cuda_development, cuda_pins
from wheelsmith.platforms.header_libraries import KIND as LIBRARY
from wheelsmith.platforms.host_compilers import KIND as CXX

Pins = tuple[PinnedFile | PinnedTree | PinnedPackage, ...]


def made_from(prefix: PrefixId) -> Pins:
    """Return the files that a prefix is made from; none where this wheelsmith knows no prefix of its digest."""
    try:
        return next((pins for known, pins in _named_so(prefix) if known == prefix), ())
    except KeyError:
        return ()


def _named_so(prefix: PrefixId) -> Iterator[tuple[PrefixId, Pins]]:
    """Yield the prefixes that are known by its name, whatever their digests.

    :raises KeyError: none is.
    """
    if prefix.kind == CXX:
        yield from ((each.prefix, each.packages) for each in cxx_toolchains())
    elif prefix.kind == LIBRARY:
        library = header_library(prefix.version)
        yield library.prefix, tuple(pin for pin in (library.wheel, library.archive) if pin)
    elif prefix.kind == DEVELOPMENT:
        toolkit = cuda_toolkits()[prefix.version]
        yield cuda_development(toolkit), toolkit.development
    elif prefix.kind in frameworks():
        calls = frameworks()[prefix.kind]
        for release in calls.releases().values():
            if prefix.arch in release.wheels:
                yield calls.prefix(release.minor, prefix.arch), (release.wheels[prefix.arch],)
    else:
        toolkit, (machine, _, target) = cuda_toolkits()[prefix.version], prefix.arch.partition("-")
        found = toolkit, machine, target or machine
        yield cuda_prefix(*found), cuda_pins(*found)
