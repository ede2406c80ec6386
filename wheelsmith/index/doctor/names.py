"""What the names of files tell: project, version, and whether a wheel is a variant."""

from __future__ import annotations

import re

from packaging.utils import InvalidWheelFilename, parse_wheel_filename
from packaging.version import Version

# What describes the variants of a version (PEP 825) is listed among its files.
VARIANTS = "-variants.json"
_LABEL = re.compile(r"[0-9a-z_.]+")


def wheel_of(filename: str) -> tuple[str, Version] | None:
    """Return project and version of a wheel, or None for what has no wheel's name."""
    try:
        name, version, *_ = parse_wheel_filename(filename)
    except InvalidWheelFilename:
        return None
    return name, version


def variant_of(filename: str) -> tuple[str, Version] | None:
    """Return project and version of a variant wheel, whose name ends in a label (PEP 825), or None for another file."""
    rest, _, label = filename.removesuffix(".whl").rpartition("-")
    if wheel_of(filename) or not _LABEL.fullmatch(label):
        return None
    return wheel_of(f"{rest}.whl")
