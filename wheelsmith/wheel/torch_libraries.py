"""Which of CUDA's libraries are in a process once torch is: those that a wheel may need without bringing them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from functools import cache

from wheelsmith.platforms import DRIVER_LIBRARIES, cuda_packages
from wheelsmith.wheel.symbols import symbol_table

CUDA_LIBRARY = re.compile(r"lib(?P<stem>[\w-]+?)(?:[-.][0-9a-f]{8})?\.so(?:\.(?P<major>\d{1,4})(?:\.[\d.]+)?)?")
# What a library of CUDA's needs of another package of CUDA's.
_NEEDED_BY = {"cusparse": "nvJitLink"}
_TOOLKIT = "cuda-toolkit"  # requires the rest by its extras


def why_not_brought(arch: str, library: str, torch: Iterable[str], required: Collection[str]) -> str | None:
    """Return why a library of CUDA's is not there for a wheel that requires torch; None where it is.

    :param torch: known releases, as ``2.11``, beside which the wheel may be installed.
    :param required: normalized names of all projects that the wheel requires.
    """
    match = CUDA_LIBRARY.fullmatch(library)
    if match is None or library in DRIVER_LIBRARIES:
        return None
    lacking = [release for release in torch if match["stem"] not in (_brought(arch, release) or {match["stem"]})]
    package = next((name for name, stems in cuda_packages().libraries.items() if match["stem"] in stems), None)
    if not lacking or (package and any(_is(name, package) for name in required)):
        return None
    remedy = f"; require {package}, whose it is" if package else ""
    return f"CUDA's, which torch {', '.join(lacking)} does not load{remedy}"


def _is(name: str, package: str) -> bool:
    """Say whether a required project is a package of CUDA's, for any CUDA, or what requires all of them."""
    return name in {_TOOLKIT, package} or bool(re.fullmatch(rf"{re.escape(package)}-cu\d\d", name))


@cache
def _brought(arch: str, release: str) -> frozenset[str]:
    """Return the libraries, without ``lib`` and numbers, that a torch loads; none where only its CPU build is known."""
    table = symbol_table(arch)
    libraries = table.libraries.get(release, {}) if table else {}
    needed = {match["stem"] for each in libraries.values() for n in each.needed if (match := CUDA_LIBRARY.fullmatch(n))}
    if "cudart" not in needed:
        return frozenset()
    return frozenset(needed | {more for stem, more in _NEEDED_BY.items() if stem in needed})
