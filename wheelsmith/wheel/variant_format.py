"""The metadata of wheel variants: PEP 825's package format with PEP 850's providers.

Both are drafts. What is written here is what installers read today: docs/explanation/variants.md says which, and how
that was found out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from wheelsmith.base.errors import Place, WheelError
from wheelsmith.base.json_dataclass import Record, read_json
from wheelsmith.frameworks import STABLE, framework, read_local_version
from wheelsmith.model import VARIANT_LABEL, read_wheel_name
from wheelsmith.platforms import cuda_of, parse_capability
from wheelsmith.wheel.archive import LONGEST_TEXT, info_folder, open_archive

VARIANT_FILE = "variant.json"
NULL = "null"
# Under this URL uv knows the schema; variantlib 0.2.2 writes another, which uv warns of, and reads any.
SCHEMA = "https://variants-schema.wheelnext.dev/peps/850/v0.2.0.json"
# uv answers for exactly this plugin, without installing it; it skips a provider that names no plugin-api.
_PROVIDERS = {
    "nvidia": {
        "requires": ["nvidia-variant-provider>=0.0.1,<1.0.0"],
        "plugin-api": "nvidia_variant_provider.plugin:NvidiaVariantPlugin",
    }
}
_HEADER = {
    "$schema": SCHEMA,
    "default-priorities": {"namespace": list(_PROVIDERS)},
    "providers": _PROVIDERS,
}
_NAME = re.compile(r"[0-9a-z_]+")
_VALUE = re.compile(r"[0-9a-z_.]+")
_SM = re.compile(r"(?P<number>\d+)(?P<suffix>[af]?)_(?P<kind>real|virtual)")
# The newest major in the plugin's catalogue. A GPU offers the PTX of its own major alone, 120_virtual, although it
# compiles that of older majors too: so PTX is offered to every major that can compile it.
_NEWEST_MAJOR = 12

_SHOWN = 200  # characters of a message

# Namespace → feature → values.
Properties = dict[str, dict[str, tuple[str, ...]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant(Record):
    """What a variant wheel needs of a machine: of each feature any of the values; without features, nothing.

    :param label: what the file name calls it; equal labels of one version have equal properties.
    """

    label: str
    properties: Properties = field(default_factory=dict)


def variant_for(compute: str, gpu_archs: Iterable[str]) -> Variant:
    """Return the variant of a wheel: what its code runs on.

    :param compute: ``cu130``, or ``cpu``, which is the null variant: it runs wherever nothing else does.
    :param gpu_archs: capabilities that its GPU code is for, e.g. ``8.0``, ``9.0+PTX``.
    """
    if compute == "cpu":
        return Variant(label=NULL)
    archs = tuple(gpu_archs)
    architectures = sm_values(archs, [text for text in archs if text.endswith("+PTX")])
    features: dict[str, tuple[str, ...]] = {"cuda_version_lower_bound": (cuda_of(compute) or "",)}
    if architectures:
        features["sm_arch"] = tuple(sorted(architectures))
    # The label spells the properties, so that wheels which two machines make never contradict each other.
    short = (_short(value) for value in sorted(architectures, key=_ascending))
    return Variant(label="_".join([compute, *short]), properties={"nvidia": features})


def sm_values(machine_code: Iterable[str], ptx: Iterable[str]) -> frozenset[str]:
    """Return the values of ``nvidia :: sm_arch`` for which a wheel has code that runs.

    A GPU of 8.6 offers 86_real to 80_real, and 80_virtual.

    :param machine_code: capabilities, e.g. ``9.0a``; ``+PTX`` is passed over.
    :param ptx: capabilities, with ``+PTX`` or without.
    """
    values = {_machine_code(text) for text in machine_code}
    return frozenset(values.union(*map(_ptx, ptx)))


def variant_version(version: str) -> str | None:
    """Return the version of the variant wheel beside a plain one; None where there is nothing to choose by.

    Variants compete within a version, so what they choose, the compute platform, leaves it: ``1+cu130.torch2.11`` is
    ``1+torch2.11``. A wheel for torch's stable ABI is ``1+torchstable``: ``1`` alone would sort below ``1+cu130``, and
    an installer would never look at it. Versions with ``torch`` in front sort above all plain ones.
    """
    public, _, local = version.partition("+")
    said = read_local_version(local)
    if not said.own:
        return None
    named = framework(said.framework).local_part(said.release) if said.release else STABLE
    return f"{public}+{named}"


def dump_variants(variants: Iterable[Variant]) -> bytes:
    """Write variant.json of one wheel, or the union that an index offers."""
    listed = {variant.label: variant.to_json()["properties"] for variant in variants}
    return json.dumps({**_HEADER, "variants": listed}, indent=1, sort_keys=True).encode() + b"\n"


def read_variant(path: Path) -> Variant | None:
    """Return the variant of a variant wheel; None for any other wheel.

    :raises WheelError: it has no ``variant.json``, or one that does not keep the format.
    """
    label = read_wheel_name(path.name).label
    if not label:
        return None
    with open_archive(path) as archive:
        name = f"{info_folder(archive)}/{VARIANT_FILE}"
        data = archive.read(name, LONGEST_TEXT) if name in archive.members else None
    return variant_of(data, path.name, label)


def variant_of(data: bytes | None, filename: str, label: str) -> Variant:
    """Read the ``variant.json`` of a wheel with this label in its file name.

    :param data: None if there is no such file.
    :raises WheelError: there is none, or it does not keep the format.
    """
    where = Place(file=filename)
    if data is None:
        raise WheelError("the name has a variant label, and there is no variant.json", where=where)
    try:
        plain = read_json(data)
        wrong = variant_mistakes(plain)
    except ValueError as error:
        wrong = [f"it is not JSON: {error}"]
    if not wrong and list(plain["variants"]) != [label]:
        wrong = [f"the file name says {label!r}, it says {', '.join(map(repr, plain['variants'])) or 'nothing'}"]
    if wrong:
        raise WheelError(f"variant.json cannot be used: {wrong[0][:_SHOWN]}", where=where)
    return Variant.from_json({"label": label, "properties": plain["variants"][label]})


def variant_mistakes(data: Any) -> list[str]:
    """Compare variant.json, or what an index offers, with the rules of the format; return what is wrong."""
    if not isinstance(data, dict) or not isinstance(data.get("variants"), dict):
        return ["it has no variants"]
    # One version has one answer to who provides what, so that the variants of two wheels can be put together.
    wrong = [f"{key} is not {json.dumps(_HEADER[key])}" for key in _HEADER if data.get(key) != _HEADER[key]]
    wrong += [f"there is no key {key!r}" for key in data if key not in {*_HEADER, "variants"}]
    for label, namespaces in data["variants"].items():
        wrong += [f"variant {label!r}: {reason}" for reason in _variant_mistakes(label, namespaces)]
    return wrong


def label_conflicts(variants: Iterable[Variant]) -> list[str]:
    """Return the labels that stand for more than one set of properties, and the sets that have more than one label."""
    by_label: dict[str, Variant] = {}
    by_properties: dict[str, str] = {}
    wrong = []
    for variant in variants:
        if by_label.setdefault(variant.label, variant) != variant:
            wrong.append(f"{variant.label} stands for other properties already")
        text = json.dumps(variant.to_json()["properties"], sort_keys=True)
        if (known := by_properties.setdefault(text, variant.label)) != variant.label:
            wrong.append(f"{variant.label} has the properties of {known}")
    return wrong


# --- the rules ----------------------------------------------------------------------------------------------


def _variant_mistakes(label: str, namespaces: Any) -> list[str]:
    if not VARIANT_LABEL.fullmatch(label):
        return ["a label has 0-9, a-z, '_' and '.'"]
    if not isinstance(namespaces, dict) or not all(isinstance(item, dict) for item in namespaces.values()):
        return ["it is no mapping of namespaces and features"]
    if (label == NULL) != (not namespaces):
        return [f"{NULL!r} is the label of the variant without properties, and of no other"]
    wrong = [f"nobody provides namespace {name!r}" for name in namespaces if name not in _PROVIDERS]
    wrong += [f"namespace {name!r} is empty" for name, features in namespaces.items() if not features]
    for features in namespaces.values():
        wrong += [f"{name!r} is no name of a feature" for name in features if not _NAME.fullmatch(name)]
        wrong += [f"the values of {name}: {reason}" for name, values in features.items() for reason in _unfit(values)]
    return wrong


def _unfit(values: Any) -> list[str]:
    if not isinstance(values, list) or not values:
        return ["there are none"]
    if bad := [value for value in values if not isinstance(value, str) or not _VALUE.fullmatch(value)]:
        return [f"{bad[0]!r} has more than 0-9, a-z, '_' and '.'"]
    return [] if values == sorted(set(values)) else ["they are not sorted, or stand twice"]


# --- what GPU code runs on ----------------------------------------------------------------------------------


def _machine_code(text: str) -> str:
    major, minor, suffix, _ = parse_capability(text)
    # 9.0a runs on 9.0 alone, which is all that there is of its major; a GPU of 12.1 would take 12.0a for its own.
    # Code for a family (f) runs on what comes later in its major, as plain code does.
    literal = "a" if suffix == "a" and (major, minor) != (9, 0) else ""
    return f"{major}{minor}{literal}_real"


def _ptx(text: str) -> set[str]:
    major, minor, suffix, _ = parse_capability(text)
    later = () if suffix else range(major + 1, _NEWEST_MAJOR + 1)
    return {f"{major}{minor}{suffix}_virtual", *(f"{number}0_virtual" for number in later)}


def _short(value: str) -> str:
    """Return ``90`` for ``90_real`` and ``90v`` for ``90_virtual``, as CMake's words would be too long for a label."""
    number, _, kind = value.partition("_")
    return number if kind == "real" else f"{number}v"


def _ascending(value: str) -> tuple[int, str, str]:
    match = _SM.fullmatch(value)
    assert match is not None  # noqa: S101  # sm_values makes no other
    return int(match["number"]), match["suffix"], match["kind"]
