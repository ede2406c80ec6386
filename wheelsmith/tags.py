"""Names and versions that several floors must agree on."""

from __future__ import annotations

import re

from packaging.utils import canonicalize_name

from wheelsmith.model import Cell

_CAPABILITY = re.compile(r"(?P<major>\d{1,2})\.(?P<minor>\d)(?P<suffix>[af])?(?P<ptx>\+PTX)?", re.ASCII)


def local_version(cell: Cell, *, stable_abi: str | None) -> str:
    """Give the local part of a wheel's version, e.g. ``cu130.torch2.11``.

    A wheel for torch's stable ABI serves every torch from its floor up, so it names none. Parts are joined by
    dots: local segments compare numerically only when they are whole numbers (PEP 440).
    """
    return cell.compute if stable_abi else f"{cell.compute}.torch{cell.torch}"


def wheel_stem(distribution: str) -> str:
    """Give the project's name as it stands in a file name: with underscores (binary distribution format)."""
    return canonicalize_name(distribution).replace("-", "_")


def parse_capability(text: str) -> tuple[int, int, str, bool]:
    """Split ``9.0a+PTX`` into major, minor, suffix and whether PTX is wanted.

    :raises ValueError: it is not a compute capability.
    """
    match = _CAPABILITY.fullmatch(text)
    if not match:
        raise ValueError(f"{text!r} is not a compute capability such as 8.0, 9.0a or 12.0+PTX")
    return int(match["major"]), int(match["minor"]), match["suffix"] or "", bool(match["ptx"])
