"""What a variant wheel (PEP 825) says of itself."""

from __future__ import annotations

from pathlib import Path

from wheelsmith.base.errors import Place, WheelError
from wheelsmith.model import read_wheel_name
from wheelsmith.wheel.archive import info_folder, open_archive
from wheelsmith.wheel.variant_format import Variant, load_variant

VARIANT_FILE = "variant.json"
LONGEST_VARIANT = 2**20  # bytes


def read_variant(path: Path) -> Variant | None:
    """Return what a variant wheel says of itself; None for any other wheel.

    :raises WheelError: it says nothing, or does not keep the format.
    """
    label = read_wheel_name(path.name).label
    if not label:
        return None
    with open_archive(path) as archive:
        name = f"{info_folder(archive)}/{VARIANT_FILE}"
        return variant_of(archive.read(name, LONGEST_VARIANT) if name in archive.members else None, path.name, label)


def variant_of(data: bytes | None, filename: str, label: str) -> Variant:
    """Return what a wheel with this label says of itself.

    :param data: its ``variant.json``; None where there is none.
    :raises WheelError: it says nothing, or does not keep the format.
    """
    where = Place(file=filename)
    if data is None:
        raise WheelError("the name has a variant label, and there is no variant.json", where=where)
    try:
        return load_variant(data, label)
    except WheelError as error:
        raise WheelError(error.message, where=where) from None
