"""Parse and compare the file names of wheels."""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import prod

from packaging.tags import Tag
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import InvalidVersion, Version

# Tags in a compressed tag set; real wheels have at most about a dozen.
MAX_TAGS = 1000


MAX_VERSION_LENGTH = 64  # characters of a planned version, which is part of file names
_MAX_COMPARED_LENGTH = 300  # characters of any other version


VARIANT_LABEL = re.compile(r"[0-9a-z_.]+")


def same_version(text: str | None, version: Version) -> bool:
    """Return True if a text is this version in any legal spelling: 2024.01.02 equals 2024.1.2."""
    try:
        return len(text or "") <= _MAX_COMPARED_LENGTH and Version(text or "") == version
    except (InvalidVersion, ValueError):
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class WheelName:
    """The parsed file name of a wheel.

    :param project: the normalized project name.
    :param plain: the file name without the variant label; most tools can read only this form.
    :param label: the label of a variant wheel (PEP 825); None for a plain wheel.
    :param build: the build number and its suffix, e.g. ``1`` or ``2post``; empty if there is none.
    """

    project: str
    version: Version
    tags: frozenset[Tag]
    plain: str
    label: str | None
    build: str = ""


def read_wheel_name(filename: str) -> WheelName:
    """Parse a wheel's file name. It may have a variant label, which packaging 26.3 rejects.

    :raises ValueError: it is not the name of a wheel.
    """
    parts = filename.removesuffix(".whl").split("-")
    label = None
    # A build tag begins with a digit; a Python tag must not.
    if len(parts) == 7 or (len(parts) == 6 and not parts[2][:1].isdigit()):  # noqa: PLR2004  # with label, with build tag
        label = parts.pop()
        if not VARIANT_LABEL.fullmatch(label) or not filename.endswith(".whl"):
            raise InvalidWheelFilename(f"{label!r} is not a variant label, which consists of 0-9, a-z, '_' and '.'")
    plain = filename if label is None else "-".join(parts) + ".whl"
    parts = plain.removesuffix(".whl").split("-")
    if len(parts) > 3 and prod(part.count(".") + 1 for part in parts[-3:]) > MAX_TAGS:  # noqa: PLR2004  # three are tags
        raise InvalidWheelFilename(f"it has more than {MAX_TAGS} tags")
    project, version, (*build,), tags = parse_wheel_filename(plain)
    return WheelName(
        project=str(project), version=version, tags=tags, plain=plain, label=label, build="".join(map(str, build))
    )


def wheel_stem(distribution: str) -> str:
    """Return the project's name for a file name: normalized, with underscores (binary distribution format)."""
    return canonicalize_name(distribution).replace("-", "_")
