"""Which compute capabilities a kernel section is compiled for.

Machine code runs on its own major version at the same or a newer minor; PTX runs on anything newer; code with a
suffix (``9.0a``) runs on exactly its own. The rule is kernel-builder's ``cuda_archs_loose_intersection``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_GENCODE = "-gencode="
_CAPABILITY = re.compile(r"(?P<major>\d{1,2})\.(?P<minor>\d)(?P<suffix>[af])?(?P<ptx>\+PTX)?", re.ASCII)


def parse_capability(text: str) -> tuple[int, int, str, bool]:
    """Split ``9.0a+PTX`` into major, minor, suffix and whether PTX is wanted.

    :raises ValueError: it is not a compute capability.
    """
    match = _CAPABILITY.fullmatch(text)
    if not match:
        raise ValueError(f"{text!r} is not a compute capability such as 8.0, 9.0a or 12.0+PTX")
    return int(match["major"]), int(match["minor"]), match["suffix"] or "", bool(match["ptx"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Capability:
    """A compute capability; ``suffix`` is ``a``, ``f`` or empty."""

    major: int
    minor: int
    suffix: str = ""
    ptx: bool = False

    @property
    def number(self) -> tuple[int, int]:
        """Return major and minor, which is what capabilities are ordered by."""
        return self.major, self.minor

    def __str__(self) -> str:
        """Return ``9.0a+PTX``."""
        return f"{self.major}.{self.minor}{self.suffix}{'+PTX' if self.ptx else ''}"


def read(text: str) -> Capability:
    """Read ``9.0a+PTX``."""
    major, minor, suffix, ptx = parse_capability(text)
    return Capability(major=major, minor=minor, suffix=suffix, ptx=ptx)


def plain(text: str) -> str:
    """Return the capability without ``+PTX``."""
    return text.removesuffix("+PTX")


def resolve(written_for: tuple[str, ...] | None, requested: tuple[str, ...]) -> tuple[str, ...]:
    """Return what a section is compiled for, ascending.

    :param written_for: the section's own list; None takes what is requested as it is.
    :param requested: the list of the build.
    """
    if written_for is None:
        return tuple(dict.fromkeys(requested))
    own = [read(text) for text in written_for]
    targets = {read(text).number for text in requested}
    chosen: dict[tuple[int, int, str], Capability] = {}
    for capability in own:
        if capability.suffix and capability.number in targets:
            # The specific code serves this target, so no general code is made for it.
            chosen[(*capability.number, capability.suffix)] = capability
    served = {(major, minor) for major, minor, _ in chosen}
    general = sorted((c for c in own if not c.suffix), key=lambda c: (c.number, c.ptx))
    for target in sorted(targets - served):
        best = _best(general, target)
        if best:
            chosen[(*best.number, "")] = best
    return tuple(str(chosen[key]) for key in sorted(chosen))


def _best(ascending: list[Capability], target: tuple[int, int]) -> Capability | None:
    fitting = [c for c in ascending if c.number <= target and (c.ptx or c.major == target[0])]
    return fitting[-1] if fitting else None


def gencode(text: str) -> tuple[str, ...]:
    """Return nvcc's flags for one capability."""
    capability = read(text)
    name = f"{capability.major}{capability.minor}{capability.suffix}"
    flags = [f"{_GENCODE}arch=compute_{name},code=sm_{name}"]
    if capability.ptx:
        flags.append(f"{_GENCODE}arch=compute_{name},code=compute_{name}")
    return tuple(flags)


def cmake_architectures(text: str) -> tuple[str, ...]:
    """Return what CMAKE_CUDA_ARCHITECTURES calls one capability: ``90-real``, and ``90-virtual`` for its PTX."""
    capability = read(text)
    name = f"{capability.major}{capability.minor}{capability.suffix}"
    return (f"{name}-real", *((f"{name}-virtual",) if capability.ptx else ()))


def without_gencode(argv: tuple[str, ...]) -> tuple[str, ...]:
    """Return a command without the flags that say for which capabilities it makes code."""
    return tuple(word for word in argv if not word.startswith(_GENCODE))
