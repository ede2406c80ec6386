"""Variant wheels (PEP 825): the content of a plain wheel, under a name that pip passes over."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from wheelsmith.base.errors import Place, WheelError
from wheelsmith.wheel.archive import open_wheel, record_mistakes
from wheelsmith.wheel.gpu import GpuCode
from wheelsmith.wheel.gpu.code import joined
from wheelsmith.wheel.repair import pack
from wheelsmith.wheel.report import Finding, finding
from wheelsmith.wheel.retag import renamed
from wheelsmith.wheel.variant_file import VARIANT_FILE, variant_of
from wheelsmith.wheel.variant_format import Variant, dump_variants
from wheelsmith.wheel.variant_properties import property_mistakes

_VERSION = re.compile(rb"^Version:.*$", re.MULTILINE)


def make_variant(plain: Path, variant: Variant, version: str, work: Path) -> Path:
    """Make the variant wheel beside a finished wheel; the same wheel gives the same bytes.

    It comes after repair and check: auditwheel cannot read its name.

    :param version: of the variant wheel, in the file name and in METADATA.
    :param work: an empty folder for this.
    :raises WheelError: the plain wheel cannot be read, or what was made of it is not right.
    """
    contents = open_wheel(plain)
    if wrong := record_mistakes(contents):
        raise WheelError(f"RECORD lies: {wrong[0]}", where=Place(file=plain.name))
    metadata = contents.files[f"{contents.info}/METADATA"]
    headers, blank, text = metadata.partition(b"\n\n")
    headers = _VERSION.sub(f"Version: {version}".encode(), headers, count=1)
    stem = f"{contents.filename.partition('-')[0]}-{version}"
    made = renamed(contents, stem, headers + blank + text)
    files = {**made.files, f"{made.info}/{VARIANT_FILE}": dump_variants([variant])}
    packed = pack(replace(made, files=files), work)
    wheel = packed.rename(packed.with_name(f"{packed.stem}-{variant.label}.whl"))
    _check(wheel, files, variant)
    return wheel


def variant_finding(data: bytes | None, filename: str, label: str, codes: Iterable[GpuCode]) -> Finding:
    """Compare the GPUs that a variant wheel names with the code that it holds."""
    try:
        variant = variant_of(data, filename, label)
    except WheelError as error:
        return finding("variant", [error.message], "")
    claimed = variant.properties.get("nvidia", {}).get("sm_arch", ())
    wrong = list(property_mistakes(variant, joined(codes)))
    return finding("variant", wrong, f"{label}: {', '.join(claimed) or 'any GPU or none'}")


def _check(wheel: Path, files: dict[str, bytes], variant: Variant) -> None:
    """Read back what was made: tools that make variants have been seen to write what others refuse."""
    contents = open_wheel(wheel)
    record, data = f"{contents.info}/RECORD", contents.files.get(f"{contents.info}/{VARIANT_FILE}")
    same = {**contents.files, record: b""} == {**files, record: b""}
    if not same or record_mistakes(contents) or variant_of(data, wheel.name, variant.label) != variant:
        raise WheelError("the variant wheel is not what was to be made", where=Place(file=wheel.name))
